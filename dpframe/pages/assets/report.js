// Nodes of one hierarchy: the drawing of a view of them, what is under the pointer, and the table.

// Of a rollup every measure, else the count; each has its ends beside it.
const counted = { key: "count", title: "count", said: data.said, total: data.total };
const measures = (data.measures ?? [counted]).map(
  ({ key, title, digits, said, total, texts, ends }) => {
    const [low, high] = data.measures ? [`${key}_lower`, `${key}_upper`] : ["lower", "upper"];
    const cut = (i) => (data.level[i] === 0 ? total : said);
    const numbers = data.measures ? fixed(digits) : figures;
    return { key, title, low, high, cut, numbers, texts, ends };
  },
);
const drawn = measures.find(({ key }) => key === (data.measures ? data.drawn : "count"));
const amountOf = (measure, i) =>
  measure.texts?.[i] ?? written(data[measure.key][i], measure.numbers);
const ordered = data.kind === "date" || data.kind === "number";

const parents = data.parent;
const roots = [...parents.keys()].filter((i) => parents[i] < 0);
const released = data.level.length;
const whole = roots.length === 1 && data.level[roots[0]] === 0;
const top = whole ? roots[0] : released; // without a released total the drawing needs a stand-in
if (!whole) {
  data.level.push(0);
  data.prefix.push("*");
  data.area.push(roots.reduce((sum, i) => sum + data.area[i], 0));
  for (const i of roots) parents[i] = top;
  parents.push(-1);
}

const byName = (i, j) => {
  const [a, b] = [data.prefix[i], data.prefix[j]];
  return (data.kind === "number" && startOf(a) - startOf(b)) || alphabet.compare(a, b);
};

const children = Array.from(data.level, () => []);
parents.forEach((parent, i) => {
  if (parent >= 0) children[parent].push(i);
});
for (const below of children) {
  below.sort(ordered ? byName : (i, j) => data.area[j] - data.area[i] || i - j);
}

const levels = [...new Set(data.level)].sort((a, b) => a - b);
const rowOf = new Map(levels.map((level, row) => [level, row]));

const isTotal = (i) => data.level[i] === 0;
const levelName = (i) => (isTotal(i) ? "" : (data.levels[data.level[i] - 1] ?? ""));

function textOf(i) {
  if (isTotal(i)) return i < released ? "Everything" : "All reported nodes";
  return data.prefix[i];
}

function shortText(i) {
  const above = parents[i];
  const beginning =
    data.joint && above >= 0 && !isTotal(above) ? data.prefix[above] + data.joint : "";
  const text = textOf(i);
  return beginning && text.startsWith(beginning) ? text.slice(beginning.length) : text;
}

/** A label whose parts keep their own writing direction. */
function label(i, text = textOf(i)) {
  const parts = data.joint && !isTotal(i) ? text.split(data.joint) : [text];
  const isolated = parts.flatMap((part, k) => [...(k ? [data.joint] : []), make("bdi", part)]);
  return make("span", isolated, { class: "label" });
}

/** A node and those above it, coarse to fine. */
function lineOf(node) {
  const line = [];
  for (let i = node; i >= 0; i = parents[i]) line.unshift(i);
  return line;
}

/** Rows of a view: a node with all below it, or some neighbouring children of one. */
function within({ node, from, to }) {
  const found = [];
  const waiting = to === undefined ? [node] : children[node].slice(from, to);
  while (waiting.length) {
    const i = waiting.pop();
    if (i < released) found.push(i);
    for (const child of children[i]) waiting.push(child);
  }
  return found;
}

const bounds = (i, { low, high, numbers, ends } = measures[0]) =>
  ends?.[i] ?? interval(data[low][i], data[high][i], numbers);

function sentence(i) {
  const level = levelName(i) ? `, ${levelName(i)}` : "";
  if (i >= released) return `${textOf(i)}, no total was released`;
  const said = measures.map((m) => {
    const ends = m.ends ? `(${bounds(i, m)})` : `from ${bounds(i, m)}`;
    return `${m.title} ${amountOf(m, i)}, ${ends}${m.cut(i)}`;
  });
  if (data.residual) said.push(`residual ${figures.format(data.residual[i])}`);
  return `${textOf(i)}${level}, ${said.join(", ")}`;
}

/** Neighbouring children of a node, drawn as one. */
function some({ node, from, to }) {
  const nodes = to - from === 1 ? "node" : "nodes";
  const [first, last] = [children[node][from], children[node][to - 1]].map(textOf);
  if (ordered && first !== last)
    return `${figures.format(to - from)} ${nodes}, ${first} to ${last}`;
  return `${figures.format(to - from)} smaller ${nodes}`;
}

// -- the drawing: one row a level, a node as wide as its count, children inside their parent ----

