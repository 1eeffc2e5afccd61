// The table: sorted and filtered over all nodes in view, drawn a page at a time.

const PAGE = 50;
const body = document.querySelector("#table tbody");
const tally = document.getElementById("tally");
const everything = document.getElementById("everything");
const filter = document.getElementById("filter");
const levelChoice = document.getElementById("level");
const titles = [...document.querySelectorAll("#table th")];
const pager = document.getElementById("pager");

const table = { by: (drawn ?? measures[0]).key, down: true, page: 0, scope: [], rows: [] };
const fold = (text) => text.normalize("NFKC").toLowerCase();
const remembered = new Map();

function once(name, make) {
  if (!remembered.has(name)) remembered.set(name, make());
  return remembered.get(name);
}

const haystack = () =>
  once("haystack", () => Array.from({ length: released }, (_, i) => fold(textOf(i))));

/** Place of every row when sorted by name: comparing text once is enough. */
const nameRanks = () =>
  once("ranks", () => {
    const ranks = new Array(released);
    [...ranks.keys()]
      .sort((i, j) => (data.level[i] === 0 ? -1 : data.level[j] === 0 ? 1 : byName(i, j) || i - j))
      .forEach((i, rank) => (ranks[i] = rank));
    return ranks;
  });

function refill() {
  const wanted = fold(filter.value.trim());
  const level = levelChoice.value === "" ? -1 : Number(levelChoice.value);
  const values = table.by === "prefix" ? nameRanks() : data[table.by];
  const sign = table.down ? -1 : 1;
  table.rows = table.scope
    .filter((i) => level < 0 || data.level[i] === level)
    .filter((i) => !wanted || haystack()[i].includes(wanted))
    .sort((i, j) => sign * (values[i] - values[j]) || i - j);
  table.page = 0;
  drawPage();
}

function cellOf(row, text, name) {
  const cell = row.insertCell();
  cell.setAttribute("role", "cell");
  cell.className = `number ${name}`;
  cell.textContent = text;
  return cell;
}

function measureOf(row, measure, i) {
  const cell = cellOf(row, amountOf(measure, i), "measure");
  cell.dataset.title = measure.title;
  const ends = document.createElement("small");
  ends.textContent = bounds(i, measure);
  cell.append(" ", ends);
}

function rowFor(i) {
  const row = document.createElement("tr");
  row.dataset.node = i;
  row.setAttribute("role", "row"); // said aloud, because narrow screens lay rows out as grids
  const head = document.createElement("th");
  head.scope = "row";
  head.setAttribute("role", "rowheader");
  const button = document.createElement("button");
  button.type = "button";
  button.append(label(i));
  head.append(button);
  row.append(head);
  const level = cellOf(row, String(data.level[i]), "level");
  if (levelName(i)) {
    const name = document.createElement("small");
    name.textContent = levelName(i);
    level.prepend(name, " ");
  }
  if (data.measures) for (const measure of measures) measureOf(row, measure, i);
  else
    for (const name of ["count", "lower", "upper", "residual"]) {
      const number = data[name][i];
      cellOf(row, number === null ? "\u2013" : figures.format(number), name);
    }
  return row;
}

function drawPage() {
  const { rows, page } = table;
  const first = page * PAGE;
  const shown = rows.slice(first, first + PAGE);
  body.replaceChildren(...shown.map(rowFor));
  for (const head of titles) {
    const active = head.dataset.by === table.by;
    if (active) head.setAttribute("aria-sort", table.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  const narrowed = table.scope.length < released;
  const all = `${figures.format(released)} ${released === 1 ? "row" : "rows"}`;
  tally.textContent = rows.length === released ? all : `${figures.format(rows.length)} of ${all}`;
  if (narrowed) tally.append(", within ", nameOfView());
  everything.hidden = !narrowed && rows.length === released;
  const last = Math.max(0, Math.ceil(rows.length / PAGE) - 1);
  pager.hidden = last === 0;
  const ends = [first + 1, first + shown.length, rows.length].map(figures.format);
  document.getElementById("where").textContent = `${ends[0]} to ${ends[1]} of ${ends[2]}`;
  for (const button of pager.querySelectorAll("button")) {
    const back = button.dataset.go === "first" || button.dataset.go === "previous";
    button.disabled = back ? page === 0 : page === last;
  }
}

function turn(where) {
  const last = Math.ceil(table.rows.length / PAGE) - 1;
  const to = { first: 0, previous: table.page - 1, next: table.page + 1, last };
  table.page = Math.min(last, Math.max(0, to[where]));
  drawPage();
}

function sortBy(name) {
  table.down = table.by === name ? !table.down : name !== "prefix" && name !== "level";
  table.by = name;
  refill();
}
