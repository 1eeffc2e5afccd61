// One view for all: what the drawing shows is what the table lists; the address remembers it.

const readout = document.getElementById("readout");
const trail = document.getElementById("trail");
let view = { node: top };

const addressOf = ({ node, from, to }) => `#n=${node}${to === undefined ? "" : `:${from}-${to}`}`;

function viewAt(address) {
  const found = /^#n=(\d{1,9})(?::(\d{1,9})-(\d{1,9}))?$/.exec(address);
  if (!found) return address === "" || address === "#" ? { node: top } : null;
  const [node, from, to] = found
    .slice(1)
    .map((text) => (text === undefined ? undefined : Number(text)));
  if (node >= data.level.length) return null;
  if (to !== undefined && !(from < to && to <= children[node].length)) return null;
  return to === undefined ? { node } : { node, from, to };
}

/** Some neighbouring children, or the only one, in words. */
function nameOfPart(part) {
  if (part.to - part.from === 1) return label(children[part.node][part.from]);
  const name = label(part.node);
  name.prepend(`${some(part)} of `);
  return name;
}

const nameOfView = () => (view.to === undefined ? label(view.node) : nameOfPart(view));

function show(next) {
  const focused = tree.contains(document.activeElement);
  view = next;
  current = String(view.node);
  tree.classList.toggle("zooming", elements.size > 0 && elements.size < 400);
  draw(view);
  markChosen(null);
  if (focused) elements.get(current)?.focus({ preventScroll: true });
  drawTrail();
  read(view.to - view.from === 1 ? { node: children[view.node][view.from] } : view);
  table.scope = within(view);
  refill();
}

function go(next) {
  show(next);
  if (location.hash !== addressOf(next)) location.hash = addressOf(next);
}

function outward() {
  if (view.to !== undefined) go({ node: view.node });
  else if (parents[view.node] >= 0) go({ node: parents[view.node] });
}

/** A leaf has nothing to zoom into: it is chosen where it stands. */
function open(node) {
  if (children[node].length || node === top) {
    go({ node });
    return;
  }
  if (!cells.has(String(node))) go({ node: parents[node] });
  if (!cells.has(String(node))) {
    const at = children[parents[node]].indexOf(node);
    go({ node: parents[node], from: at, to: at + 1 });
  }
  read({ node });
  markChosen(String(node));
}

function activate(key) {
  const cell = cells.get(key);
  if (cell.to === undefined) open(cell.node);
  else go({ node: cell.node, from: cell.from, to: cell.to });
  if (elements.has(key)) reach(key);
}

// -- what is under the pointer or the focus -------------------------------------------------------

function fact(list, name, value) {
  const pair = document.createElement("div");
  const term = document.createElement("dt");
  const what = document.createElement("dd");
  term.textContent = name;
  what.textContent = value;
  pair.append(term, what);
  list.append(pair);
}

function read(part) {
  const i = part.node;
  const heading = document.createElement("p");
  heading.className = "reading";
  const list = document.createElement("dl");
  if (part.to !== undefined) {
    const nodes = children[i].slice(part.from, part.to);
    heading.append(nameOfPart(part));
    if (drawn) {
      const title = data.measures ? `${drawn.title} together` : "Counts together";
      const sum = nodes.reduce((sum, k) => sum + data[drawn.key][k], 0);
      fact(list, title, drawn.numbers.format(sum));
    }
    fact(list, "Reported below", figures.format(within(part).length - nodes.length));
  } else {
    heading.append(label(i));
    if (i < released && data.measures) {
      for (const m of measures) fact(list, m.title, `${amountOf(m, i)} (${bounds(i, m)})`);
    } else if (i < released) {
      fact(list, "Count", figures.format(data.count[i]));
      fact(list, `Interval, ${data.confidence}`, bounds(i));
      fact(list, "Residual", figures.format(data.residual[i]));
    } else {
      fact(list, data.measures ? "Total" : "Count", "no total was released");
    }
    fact(list, "Level", `${data.level[i]}${levelName(i) ? ` (${levelName(i)})` : ""}`);
    fact(
      list,
      "Reported below",
      figures.format(within({ node: i }).length - (i < released ? 1 : 0)),
    );
  }
  readout.replaceChildren(heading, list);
}

