// The icicle: one row a level, a node as wide as its count, children inside their parent.

const tree = document.getElementById("tree");
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
 * As `dpframe.pages.widths`. Of a list of children the first `single` have a block of their own.
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
  const put = (key, cell) => placed.set(key, cell);

  function below(node, x, width, from, to, total) {
    const around = String(node);
    const end = x + width;
    if (!ordered && view.to === undefined && to - from === children[node].length) {
      const found = widened(children[node], width, total, LEAST / pixels);
      const row = (k) => rowOf.get(data.level[children[node][k]]);
      found.widths.forEach((share, k) => {
        const child = children[node][k];
        put(String(child), { node: child, x, width: share, row: row(k), around });
        below(child, x, share, 0, children[child].length, data.area[child]);
        x += share;
      });
      if (found.single < to) {
        const rows = children[node].slice(found.single).map((child) => rowOf.get(data.level[child]));
        const run = { node, from: found.single, to, x, row: Math.min(...rows), around };
        run.width = Math.max(found.together, Math.min(TARGET / pixels, end - x));
        const same = node === view.node && run.from === view.from && run.to === view.to;
        if (!same && run.width * pixels >= 1) put(`${node}:${run.from}-${run.to}`, run);
      }
      return;
    }
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
    element.classList.remove("unread");
  }
  const isCut = (element) => {
    const text = element.querySelector(".label");
    return text && (text.scrollWidth > text.clientWidth + 1 || text.scrollHeight > text.clientHeight + 1);
  };
  const cut = [...elements.values()].filter(isCut);
  for (const element of cut) element.classList.add("brief"); // the label needs the room of the number
  for (const element of cut.filter(isCut)) element.classList.add("unread"); // no part stands for it
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
