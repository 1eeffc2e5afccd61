// Cells of several hierarchies: a matrix of two of them, drilled down, and a table of all.

const data = JSON.parse(document.getElementById("data").textContent);
const rows = [...data.level.keys()];
const focus = [[], []];
const MOST = 24;
const STEP = 100;
const list = { by: "residual", down: true, shown: STEP };
const at = (name) => document.getElementById(name);
const amount = (n) =>
  n === null ? "unknown" : n.toLocaleString("en", { minimumFractionDigits: data.digits, maximumFractionDigits: data.digits });
const same = (line, other) => other.every((label, i) => line[i] === label);

function made(tag, text, more = {}) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  return Object.assign(element, more);
}

function labelled(tag, text, more) {
  return made(tag, text, { dir: "auto", ...more });
}

// -- the matrix ---------------------------------------------------------------------------------

/** What a cell is counted under in one dimension: the next node below the focus, or the focus. */
function under(dimension, row) {
  const line = data.lines[dimension][row];
  const depth = focus[dimension].length;
  return line.length > depth ? line[depth] : null;
}

function inFocus(row) {
  return focus.every((line, i) => same(data.lines[i][row], line));
}

/** The largest nodes of a dimension, and what holds the others. */
function ends(dimension, scope) {
  const sums = new Map();
  for (const row of scope) {
    const name = under(dimension, row);
    sums.set(name, (sums.get(name) ?? 0) + data.residual[row]);
  }
  const here = sums.has(null);
  sums.delete(null);
  const names = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a) || (a < b ? -1 : 1));
  const kept = names.slice(0, names.length > MOST ? MOST - 1 : MOST);
  if (data.ordered[dimension]) kept.sort((a, b) => start(a) - start(b) || (a < b ? -1 : 1));
  const places = new Map(kept.map((name, i) => [name, i]));
  const heads = kept.map((name) => ({ name, text: name }));
  const rest = names.length - kept.length;
  if (rest) heads.push({ name: undefined, text: `${rest} others` });
  if (here) heads.push({ name: null, text: "all of it" });
  const place = (row) => {
    const name = under(dimension, row);
    if (name === null) return heads.length - 1;
    return places.get(name) ?? kept.length;
  };
  return { heads, place };
}

/** Where an interval begins; dates sort as texts do. */
const start = (label) => (label.startsWith("[") ? parseFloat(label.slice(1)) : 0);

function goTo(dimension, line) {
  focus[dimension] = line;
  drawMatrix();
}

function drawTrail(dimension) {
  const trail = at(`trail-${dimension}`);
  const parts = [made("span", data.names[dimension], { className: "of" })];
  ["*", ...focus[dimension]].forEach((label, i) => {
    if (i) parts.push(made("span", "›", { className: "sign" }));
    const last = i === focus[dimension].length;
    const part = labelled(last ? "span" : "button", label);
    if (last) part.setAttribute("aria-current", "location");
    else part.addEventListener("click", () => goTo(dimension, focus[dimension].slice(0, i)));
    parts.push(part);
  });
  trail.replaceChildren(...parts);
}

function head(dimension, one, scope) {
  const cell = made("th");
  cell.scope = dimension ? "col" : "row";
  if (typeof one.name !== "string" || !deeper(dimension, one.name, scope)) {
    cell.append(labelled("span", one.text));
    return cell;
  }
  const button = labelled("button", one.text, { type: "button" });
  button.addEventListener("click", () => goTo(dimension, [...focus[dimension], one.name]));
  cell.append(button);
  return cell;
}

/** Whether something is reported below a node. */
function deeper(dimension, name, scope) {
  const depth = focus[dimension].length;
  return scope.some((row) => {
    const line = data.lines[dimension][row];
    return line[depth] === name && line.length > depth + 1;
  });
}

function drawMatrix() {
  if (at("matrix").hidden) return;
  [0, 1].forEach(drawTrail);
  const scope = rows.filter((row) => data.level[row] > 0 && inFocus(row));
  const down = ends(0, scope);
  const across = ends(1, scope);
  const sums = down.heads.map(() => across.heads.map(() => 0));
  const cells = down.heads.map(() => across.heads.map(() => 0));
  for (const row of scope) {
    const [i, j] = [down.place(row), across.place(row)];
    sums[i][j] += data.residual[row];
    cells[i][j] += 1;
  }
  const most = Math.max(1, ...sums.flat());
  const top = made("tr");
  top.append(made("th", `${data.names[0]} \\ ${data.names[1]}`));
  top.append(...across.heads.map((one) => head(1, one, scope)), made("th", "Sum"));
  const thead = made("thead");
  thead.append(top);
  const body = made("tbody");
  down.heads.forEach((one, i) => {
    const line = made("tr");
    line.append(head(0, one, scope));
    across.heads.forEach((other, j) => line.append(entry(one, other, sums[i][j], cells[i][j], most, scope)));
    line.append(sumOf(sums[i].reduce((a, b) => a + b, 0)));
    body.append(line);
  });
  const foot = made("tr");
  foot.append(made("th", "Sum"));
  across.heads.forEach((_, j) => foot.append(sumOf(sums.reduce((a, line) => a + line[j], 0))));
  foot.append(sumOf(sums.flat().reduce((a, b) => a + b, 0)));
  body.append(foot);
  at("grid").replaceChildren(thead, body);
}