function drawTrail() {
  const list = document.createElement("ol");
  const add = (content, target) => {
    const item = document.createElement("li");
    if (target) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(content);
      button.addEventListener("click", () => go(target));
      item.append(button);
    } else {
      const here = document.createElement("span");
      here.setAttribute("aria-current", "location");
      here.append(content);
      item.append(here);
    }
    list.append(item);
  };
  const above = [];
  for (let i = view.node; i >= 0; i = parents[i]) above.unshift(i);
  for (const i of above) {
    const here = i === view.node && view.to === undefined;
    add(label(i, shortText(i)), here ? null : { node: i });
  }
  const only = view.to - view.from === 1 ? children[view.node][view.from] : -1;
  if (view.to !== undefined) add(only < 0 ? some(view) : label(only, shortText(only)), null);
  trail.replaceChildren(list);
  list.scrollLeft = list.scrollWidth; // one line always: the drawing must not move while zooming
}

// -- events ---------------------------------------------------------------------------------------

const keyAt = (event) => event.target.closest?.(".cell")?.dataset.key;

tree.addEventListener("click", (event) => keyAt(event) && activate(keyAt(event)));
tree.addEventListener("pointerover", (event) => keyAt(event) && read(cells.get(keyAt(event))));
tree.addEventListener("pointerleave", (event) => {
  const chosen = tree.querySelector("[aria-selected]")?.dataset.key ?? current;
  if (event.pointerType === "mouse") read(cells.get(chosen));
});
tree.addEventListener("focusin", (event) => {
  reach(keyAt(event));
  read(cells.get(keyAt(event)));
});
tree.addEventListener("keydown", (event) => {
  const key = keyAt(event);
  if (!key || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "Enter" || event.key === " ") activate(key);
  else if (event.key === "Escape") outward();
  else if (MOVES[event.key]) elements.get(MOVES[event.key](key))?.focus();
  else return;
  event.preventDefault();
});

body.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  open(Number(button.closest("tr").dataset.node));
  document.getElementById("hierarchy").scrollIntoView({ block: "nearest" });
});
for (const head of titles)
  head.firstElementChild.addEventListener("click", () => sortBy(head.dataset.by));
filter.addEventListener("input", refill);
levelChoice.addEventListener("change", refill);
pager.addEventListener(
  "click",
  (event) => event.target.dataset.go && turn(event.target.dataset.go),
);
everything.addEventListener("click", () => {
  filter.value = "";
  levelChoice.value = "";
  go({ node: top });
});
addEventListener("hashchange", () => {
  const next = viewAt(location.hash);
  if (next && addressOf(next) !== addressOf(view)) show(next);
});

for (const level of new Set(data.level.slice(0, released))) {
  const name = level ? `${level}: ${data.levels[level - 1]}` : "0: everything";
  levelChoice.append(new Option(name, level));
}
for (const level of levels) {
  const row = document.createElement("span");
  row.textContent = level ? data.levels[level - 1] : "";
  document.getElementById("rows").append(row);
}
const widest = (names) =>
  names.reduce((most, name) => {
    const ends = data[name].reduce(
      ([low, high], n) => [Math.min(low, n), Math.max(high, n)],
      [0, 0],
    );
    const wide = (text) => text.length - text.split(",").length / 2; // a comma is half a digit
    return Math.max(most, ...ends.map((n) => wide(figures.format(n))));
  }, 0);
if (!data.measures) {
  const { style } = document.getElementById("table");
  const longest = Math.max(widest(["count", "lower", "upper"]), widest(["residual"]));
  document.getElementById("table").classList.toggle("long", longest > 8);
  style.setProperty("--count-width", `${widest(["count", "lower", "upper"])}ch`);
  style.setProperty("--residual-width", `${widest(["residual"])}ch`);
}
if (drawn && data.area.includes(0)) {
  document
    .getElementById("hint")
    .append(` Nodes whose ${drawn.title} is not above 0 have no width; the table lists them.`);
}
document.getElementById("plot").style.setProperty("--rows", levels.length);

show(viewAt(location.hash) ?? { node: top });
let wide = tree.clientWidth;
new ResizeObserver(() => {
  if (tree.clientWidth === wide) return;
  wide = tree.clientWidth;
  tree.classList.remove("zooming");
  draw(view);
}).observe(tree);
