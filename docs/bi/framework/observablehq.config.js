export default {
  title: "Revenue",
  root: "src",
  globalStylesheets: [], // no fonts from elsewhere
  sidebar: false,
  toc: false,
  pager: false,
  footer: ""
};
