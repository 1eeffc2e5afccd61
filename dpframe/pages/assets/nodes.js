// The released nodes: names, children, what lies in a view. Labels are data: text, never HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const figures = new Intl.NumberFormat("en", { maximumFractionDigits: data.digits });
const fixed = (digits) =>
  new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

// Of a rollup every measure, else the count; each has its ends beside it.
const measures = (data.measures ?? [{ key: "count", title: "count" }]).map(
  ({ key, title, digits }) => {
    const [low, high] = data.measures ? [`${key}_lower`, `${key}_upper`] : ["lower", "upper"];
    return { key, title, low, high, numbers: data.measures ? fixed(digits) : figures };
  },
);
const drawn = measures.find(({ key }) => key === (data.measures ? data.drawn : "count"));
const amountOf = (measure, i) =>
  data[measure.key][i] === null ? "\u2013" : measure.numbers.format(data[measure.key][i]);
const alphabet = new Intl.Collator("en", { numeric: true });
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

const start = (i) => Number.parseFloat(data.prefix[i].slice(1)); // of an interval such as [0, 50)
const byName =
  data.kind === "number"
    ? (i, j) =>
        (start(i) || 0) - (start(j) || 0) || alphabet.compare(data.prefix[i], data.prefix[j])
    : (i, j) => alphabet.compare(data.prefix[i], data.prefix[j]);

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
  const line = document.createElement("span");
  line.className = "label";
  const parts = data.joint && !isTotal(i) ? text.split(data.joint) : [text];
  parts.forEach((part, k) => {
    if (k) line.append(data.joint);
    const isolated = document.createElement("bdi");
    isolated.textContent = part;
    line.append(isolated);
  });
  return line;
}

/** Rows of a view: a node with all below it, or some neighbouring children of one. */
function within(view) {
  const found = [];
  const waiting =
    view.to === undefined ? [view.node] : children[view.node].slice(view.from, view.to);
  while (waiting.length) {
    const i = waiting.pop();
    if (i < released) found.push(i);
    for (const child of children[i]) waiting.push(child);
  }
  return found;
}

function bounds(i, { low, high, numbers } = measures[0]) {
  const [lower, upper] = [data[low][i], data[high][i]];
  if (lower === null) return "unknown";
  return `${numbers.format(lower)} ${upper === null ? "upwards" : `to ${numbers.format(upper)}`}`;
}

function sentence(i) {
  const level = levelName(i) ? `, ${levelName(i)}` : "";
  if (i >= released) return `${textOf(i)}, no total was released`;
  const said = measures.map((m) => `${m.title} ${amountOf(m, i)}, from ${bounds(i, m)}`);
  if (!data.measures) said.push(`residual ${figures.format(data.residual[i])}`);
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
