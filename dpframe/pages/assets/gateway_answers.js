// Answers: the report of a release in a frame of its own, or the rows of a query; downloads; lists of
// releases; the owner's log.

import { cardTable } from "./gateway_forms.js";
import {
  addressOf,
  amount,
  ask,
  askJson,
  capital,
  link,
  make,
  moment,
  pagedTable,
  pathOf,
  reason,
  save,
  section,
  titleOf,
} from "./gateway_parts.js";

const ARROW = "application/vnd.apache.arrow.stream";

// -- an answer ------------------------------------------------------------------------------------

/** The parts of the view of an answer. `request` is what is sent for it: a path, and arguments
 * where it is asked. */
export async function answerView(data, title, request, reply) {
  const again = (accept) => ask(request.path, { given: request.given, accept });
  const { receipt } = reply;
  const price = reply.free
    ? `Free: ${reason(reply.free)}.`
    : `Drawn on ${moment(receipt.time)} for epsilon ${amount(receipt.epsilon)}.`;
  const isQuery = "query" in receipt;
  const name = reply.release.replaceAll(/[^\w.-]/g, "_");
  const download = (words, ending, load) =>
    make("button", words, {}, async ({ target }) => {
      target.disabled = true;
      try {
        save(await load(), `${name}.${ending}`);
      } catch (error) {
        trouble.textContent = error.message;
        trouble.hidden = false;
      }
      target.disabled = false;
    });
  const trouble = make("p", [], { class: "notice", role: "alert", hidden: true });
  const page = isQuery ? null : await (await again("text/html")).blob();
  const saves = [
    download("CSV", "csv", async () => (await again("text/csv")).blob()),
    download("Arrow", "arrow", async () => (await again(ARROW)).blob()),
    download("Receipt", "receipt.json", () => jsonBlob(receipt)),
    page && download("Page", "html", () => page),
  ];
  const head = make(
    "div",
    [
      make("p", link(["‹ ", data], data), { class: "back" }),
      make("h1", title, { dir: "auto" }),
      make("p", price, { class: "paid" }),
      make("div", [make("span", "Save as"), ...saves.filter(Boolean)], {
        ...{ class: "saves", role: "group", "aria-label": "Save as" },
      }),
      trouble,
    ],
    { class: "answer-head" },
  );
  if (isQuery) {
    const table = section("Answer", [...remarks(receipt), ...queryTable(reply, title)]);
    const card = section("Privacy card", cardTable(receiptRows(receipt), "Privacy card"));
    return [head, table, card];
  }
  const frame = make("iframe", [], { sandbox: "allow-scripts", title: `Report: ${title}` });
  frame.srcdoc = reports.createHTML(await page.text());
  return [head, frame];
}

/** What makes a report of the text that the gateway sends for one: nothing else is read as HTML.
 * Links to its own parts need the address that it has in a frame; the text of a label has no "<". */
