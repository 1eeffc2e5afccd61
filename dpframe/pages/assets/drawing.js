// The icicle: one row a level, a node as wide as its count, children inside their parent.

const tree = document.getElementById("tree");
const NARROWEST = 3; // pixels; narrower nodes are drawn together
const GROUP = 12; // pixels of nodes drawn together where there would be too many for one block
const TARGET = 30; // pixels that a block of several nodes gets where nothing else needs them

let cells = new Map(); // key -> what is drawn
const elements = new Map(); // key -> its element; kept while zooming, and with it the focus
let current = ""; // key of the cell that Tab reaches

function arrange(view, pixels) {
  const placed = new Map();
  const put = (key, cell) => placed.set(key, cell);

  function below(node, x, width, from, to, total) {
    const around = String(node);
    const end = x + width;
    const split = ordered || (node === view.node && view.to !== undefined);
    let run = null;
    const flush = () => {
      const room = run && run.to === to ? end - run.x : 0;
      if (run) run.width = Math.max(run.width, Math.min(TARGET / pixels, room));
      const same = run && node === view.node && run.from === view.from && run.to === view.to;
      if (run && !same && run.width * pixels >= 1) put(`${node}:${run.from}-${run.to}`, run);
      run = null;
    };
    for (let k = from; k < to; k += 1) {
      const child = children[node][k];
      const share = total > 0 ? (width * data.area[child]) / total : 0;
      const row = rowOf.get(data.level[child]);
      if (share * pixels < NARROWEST) {
        run ??= { node, from: k, to: k, x, width: 0, row, around };
        run.to = k + 1;
        run.width += share;
        run.row = Math.min(run.row, row);
        if (split && run.width * pixels >= GROUP) flush();
      } else {
        flush();
        put(String(child), { node: child, x, width: share, row, around });
        below(child, x, share, 0, children[child].length, data.area[child]);
      }
      x += share;
    }
    flush();
  }

  const above = [];
  for (let i = view.node; i >= 0; i = parents[i]) above.unshift(i);
  above.forEach((node, k) => {
    const around = k ? String(above[k - 1]) : "";
    put(String(node), {
      node,
      x: 0,
      width: 1,
      row: rowOf.get(data.level[node]),
      around,
      above: true,
    });
  });
  const all = children[view.node];
  const [from, to] = view.to === undefined ? [0, all.length] : [view.from, view.to];
  const shown = all.slice(from, to).reduce((sum, i) => sum + data.area[i], 0);
  below(view.node, 0, 1, from, to, view.to === undefined ? data.area[view.node] : shown);
  return placed;
}

function elementOf(key, cell) {
  let element = elements.get(key);
  if (!element) {
    element = document.createElement("div");
    element.className = "cell";
    element.setAttribute("role", "treeitem");
    element.setAttribute("tabindex", "-1");
    element.dataset.key = key;
    const inner = document.createElement("span");
    inner.className = "inner";
    element.append(inner);
    elements.set(key, element);
    if (cell.to === undefined) {
      const amount = document.createElement("span");
      amount.className = "amount";
      if (cell.node < released && drawn) amount.textContent = amountOf(drawn, cell.node);
      inner.append(label(cell.node, shortText(cell.node)), amount);
      element.setAttribute("aria-label", sentence(cell.node));
      element.classList.toggle("invalid", data.prefix[cell.node] === "<invalid>");
    } else {
      inner.textContent = `+${figures.format(cell.to - cell.from)}`;
      element.setAttribute("aria-label", some(cell));
      element.classList.add("rest");
    }
    tree.append(element);
  }
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
  let found;
  for (const [other, cell] of cells) {
    if (cell.around === key && (!found || cell.x < cells.get(found).x)) found = other;
  }
  return found;
}

const MOVES = {
  ArrowRight: (key) => neighbour(key, 1),
  ArrowLeft: (key) => neighbour(key, -1),
  ArrowDown: firstInside,
  ArrowUp: (key) => cells.get(key).around || undefined,
  Home: () => String(top),
};