function sumOf(n) {
  const cell = made("td", undefined, { className: "sum" });
  cell.append(made("span", amount(n)));
  return cell;
}

function entry(one, other, sum, number, most, scope) {
  const cell = made("td");
  const tone = Math.sqrt(Math.max(0, sum) / most);
  cell.style.setProperty("--tone", tone);
  cell.style.setProperty("--some", number ? 1 : 0);
  const goes = [one, other].map(({ name }, i) => typeof name === "string" && deeper(i, name, scope));
  const text = number ? amount(sum) : "";
  if (!number || !goes.includes(true)) {
    cell.append(made("span", text));
  } else {
    const button = made("button", text, { type: "button" });
    button.addEventListener("click", () => {
      [one, other].forEach(({ name }, i) => {
        if (goes[i]) focus[i] = [...focus[i], name];
      });
      drawMatrix();
      at("scroll").focus({ preventScroll: true });
    });
    cell.append(button);
  }
  if (number) cell.title = `${one.text} * ${other.text}: ${text} in ${number} reported cell${number > 1 ? "s" : ""}`;
  return cell;
}

// -- the table ----------------------------------------------------------------------------------

const RESIDUAL = ["residual", "lower", "upper"];
const COUNT = ["count", "count_lower", "count_upper"];
const numbers = data.count ? ["residual", "count"] : ["residual"];
const fold = (text) => text.normalize("NFKC").toLowerCase();
const label = (dimension, row) => data.lines[dimension][row].at(-1) ?? "*";
const texts = rows.map((row) => fold(data.names.map((_, i) => label(i, row)).join("\n")));

function drawHeads() {
  const columns = [...data.names.keys(), "level", ...numbers];
  const titles = [...data.names, "Kind", data.title, "Whole count"];
  const heads = columns.map((by, i) => {
    const cell = made("th", undefined, { scope: "col", className: numbers.includes(by) ? "number" : by === "level" ? "kind" : "" });
    const button = labelled("button", titles[i], { type: "button" });
    button.addEventListener("click", () => {
      list.down = list.by === by ? !list.down : numbers.includes(by);
      list.by = by;
      drawHeads();
      drawList();
    });
    if (list.by === by) cell.setAttribute("aria-sort", list.down ? "descending" : "ascending");
    cell.append(button);
    return cell;
  });
  at("heads").replaceChildren(...heads);
}

function drawList() {
  const wanted = fold(at("filter").value.trim());
  const found = rows.filter((row) => texts[row].includes(wanted));
  const value = typeof list.by === "number" ? (row) => label(list.by, row) : (row) => data[list.by][row];
  const order = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
  found.sort((a, b) => (list.down ? order(b, a) : order(a, b)) || a - b);
  const lines = found.slice(0, list.shown).map((row) => {
    const line = made("tr");
    data.names.forEach((_, i) => {
      const cell = made("td");
      cell.append(labelled("span", label(i, row), { className: "label" }));
      line.append(cell);
    });
    line.append(made("td", data.kind[row], { className: "kind" }));
    for (const [value, lower, upper] of data.count ? [RESIDUAL, COUNT] : [RESIDUAL]) {
      const number = made("td", amount(data[value][row]), { className: "number" });
      number.append(made("small", `${amount(data[lower][row])} to ${amount(data[upper][row])}`));
      line.append(number);
    }
    return line;
  });
  document.querySelector("#list tbody").replaceChildren(...lines);
  at("tally").textContent = `${found.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`;
  at("everything").hidden = !wanted;
  at("more").hidden = found.length <= list.shown;
}

at("filter").addEventListener("input", () => {
  list.shown = STEP;
  drawList();
});
at("everything").addEventListener("click", () => {
  at("filter").value = "";
  drawList();
});
at("more").addEventListener("click", () => {
  list.shown += STEP;
  drawList();
});
drawHeads();
drawList();
drawMatrix();
