// What all views of the gateway's page share: requests, elements, numbers, words, and a table that
// draws a page of its rows at a time. What the gateway sends is text, never HTML.

const TOKEN = "dpframe token"; // in the tab's own storage, which ends with the tab
const ROWS = 50; // of a page of a table

export const at = (id) => document.getElementById(id);
export const token = () => sessionStorage.getItem(TOKEN);

export function keepToken(text) {
  if (text) sessionStorage.setItem(TOKEN, text);
  else sessionStorage.removeItem(TOKEN);
}

// -- requests -------------------------------------------------------------------------------------

/** What the gateway says in the place of an answer: a sentence, and its status; 0 without one. */
export class Refusal extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

/** The response to a request; a Refusal if the gateway refuses it or cannot be reached. */
export async function ask(path, { given, accept = "application/json", signal } = {}) {
  const headers = { Accept: accept };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  const sent = { headers, signal, cache: "no-store", redirect: "error" };
  if (given) {
    Object.assign(sent, { method: "POST", body: JSON.stringify(given) });
    headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(`api/${path}`, sent);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(
      "The gateway does not answer. Check your connection, and reload the page.",
      0,
    );
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  const sentence = problem.detail ?? `The gateway answered with status ${response.status}.`;
  throw new Refusal(sentence, response.status);
}

export const askJson = async (path, sent) => (await ask(path, sent)).json();
export const pathOf = (...names) => ["datasets", ...names.map(encodeURIComponent)].join("/");

/** Save bytes or text to a file of the reader's. */
export function save(content, name) {
  const link = make("a", [], { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// -- elements -------------------------------------------------------------------------------------

/** A new element: what is in it, its attributes, and what a click does. Attributes that are false
 * or missing are left out. */
export function make(tag, content = [], attributes = {}, onClick = undefined) {
  const element = document.createElement(tag);
  element.append(...[content].flat(2).filter((one) => one !== null && one !== undefined));
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, value);
  }
  if (tag === "button") element.type = "button";
  if (onClick) element.addEventListener("click", onClick);
  return element;
}

/** Tell those who do not see the page what changed on it. */
export function say(sentence) {
  at("said").textContent = sentence;
}

/** A section with a heading. */
export function section(title, content, attributes = {}) {
  const id = `title-${title.toLowerCase().replaceAll(/\W+/g, "-")}`;
  const heading = make("h2", title, { id });
  return make("section", [heading, content], { "aria-labelledby": id, ...attributes });
}

export function link(content, ...steps) {
  return make("a", content, { href: addressOf(...steps) });
}

export const addressOf = (...steps) => `#/${steps.map(encodeURIComponent).join("/")}`;

// -- numbers and words ----------------------------------------------------------------------------

const figures = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
export const amount = (number) =>
  // of epsilon or delta
  number > 0 && number < 1e-3
    ? Number(number.toPrecision(4)).toExponential()
    : figures.format(number);
export const count = (number, one, many = `${one}s`) =>
  `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const days = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeStyle: "short" });

/** A value of a card or a plan. */
export function valueText(value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number" || Number.isInteger(value)) return String(value);
  return String(Number(value.toPrecision(4)));
}

/** A moment in the reader's own time. */
export function moment(text) {
  const time = new Date(text);
  return Number.isNaN(time.valueOf()) ? text : days.format(time);
}

/** Why an answer is free, with moments that people read. */
export function reason(free) {
  return free.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)/g, (found) => moment(found));
}

/** What was asked, in a few words. */
export function titleOf(question, given) {
  const parts = [given.by ?? given.hierarchy ?? given.column ?? []].flat();
  const crossed = parts.some((one) => one.includes(":"));
  const plain = parts.map(levelsText).join(crossed ? " × " : " › ");
  const measures =
    typeof given.measures === "object" && !Array.isArray(given.measures)
      ? Object.keys(given.measures)
      : [given.measures ?? []].flat();
  const words = {
    rollup: () => `${capital(measures.join(", "))} by ${plain}`,
    hhh: () => `Heavy nodes of ${plain}`,
    heavy_hitters: () => `Most common values of ${plain}`,
    tree_counts: () => `Counts of ${plain}`,
    sql: () => String(given.query).trim().replaceAll(/\s+/g, " "),
  }[question];
  const period = [given.period ?? []].flat().at(-1);
  return `${words ? words() : "Release"}${period ? `, ${period}` : ""}`;
}

/** The columns of the text of a hierarchy. */
export function levelsText(spec) {
  const [, kind, rest] = /^(\w+):(.*)$/s.exec(spec) ?? [null, "columns", encodeURIComponent(spec)];
  const [columns, options] = rest.split(/[?;]/);
  const names = columns
    .split(",")
    .map(decode)
    .join(kind === "sets" ? " × " : " › ");
  const levels = kind === "date" && /levels=([^&]*)/.exec(options ?? "");
  return levels ? `${names} by ${levels[1].split(",").map(decode).join(" › ")}` : names;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// -- budgets --------------------------------------------------------------------------------------

/** Bars of what is left of each share and of the total; what the question takes is hatched. */
export function budgetBars(rows, isFree = false) {
  const lines = rows.map((row) => {
    const after = isFree || row.after === undefined ? row.left : row.after;
    const part = (number) => `${(100 * Math.min(number, row.epsilon)) / (row.epsilon || 1)}%`;
    const bar = make("div", [make("i"), make("i")], { class: "budget", "aria-hidden": "true" });
    bar.firstChild.style.width = part(after);
    bar.lastChild.style.width = part(row.left - after);
    const [number, whole] = [amount(row.left), amount(row.epsilon)];
    const then = after < row.left ? `, then ${amount(after)}` : "";
    const words = `${number} of ${whole}${then}`;
    return make("tr", [
      make("th", capital(row.of), { scope: "row" }),
      make("td", row.fits === false && !isFree ? `${number} of ${whole}: too little` : words),
      make("td", bar, { "aria-hidden": "true" }),
    ]);
  });
  const caption = make("caption", "What is left of epsilon");
  return make("table", [caption, make("tbody", lines)], { class: "budgets" });
}

// -- tables ---------------------------------------------------------------------------------------

/** A table of many rows: a page of them at a time, and a box that filters them.
 *
 * Of a row, `textOf` is searched, and `cellsOf` are drawn; its first cell heads the row.
 */
export function pagedTable({ caption, heads, rows, textOf, cellsOf, kind, what = "row" }) {
  if (rows.length === 0) return [make("p", "Nothing yet.", { class: "soft" })];
  const shown = { page: 0, rows };
  const body = make("tbody", [], { role: "rowgroup" }); // narrow screens lay rows out as boxes
  const tally = make("p", [], { role: "status", class: "soft" });
  const where = make("span");
  const filter = make("input", [], { type: "search", autocomplete: "off", spellcheck: "false" });
  const turn = (words, step) =>
    make("button", words, {}, () => {
      shown.page += step;
      draw();
    });
  const [previous, next] = [turn("Previous", -1), turn("Next", 1)];
  const pager = make("div", [previous, where, next], { class: "pager", role: "group" });
  pager.setAttribute("aria-label", "Pages of the table");

  function cell(content, i) {
    const role = i ? { role: "cell" } : { role: "rowheader", scope: "row" };
    return make(i ? "td" : "th", content, {
      ...{ class: heads[i].kind, "data-name": heads[i].name, ...role },
    });
  }

  function draw() {
    const first = shown.page * ROWS;
    const some = shown.rows.slice(first, first + ROWS);
    body.replaceChildren(...some.map((row) => make("tr", cellsOf(row).map(cell), { role: "row" })));
    const all = count(rows.length, ...[what].flat());
    const found = shown.rows.length;
    tally.textContent = found === rows.length ? all : `${found.toLocaleString("en")} of ${all}`;
    const ends = [first + 1, first + some.length, found].map((n) => n.toLocaleString("en"));
    where.textContent = `${ends[0]} to ${ends[1]} of ${ends[2]}`;
    pager.hidden = found <= ROWS;
    previous.disabled = shown.page === 0;
    next.disabled = first + ROWS >= found;
  }

  filter.addEventListener("input", () => {
    const wanted = fold(filter.value.trim());
    shown.rows = wanted ? rows.filter((row) => fold(textOf(row)).includes(wanted)) : rows;
    shown.page = 0;
    draw();
  });
  const titles = heads.map(({ title, kind: of }) =>
    make("th", title, { scope: "col", class: of, role: "columnheader" }),
  );
  const head = make("thead", make("tr", titles, { role: "row" }), { role: "rowgroup" });
  const name = make("caption", caption, { class: "unseen" });
  const table = make("table", [name, head, body], { class: kind, role: "table" });
  const box = make("div", table, { class: "scrolling", tabindex: "0", role: "region" });
  box.setAttribute("aria-label", caption);
  const search = make("label", [make("span", "Filter"), filter], { class: "grow" });
  draw();
  return [
    rows.length > 10 && make("div", search, { class: "tools" }),
    make("div", tally, { class: "tally" }),
    box,
    pager,
  ].filter(Boolean);
}

const fold = (text) => text.normalize("NFKC").toLowerCase();