const tree = at("tree");
const NARROWEST = 3; // pixels; narrower nodes are drawn together
const GROUP = 12; // pixels of nodes drawn together where there would be too many for one block
const TARGET = 30; // pixels that a block of several nodes gets where nothing else needs them
const LEAST = 84; // pixels of a block that can be read
const SPARED = 0.4; // of a block, for children that are widened beside others that are not

/** How many of some small ones, largest first, get a block of their own; equal ones do alike. */
function alone(sizes, most) {
  if (sizes.length <= Math.max(1, most)) return sizes.length;
  let fit = most - 1; // one is for those that are drawn together
  while (fit > 0 && sizes[fit - 1] === sizes[fit]) fit -= 1;
  return Math.max(0, fit);
}

/** Widths of children, largest first: small ones as wide as can be read, or drawn together.
 *
 * As `dpframe.pages.plot`. Of a list of children the first `single` have a block of their own.
 */
function widened(nodes, width, total, least) {
  const wide = nodes.map((i) => (total > 0 ? (width * data.area[i]) / total : 0));
  const positive = wide.filter((w) => w > 0).length;
  let big = positive;
  let narrower = 1;
  let [single, each, together] = [positive, 0, 0];
  for (;;) {
    let next = big;
    while (next > 0 && wide[next - 1] * narrower < least) next -= 1;
    if (next === big) break;
    big = next; // what others take can make the next one narrow
    const limit = big === 0 ? width : SPARED * width;
    const sizes = nodes.slice(big, positive).map((i) => data.area[i]);
    const own = alone(sizes, Math.floor(limit / least + 1e-9));
    single = big + own;
    const rest = single < positive;
    each = Math.min(least, limit / (own + (rest ? 1 : 0)));
    const sum = (from, to) => wide.slice(from, to).reduce((a, b) => a + b, 0);
    together = rest ? Math.max(each, Math.min(sum(single, positive), limit - own * each)) : 0;
    const left = width - sum(big, positive);
    narrower = left > 0 ? Math.min(1, Math.max(0, width - own * each - together) / left) : 0;
  }
  const widths = wide.slice(0, single).map((w, k) => (k < big ? w * narrower : each));
  return { widths, single, together };
}

let cells = new Map(); // key -> what is drawn
const elements = new Map(); // key -> its element; kept while zooming, and with it the focus
let current = ""; // key of the cell that Tab reaches

function arrange(view, pixels) {
  const placed = new Map();
  const row = (node) => rowOf.get(data.level[node]);

  function putNode(node, x, width, around) {
    placed.set(String(node), { node, x, width, row: row(node), around });
    below(node, x, width, 0, children[node].length, data.area[node]);
  }

  /** A block of neighbouring children, as wide as can be hit where there is room. */
  function putRun(node, from, to, x, width, room) {
    const own = Math.max(width, Math.min(TARGET / pixels, room));
    const isView = node === view.node && from === view.from && to === view.to;
    if (isView || own * pixels < 1) return;
    const highest = Math.min(...children[node].slice(from, to).map(row));
    const run = { node, from, to, x, width: own, row: highest, around: String(node) };
    placed.set(`${node}:${from}-${to}`, run);
  }

  function below(node, x, width, from, to, total) {
    const around = String(node);
    const end = x + width;
    const all = children[node];
    if (!ordered && view.to === undefined && to - from === all.length) {
      const { widths, single, together } = widened(all, width, total, LEAST / pixels);
      widths.forEach((share, k) => {
        putNode(all[k], x, share, around);
        x += share;
      });
      if (single < to) putRun(node, single, to, x, together, end - x);
      return;
    }
    const split = ordered || (node === view.node && view.to !== undefined);
    let run = null;
    const flush = (k) => {
      if (run) putRun(node, run.from, k, run.x, run.width, k === to ? end - run.x : 0);
      run = null;
    };
    for (let k = from; k < to; k += 1) {
      const share = total > 0 ? (width * data.area[all[k]]) / total : 0;
      if (share * pixels < NARROWEST) {
        run ??= { from: k, x, width: 0 };
        run.width += share;
        if (split && run.width * pixels >= GROUP) flush(k + 1);
      } else {
        flush(k);
        putNode(all[k], x, share, around);
      }
      x += share;
    }
    flush(to);
  }

  lineOf(view.node).forEach((node, k, above) => {
    const around = k ? String(above[k - 1]) : "";
    placed.set(String(node), { node, x: 0, width: 1, row: row(node), around, above: true });
  });
  const all = children[view.node];
  const [from, to] = view.to === undefined ? [0, all.length] : [view.from, view.to];
  const shown = all.slice(from, to).reduce((sum, i) => sum + data.area[i], 0);
  below(view.node, 0, 1, from, to, view.to === undefined ? data.area[view.node] : shown);
  return placed;
}

