// Draws the figures of a page with plotly.js, which lies beside it, in the colours of the page.
addEventListener("load", function () {
  var dark = matchMedia("(prefers-color-scheme: dark)");
  var plots = Array.from(document.querySelectorAll("div.plot > script")).map(function (script) {
    return { place: script.parentElement, figure: JSON.parse(script.textContent) };
  });

  function draw() {
    var theme = document.body.dataset.theme;
    var isDark = theme === "dark" || (theme !== "light" && dark.matches);
    var ink = isDark ? "#cfd0d0" : "#1c1e21", grid = isDark ? "#3a3d41" : "#dfe2e6";
    plots.forEach(function (plot) {
      var layout = JSON.parse(JSON.stringify(plot.figure.layout));
      layout.template = undefined;
      layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
      var data = JSON.parse(JSON.stringify(plot.figure.data));
      data.forEach(function (trace) {
        ["error_x", "error_y"].forEach(function (name) {
          if (trace[name]) trace[name].color = ink;
        });
        if (/icicle|treemap/.test(trace.type)) {  // blocks keep their light colours
          trace.textfont = Object.assign({}, trace.textfont, { color: "#1c1e21" });
          var pattern = trace.marker && trace.marker.pattern;
          if (pattern) Object.assign(pattern, { bgcolor: "#eef0f3", fgcolor: "#b9bec6" });
        }
      });
      layout.font = Object.assign({}, layout.font, { color: ink });
      Object.keys(layout).forEach(function (name) {
        if (/^[xy]axis/.test(name)) {
          Object.assign(layout[name], { gridcolor: grid, zerolinecolor: grid, linecolor: grid });
        }
      });
      if (plot.place.clientWidth < 560 && layout.title) below(plot.place, layout);
      Plotly.react(plot.place, data, layout, { responsive: true, displayModeBar: false });
    });
  }

  // A phone has no room for the lines above a figure: they go below it.
  function below(place, layout) {
    var said = document.createElement("p");
    said.className = "said";
    said.innerHTML = "<strong></strong> ";
    said.firstChild.textContent = plain(layout.title.text) + ".";
    if (layout.title.subtitle) {
      said.append(plain(layout.title.subtitle.text) + ".");
    }
    if (!place.nextElementSibling) place.after(said);
    layout.title = undefined;
    layout.margin = Object.assign({}, layout.margin, { t: 16 });
  }

  function plain(text) {
    return text.replace(/<br>/g, "; ").replace(/<[^>]*>/g, "");
  }

  draw();
  dark.addEventListener("change", draw);
  new MutationObserver(draw).observe(document.body, { attributeFilter: ["data-theme"] });
});
