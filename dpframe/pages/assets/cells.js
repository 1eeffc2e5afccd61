// Cells of several hierarchies: a matrix of two of them, drilled down, and a table of all.

const rows = [...data.level.keys()];
const focus = [[], []];
const MOST = 24;
const numbers = fixed(data.digits);
const amount = (n) => (n === null ? "unknown" : numbers.format(n));
const labelled = (tag, text, onClick) => make(tag, text, { dir: "auto" }, onClick);

// -- the matrix ---------------------------------------------------------------------------------

/** What a cell is counted under in one dimension: the next node below the focus; null for none. */
const under = (dimension, row) => data.lines[dimension][row][focus[dimension].length] ?? null;
const inFocus = (row) =>
  focus.every((line, d) => line.every((label, i) => data.lines[d][row][i] === label));

/** Whether a cell is at most one level below the focus: of cells that overlap, an entry is one. */
const isNext = (row) => focus.every((line, d) => data.lines[d][row].length <= line.length + 1);

/** The largest nodes of a dimension, and what holds the others. */
function ends(dimension, scope) {
  const sums = new Map();
  for (const row of scope) {
    const name = under(dimension, row);
    sums.set(name, (sums.get(name) ?? 0) + data.residual[row]);
  }
  const here = sums.delete(null);
  const byText = (a, b) => (a < b ? -1 : 1);
  const names = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a) || byText(a, b));
  const largest = names.slice(0, names.length > MOST ? MOST - 1 : MOST);
  const start = (label) => (label.startsWith("[") ? startOf(label) : 0); // dates sort as texts do
  if (data.ordered[dimension]) largest.sort((a, b) => start(a) - start(b) || byText(a, b));
  const places = new Map(largest.map((name, i) => [name, i]));
  const heads = largest.map((name) => ({ name, text: name }));
  const others = names.length - largest.length;
  if (others) heads.push({ name: undefined, text: `${others} others` });
  if (here) heads.push({ name: null, text: "all of it" });
  const place = (row) => {
    const name = under(dimension, row);
    return name === null ? heads.length - 1 : (places.get(name) ?? largest.length);
  };
  return { heads, place };
}

function goTo(dimension, line) {
  focus[dimension] = line;
  drawMatrix();
}

/** Whether something is reported below a node. */
function isOpen(dimension, name, scope) {
  const depth = focus[dimension].length;
  const lines = data.lines[dimension];
  return (
    typeof name === "string" &&
    scope.some((row) => lines[row][depth] === name && lines[row].length > depth + 1)
  );
}

function headOf(dimension, { name, text }, scope) {
  const go = () => goTo(dimension, [...focus[dimension], name]);
  const content = isOpen(dimension, name, scope) ? labelled("button", text, go) : labelled("span", text);
  return make("th", content, { scope: dimension ? "col" : "row" });
}

const sumOf = (n) => make("td", make("span", amount(n)), { class: "sum" });
const total = (list) => list.reduce((a, b) => a + b, 0);

function drawMatrix() {
  if (at("matrix").hidden) return;
  for (const d of [0, 1]) {
    at(`trail-${d}`).dataset.of = data.names[d];
    const steps = ["*", ...focus[d]].map((label, i) => [
      labelled("span", label),
      i < focus[d].length ? () => goTo(d, focus[d].slice(0, i)) : null,
    ]);
    drawTrail(at(`trail-${d}`), steps);
  }
  const scope = rows.filter((row) => (data.overlap || data.level[row] > 0) && inFocus(row));
  const own = data.overlap ? scope.filter(isNext) : scope;
  const [down, across] = [ends(0, own), ends(1, own)];
  const cells = down.heads.map(() => across.heads.map(() => ({ sum: 0, number: 0 })));
  for (const row of own) {
    const cell = cells[down.place(row)][across.place(row)];
    cell.sum += data.residual[row];
    cell.number += 1;
  }
  const sums = cells.map((line) => line.map(({ sum }) => sum));
  const most = Math.max(1, ...sums.flat());
  const top = across.heads.map((one) => headOf(1, one, scope));
  const sumEnd = (...content) => (data.overlap ? [] : content); // numbers that overlap have no sum
  const body = down.heads.map((one, i) => {
    const line = across.heads.map((other, j) => entryOf([one, other], cells[i][j], most, scope));
    return make("tr", [headOf(0, one, scope), ...line, ...sumEnd(sumOf(total(sums[i])))]);
  });
  const foot = across.heads.map((_, j) => sumOf(total(sums.map((line) => line[j]))));
  const last = make("tr", [make("th", "Sum"), ...foot, sumOf(total(sums.flat()))]);
  const corner = make("th", data.names.join(" \\ "));
  at("grid").replaceChildren(
    make("thead", make("tr", [corner, ...top, ...sumEnd(make("th", "Sum"))])),
    make("tbody", [...body, ...sumEnd(last)]),
  );
}

function entryOf(ends, { sum, number }, most, scope) {
  const isOne = !data.overlap || ends.every(({ name }) => name !== undefined);
  const text = number && isOne ? amount(sum) : "";
  const open = ends.map(({ name }, i) => number && isOpen(i, name, scope));
  const go = () => {
    ends.forEach(({ name }, i) => open[i] && focus[i].push(name));
    drawMatrix();
    at("scroll").focus({ preventScroll: true });
  };
  const cell = make("td", open.some(Boolean) ? make("button", text, {}, go) : make("span", text));
  if (number) {
    cell.style.setProperty("--tone", Math.sqrt(Math.max(0, sum) / most));
    const names = ends.map((one) => one.text).join(" * ");
    const of = data.overlap ? "" : ` in ${number} reported cell${number > 1 ? "s" : ""}`;
    cell.title = `${names}: ${text}${of}`;
  }
  return cell;
}

// -- the table ----------------------------------------------------------------------------------

const NUMBERS = { residual: ["lower", "upper"], count: ["count_lower", "count_upper"] };
const label = (dimension, row) => data.lines[dimension][row].at(-1) ?? "*";
const ranks = {}; // of the names of a dimension
const ranksIn = (d) =>
  (ranks[d] ??= ranksOf(rows.length, (a, b) => alphabet.compare(label(d, a), label(d, b))));

function cellsOf(row) {
  const [first, ...others] = data.names.map((_, d) =>
    make("span", label(d, row), { class: "label", dir: "auto" }),
  );
  const amounts = Object.keys(NUMBERS).filter((name) => data[name]);
  return [
    make("th", first, { scope: "row", role: "rowheader" }),
    ...others.map((name) => cellOf(name, "dimension")),
    cellOf(data.kind[row], "kind optional"),
    ...amounts.map((name) => {
      const between = NUMBERS[name].map((end) => amount(data[end][row])).join(" to ");
      const said = name === "residual" && data.texts; // quantiles come as words
      const [number, small] = said ? [data.texts[row], data.ends[row]] : [amount(data[name][row]), between];
      return cellOf([number, make("small", small)], `number ${name}`);
    }),
  ];
}

const fill = tableOf({
  size: rows.length,
  by: "residual",
  upwards: [...data.names.keys()].map(String).concat("level"),
  textOf: (row) => data.names.map((_, d) => label(d, row)).join("\n"),
  valuesOf: (by) => (by in data.names ? ranksIn(by) : data[by]),
  cellsOf,
  showAll: () => fill(rows),
});
fill(rows);
drawMatrix();