const reports = (globalThis.trustedTypes ?? { createPolicy: (_, made) => made }).createPolicy(
  "report",
  {
    createHTML: (text) =>
      text.replaceAll(/<a( class="skip")? href=(["'])#/g, "<a$1 href=$2about:srcdoc#"),
  },
);

const jsonBlob = (facts) =>
  new Blob([JSON.stringify(facts, null, 2)], { type: "application/json" });

function receiptRows(receipt) {
  const facts = ["release", "time", "version", "budget"];
  const own = facts.filter((name) => receipt[name]).map((name) => [name, receipt[name], ""]);
  return [...receipt.card.slice(noticesOf(receipt).length), ...own];
}

/** The lines of a card that are notices, which stand first: a measure can have their name. */
const noticesOf = ({ card, notices = [] }) => card.slice(0, notices.length);

/** What a reader must know before the rows: notices, and what is not shown. */
function remarks(receipt) {
  const notices = noticesOf(receipt).map(([, value, meaning]) =>
    make("p", [make("strong", capital(value)), `${capital(meaning)}.`], { class: "notice" }),
  );
  const unseen = receipt.not_shown;
  if (!unseen?.below) return notices;
  const words = `Not shown: ${unseen.node}s of under about ${unseen.below} ${unseen.counted}.`;
  return [make("p", words, { class: "soft" }), ...notices];
}

// -- the rows of a query --------------------------------------------------------------------------

/** The table of the rows of a query. Ends of intervals stand below their numbers. */
function queryTable({ columns, rows }, title) {
  const names = new Set(columns.map(({ name }) => name));
  const hasEnds = ({ name }) => names.has(`${name}_lower`) && names.has(`${name}_upper`);
  const isEnd = ({ name }) => {
    const [, of] = /^(.*)_(?:lower|upper)$/s.exec(name) ?? [];
    return of !== undefined && hasEnds({ name: of });
  };
  const shown = columns.filter((column) => !isEnd(column));
  const isNumber = ({ type }) => /int|float|double|decimal/.test(type);
  const writers = new Map(shown.map((column) => [column.name, writerOf(column, rows)]));
  const cellOf = (row, column) => {
    const write = writers.get(column.name);
    const value = row[column.name];
    const content =
      value === null ? make("span", "NULL", { class: "null" }) : make("bdi", write(value));
    if (!hasEnds(column)) return content;
    const [low, high] = [row[`${column.name}_lower`], row[`${column.name}_upper`]];
    return [content, make("small", endsText(low, high, write))];
  };
  return pagedTable({
    caption: title,
    kind: shown.length > 3 ? "as-named wide" : "as-named",
    heads: shown.map((column) => ({
      title: hasEnds(column) ? [column.name, make("small", "and its interval")] : column.name,
      name: column.name,
      kind: isNumber(column) ? "number" : undefined,
    })),
    rows,
    textOf: (row) => shown.map(({ name }) => row[name] ?? "NULL").join("\n"),
    cellsOf: (row) => shown.map((column) => cellOf(row, column)),
  });
}

function endsText(low, high, write) {
  if (low === null && high === null) return "unknown";
  if (low === null) return `up to ${write(high)}`;
  return high === null ? `${write(low)} upwards` : `${write(low)} to ${write(high)}`;
}

/** How values of a column are written: with as many digits as their intervals leave. */
function writerOf({ name, type }, rows) {
  if (/^date/.test(type)) return (value) => String(value).slice(0, 10);
  if (/^timestamp/.test(type)) {
    const text = (value) =>
      String(value)
        .replace("T", " ")
        .replace(/\.000Z?$/, "");
    const isDay = (value) => value === null || text(value).endsWith(" 00:00:00");
    const length = rows.every((row) => isDay(row[name])) ? 10 : undefined;
    return (value) => text(value).slice(0, length);
  }
  if (!/float|double|decimal/.test(type))
    return (value) => (typeof value === "number" ? value.toLocaleString("en") : String(value));
  const widths = rows
    .map((row) => row[`${name}_upper`] - row[`${name}_lower`])
    .filter((width) => width > 0)
    .sort((a, b) => a - b);
  const width = widths[widths.length >> 1];
  const digits = width ? Math.min(8, Math.max(0, 2 - Math.ceil(Math.log10(width)))) : undefined;
  const figures = new Intl.NumberFormat(
    "en",
    width
      ? { minimumFractionDigits: digits, maximumFractionDigits: digits }
      : { maximumSignificantDigits: 6 },
  );
  return (value) => figures.format(value);
}

// -- releases, and the log ------------------------------------------------------------------------

/** The table of releases: all open for nothing. */
export function releaseTable(data, releases, isOwner) {
  const newest = releases.toReversed();
  const who = (row) => (row.yours ? "you" : (row.analyst ?? "another"));
  const title = (row) => (row.question ? titleOf(row.question, row.arguments) : row.release);
  return pagedTable({
    caption: `Releases of ${data}`,
    heads: [
      { title: "What was asked" },
      { title: "By" },
      { title: "Epsilon", kind: "number" },
      { title: "Drawn" },
    ],
    rows: newest,
    what: "release",
    kind: "listed",
    textOf: (row) => [title(row), who(row), row.release].join("\n"),
    cellsOf: (row) => [
      link(make("span", title(row), { class: "asked", dir: "auto" }), data, row.release),
      who(row),
      make("span", amount(row.epsilon), { class: "cost" }),
      make("time", moment(row.time), { datetime: row.time }),
    ],
  });
}

const unquoted = (text) => String(text ?? "").replace(/^'(.*)'$/s, "$1");

/** The view of the owner's log: what was asked by whom, and what came of it. */
export async function logView() {
  const rows = (await askJson("log")).toReversed();
  const cellsOf = (row) => [
    make("time", moment(row.time), { datetime: row.time }),
    row.analyst,
    unquoted(row.data),
    unquoted(row.question),
    make("span", row.outcome, { class: `outcome ${row.outcome}` }),
    row.release
      ? make("a", "open", {
          href: addressOf(unquoted(row.data), row.release),
          "aria-label": `Open ${row.release}`,
        })
      : (row.error ?? ""),
  ];
  const heads = ["Time", "Analyst", "Data set", "Question", "Outcome", "Release"];
  const table = pagedTable({
    caption: "Log",
    heads: heads.map((title) => ({ title })),
    rows,
    what: ["entry", "entries"],
    kind: "listed",
    textOf: (row) => Object.values(row).join("\n"),
    cellsOf,
  });
  const about = "Who asked what since the gateway started, and what came of it. No data are in it.";
  return [make("h1", "Log", { tabindex: "-1" }), make("p", about, { class: "lead" }), ...table];
}