function elementOf(key, cell) {
  let element = elements.get(key);
  if (element) return element;
  const attributes = { class: "cell", role: "treeitem", tabindex: "-1", "data-key": key };
  if (cell.to === undefined) {
    const amount = cell.node < released && drawn ? amountOf(drawn, cell.node) : "";
    const inner = [label(cell.node, shortText(cell.node)), make("span", amount, { class: "amount" })];
    attributes["aria-label"] = sentence(cell.node);
    element = make("div", make("span", inner, { class: "inner" }), attributes);
    element.classList.toggle("invalid", data.prefix[cell.node] === "<invalid>");
  } else {
    const inner = make("span", `+${figures.format(cell.to - cell.from)}`, { class: "inner" });
    element = make("div", inner, { ...attributes, class: "cell rest", "aria-label": some(cell) });
  }
  elements.set(key, element);
  tree.append(element);
  return element;
}

function draw(view) {
  const pixels = tree.clientWidth || 320;
  cells = arrange(view, pixels);
  for (const [key, element] of elements) {
    if (!cells.has(key)) {
      element.remove();
      elements.delete(key);
    }
  }
  const deepest = Math.max(1, levels.length - 1);
  const lowest = Math.max(...[...cells.values()].map((cell) => cell.row));
  at("plot").style.setProperty("--rows", lowest + 1); // no empty rows below what is drawn
  [...at("rows").children].forEach((name, row) => (name.hidden = row > lowest));
  for (const [key, cell] of cells) {
    const element = elementOf(key, cell);
    const gap = cell.around ? cell.row - cells.get(cell.around).row - 1 : 0;
    element.style.left = `${cell.x * 100}%`;
    element.style.width = `${cell.width * 100}%`;
    element.style.setProperty("--row", cell.row);
    element.style.setProperty("--gap", gap);
    element.style.setProperty("--tone", cell.row / deepest);
    element.setAttribute("aria-level", cell.row + 1);
    element.classList.toggle("above", Boolean(cell.above) && key !== String(view.node));
    const wide = cell.width * pixels;
    element.classList.toggle("blank", wide < 28);
    element.classList.toggle("brief", wide < 110);
    element.classList.remove("bare", "unread");
  }
  const isCut = (element) => {
    const [text, amount] = [".label", ".amount"].map((part) => element.querySelector(part));
    if (!text) return false;
    if (amount.offsetWidth > element.firstElementChild.clientWidth - 8) return true;
    return text.scrollWidth > text.clientWidth + 1 || text.scrollHeight > text.clientHeight + 1;
  };
  let cut = [...elements.values()];
  for (const name of ["brief", "bare", "unread"]) {
    // the number below the label, no number, and no label: no part of a label stands for it
    cut = cut.filter(isCut);
    for (const element of cut) element.classList.add(name);
  }
  reach(cells.has(current) ? current : String(view.node));
}

function reach(key) {
  elements.get(current)?.setAttribute("tabindex", "-1");
  current = key;
  elements.get(current)?.setAttribute("tabindex", "0");
}

function markChosen(key) {
  for (const [other, element] of elements) {
    if (other === key) element.setAttribute("aria-selected", "true");
    else element.removeAttribute("aria-selected");
  }
}

function neighbour(key, step) {
  const { row } = cells.get(key);
  const beside = [...cells].filter(([, cell]) => cell.row === row).sort((a, b) => a[1].x - b[1].x);
  const at = beside.findIndex(([other]) => other === key);
  return beside[at + step]?.[0];
}

function firstInside(key) {
  const inside = [...cells].filter(([, cell]) => cell.around === key);
  return inside.sort((a, b) => a[1].x - b[1].x)[0]?.[0];
}

const MOVES = {
  ArrowRight: (key) => neighbour(key, 1),
  ArrowLeft: (key) => neighbour(key, -1),
  ArrowDown: firstInside,
  ArrowUp: (key) => cells.get(key).around || undefined,
  Home: () => String(top),
};

// -- one view for all: the drawing shows what the table lists, and the address remembers it ------

let view = { node: top };

const addressOf = ({ node, from, to }) => `#n=${node}${to === undefined ? "" : `:${from}-${to}`}`;

