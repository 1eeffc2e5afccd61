// What all scripts share: elements, numbers, the trail, and the table of all numbers, which is sorted
// and filtered over all its rows and drawn a page at a time. Labels are data: text, never HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const PAGE = 50; // rows
const at = (id) => document.getElementById(id);
const fold = (text) => text.normalize("NFKC").toLowerCase();
const alphabet = new Intl.Collator("en", { numeric: true });
const figures = new Intl.NumberFormat("en", { maximumFractionDigits: data.digits });
const fixed = (digits) =>
  new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const written = (n, numbers = figures) => (n === null ? "\u2013" : numbers.format(n));
const isUnknown = (n) => n === null || n === undefined; // stands behind all numbers
const startOf = (label) => Number.parseFloat(label.slice(1)) || 0; // of an interval such as [0, 50)

function interval(lower, upper, numbers = figures) {
  if (lower === null) return "unknown";
  return `${numbers.format(lower)} ${upper === null ? "upwards" : `to ${numbers.format(upper)}`}`;
}

/** A new element: what is in it, its attributes, and what a click does. */
function make(tag, content = [], attributes = {}, onClick = undefined) {
  const element = document.createElement(tag);
  element.append(...[content].flat());
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (tag === "button") element.type = "button";
  if (onClick) element.addEventListener("click", onClick);
  return element;
}

/** Fill a trail with pairs of what a step is called and what leads back to it; here leads nowhere. */
function drawTrail(trail, steps) {
  const items = steps.map(([content, go]) =>
    make("li", go ? make("button", content, {}, go) : make("span", content, { "aria-current": "location" })),
  );
  const list = make("ol", items);
  trail.replaceChildren(list);
  list.scrollLeft = list.scrollWidth; // one line always: the drawing must not move while zooming
}

/** The place of every row in an order: comparing text once is enough. */
function ranksOf(size, order) {
  const ranks = new Array(size);
  [...ranks.keys()].sort((i, j) => order(i, j) || i - j).forEach((i, rank) => (ranks[i] = rank));
  return ranks;
}

/** A cell of the table; roles are said aloud, because narrow screens lay rows out as grids. */
function cellOf(content, kind, title = "") {
  return make("td", content, { role: "cell", class: kind, ...(title && { "data-title": title }) });
}

/** The function that fills the table with the rows of a scope, and with words for the scope.
 *
 * Of a row, `textOf` is searched, a number of `valuesOf` sorted, and `cellsOf` drawn. Columns in
 * `upwards` are sorted upwards first; `showAll` makes every row the scope.
 */
function tableOf({ size, by, upwards, textOf, valuesOf, cellsOf, showAll }) {
  const [filter, level, pager, everything] = ["filter", "level", "pager", "everything"].map(at);
  const titles = [...document.querySelectorAll("#table th")];
  const shown = { by, down: true, page: 0, scope: [], words: null, rows: [] };
  let texts;

  function refill() {
    const wanted = fold(filter.value.trim());
    if (wanted) texts ??= Array.from({ length: size }, (_, i) => fold(textOf(i)));
    const values = valuesOf(shown.by);
    const sign = shown.down ? -1 : 1;
    shown.rows = shown.scope
      .filter((i) => level.value === "" || data.level[i] === Number(level.value))
      .filter((i) => !wanted || texts[i].includes(wanted))
      .sort((i, j) => isUnknown(values[i]) - isUnknown(values[j]) || sign * (values[i] - values[j]) || i - j);
    shown.page = 0;
    drawPage();
  }

  function drawPage() {
    const { rows, page } = shown;
    const first = page * PAGE;
    const some = rows.slice(first, first + PAGE);
    const lines = some.map((i) => make("tr", cellsOf(i), { role: "row", "data-row": i }));
    document.querySelector("#table tbody").replaceChildren(...lines);
    for (const head of titles) {
      const sign = shown.down ? "descending" : "ascending";
      if (head.dataset.by === shown.by) head.setAttribute("aria-sort", sign);
      else head.removeAttribute("aria-sort");
    }
    const all = `${figures.format(size)} ${size === 1 ? "row" : "rows"}`;
    const narrowed = shown.scope.length < size;
    at("tally").textContent = rows.length === size ? all : `${figures.format(rows.length)} of ${all}`;
    if (narrowed) at("tally").append(", within ", shown.words);
    everything.hidden = !narrowed && rows.length === size;
    const last = Math.max(0, Math.ceil(rows.length / PAGE) - 1);
    pager.hidden = last === 0;
    const ends = [first + 1, first + some.length, rows.length].map(figures.format);
    at("where").textContent = `${ends[0]} to ${ends[1]} of ${ends[2]}`;
    for (const button of pager.querySelectorAll("button")) {
      button.to = { first: 0, previous: page - 1, next: page + 1, last }[button.dataset.go];
      button.disabled = button.to < 0 || button.to > last || button.to === page;
    }
  }

  for (const head of titles) {
    head.firstElementChild.addEventListener("click", () => {
      const name = head.dataset.by;
      shown.down = shown.by === name ? !shown.down : !upwards.includes(name);
      shown.by = name;
      refill();
    });
  }
  filter.addEventListener("input", refill);
  level.addEventListener("change", refill);
  pager.addEventListener("click", ({ target }) => {
    if (!target.dataset.go) return;
    shown.page = target.to;
    drawPage();
  });
  everything.addEventListener("click", () => {
    filter.value = "";
    level.value = "";
    showAll();
  });
  return (scope, words) => {
    Object.assign(shown, { scope, words });
    refill();
  };
}