function viewAt(address) {
  const found = /^#n=(\d{1,9})(?::(\d{1,9})-(\d{1,9}))?$/.exec(address);
  if (!found) return address === "" || address === "#" ? { node: top } : null;
  const [node, from, to] = found.slice(1).map((text) => text && Number(text));
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
  drawTrail(at("trail"), stepsOf(view));
  read(view.to - view.from === 1 ? { node: children[view.node][view.from] } : view);
  fill(within(view), nameOfView());
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

function read(part) {
  const i = part.node;
  const below = (known) => ["Reported below", figures.format(within(part).length - known)];
  const facts = [];
  if (part.to !== undefined) {
    const nodes = children[i].slice(part.from, part.to);
    const sum = drawn && nodes.reduce((sum, k) => sum + data[drawn.key][k], 0);
    const title = data.measures ? `${drawn?.title} together` : "Counts together";
    if (drawn) facts.push([title, drawn.numbers.format(sum)]);
    facts.push(below(nodes.length));
  } else {
    if (i >= released) {
      facts.push([data.measures ? "Total" : "Count", "no total was released"]);
    } else if (data.measures) {
      for (const m of measures) facts.push([m.title, `${amountOf(m, i)} (${bounds(i, m)}${m.cut(i)})`]);
    } else {
      facts.push(["Count", figures.format(data.count[i])]);
      facts.push([`Interval, ${data.confidence}`, `${bounds(i)}${measures[0].cut(i)}`]);
      if (data.residual) facts.push(["Residual", figures.format(data.residual[i])]);
    }
    facts.push(["Level", `${data.level[i]}${levelName(i) ? ` (${levelName(i)})` : ""}`]);
    facts.push(below(i < released ? 1 : 0));
  }
  const heading = part.to === undefined ? label(i) : nameOfPart(part);
  const list = facts.map(([name, value]) => make("div", [make("dt", name), make("dd", value)]));
  at("readout").replaceChildren(make("p", heading, { class: "reading" }), make("dl", list));
}

function stepsOf(view) {
  const steps = lineOf(view.node).map((i) => {
    const here = i === view.node && view.to === undefined;
    return [label(i, shortText(i)), here ? null : () => go({ node: i })];
  });
  const only = view.to - view.from === 1 ? children[view.node][view.from] : -1;
  if (view.to !== undefined) steps.push([only < 0 ? some(view) : label(only, shortText(only)), null]);
  return steps;
}

// -- the table ------------------------------------------------------------------------------------

const COUNTS = { count: "Count", lower: "Lower", upper: "Upper", residual: "Residual" };
const counts = Object.keys(COUNTS).filter((name) => name in data);
let ranks; // of names

function cellsOf(i) {
  const head = make("th", make("button", label(i)), { scope: "row", role: "rowheader" });
  const level = levelName(i) ? [make("small", levelName(i)), " "] : [];
  const numbers = data.measures
    ? measures.map((m) =>
        cellOf([amountOf(m, i), " ", make("small", bounds(i, m))], "number measure", m.title),
      )
    : counts.map((name) => cellOf(written(data[name][i]), `number ${name}`, COUNTS[name]));
  const place = cellOf([...level, String(data.level[i])], "number level");
  return data.levels.length > 1 ? [head, place, ...numbers] : [head, ...numbers];
}

const fill = tableOf({
  size: released,
  by: (drawn ?? measures[0]).key,
  upwards: ["prefix", "level"],
  textOf,
  valuesOf: (by) =>
    by === "prefix"
      ? (ranks ??= ranksOf(released, (i, j) => isTotal(j) - isTotal(i) || byName(i, j)))
      : data[by],
  cellsOf,
  showAll: () => go({ node: top }),
});

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

document.querySelector("#table tbody").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  open(Number(button.closest("tr").dataset.row));
  at("hierarchy").scrollIntoView({ block: "nearest" });
});
addEventListener("hashchange", () => {
  const next = viewAt(location.hash);
  if (next && addressOf(next) !== addressOf(view)) show(next);
});

for (const level of new Set(data.level.slice(0, released))) {
  const name = level ? `${level}: ${data.levels[level - 1]}` : "0: everything";
  at("level").append(new Option(name, level));
}
for (const level of levels) at("rows").append(make("span", level ? data.levels[level - 1] : ""));
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
  const count = widest(["count", "lower", "upper"]);
  const residual = data.residual ? widest(["residual"]) : 0;
  const { classList, style } = at("table");
  classList.toggle("whole", !data.residual);
  if (Math.max(count, residual) > 8) classList.replace("counts", "measures");
  style.setProperty("--count-width", `${count}ch`);
  style.setProperty("--residual-width", `${residual}ch`);
}
if (drawn && data.area.includes(0)) {
  at("hint").append(` Nodes whose ${drawn.title} is not above 0 have no width; the table lists them.`);
}

show(viewAt(location.hash) ?? { node: top });
let wide = tree.clientWidth;
new ResizeObserver(() => {
  if (tree.clientWidth === wide) return;
  wide = tree.clientWidth;
  tree.classList.remove("zooming");
  draw(view);
}).observe(tree);
