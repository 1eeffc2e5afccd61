// The form of a question: its fields follow from what the policy allows, and every change asks the
// gateway what the question would cost and show, before a button asks it.

import {
  amount,
  askJson,
  budgetBars,
  capital,
  levelsText,
  make,
  pathOf,
  reason,
  say,
  valueText,
} from "./gateway_parts.js";

const PAUSE = 350; // milliseconds after a change
const DRAFTS = new Map(); // what was chosen last, by data set

export const forgetDrafts = () => DRAFTS.clear();

const QUESTIONS = {
  rollup: ["Measures by level", "Counts, sums, means and medians at each level of a hierarchy"],
  hhh: ["Heavy nodes", "The finest nodes of a hierarchy that still hold enough"],
  heavy_hitters: ["Most common values", "The values of a column that most have"],
  tree_counts: ["Counts of a tree", "Counts at all levels, which add up"],
  sql: ["SQL", "A SELECT that groups rows"],
};

const MEASURES = { sum: "Sum", mean: "Mean", median: "Median" };
const CALENDAR = ["year", "quarter", "month", "week", "day"];

// -- fields ---------------------------------------------------------------------------------------

/** A field: its label, what is said about it, and where a refusal stands that is about it. */
function field(name, title, control, about = "") {
  const said = make("small", about, { id: `about-${name}` });
  const wrong = make("strong", [], { id: `wrong-${name}`, class: "wrong" });
  control.id = `field-${name}`;
  control.name = name;
  control.setAttribute("aria-describedby", `wrong-${name}${about ? ` about-${name}` : ""}`);
  const parts = [make("label", title, { for: control.id }), control, about ? said : null, wrong];
  return make("div", parts, { class: "field", "data-field": name });
}

/** A group of fields under one name. */
function group(name, title, content, about = "") {
  const wrong = make("strong", [], { id: `wrong-${name}`, class: "wrong" });
  const said = about ? make("small", about) : null;
  const parts = [make("legend", title), said, content, wrong];
  return make("fieldset", parts, { "data-field": name, "aria-describedby": `wrong-${name}` });
}

function choice(options, value) {
  const list = options.map(([key, words]) => make("option", words, { value: key }));
  const control = make("select", list);
  if (value !== undefined) control.value = value;
  if (control.selectedIndex < 0) control.selectedIndex = 0;
  return control;
}

function tick(name, value, title, about, isOn, type = "checkbox") {
  const box = make("input", [], { type, name, value });
  box.checked = isOn;
  const words = make("span", [title, about ? make("small", about) : null]);
  return make("label", [box, words], { class: "tick" });
}

const number = (value, limits) =>
  make("input", [], { type: "number", inputmode: "decimal", value, ...limits });
const text = (value, about) =>
  make("input", [], {
    type: "text",
    value,
    placeholder: about,
    autocomplete: "off",
    spellcheck: "false",
  });

// -- what the policy allows -----------------------------------------------------------------------

const singles = (data) => data.hierarchies.filter(isSingle).map(({ columns }) => columns[0]);
const isSingle = ({ kind, columns }) => kind === "columns" && columns.length === 1;
const columnsSpec = (names) => `columns:${names.map(encodeURIComponent).join(",")}`;

/** The hierarchies that may be chosen, each with its text. */
function hierarchies(data) {
  const found = new Map();
  for (const { spec, kind, columns } of data.hierarchies) {
    if (kind === "columns") {
      for (let n = columns.length; n > 0; n--) {
        found.set(columnsSpec(columns.slice(0, n)), columns.slice(0, n).join(" › "));
      }
    } else {
      found.set(spec, `${levelsText(spec)}${spec.includes("?") ? "" : `, as ${kind}`}`);
      if (kind === "date" && !spec.includes("?")) {
        for (const level of CALENDAR) {
          found.set(`${spec}?levels=${level}`, levelsText(`${spec}?levels=${level}`));
        }
      }
    }
  }
  return [...found];
}

/** Fields that choose a hierarchy: one that is listed, or columns in an order of one's own; and
 * another one that it is crossed with. */
function levelFields(data, draft, name) {
  const listed = hierarchies(data);
  const own = singles(data);
  const options = own.length > 1 ? [...listed, ["", "Columns in my own order …"]] : listed;
  const main = choice(options, draft[name]);
  const order = own.slice(0, 4).map((_, i) => {
    const names = own.map((column) => [column, column]);
    const control = choice(
      i ? [["", "–"], ...names] : names,
      draft[`order-${i}`] ?? (i ? "" : own[0]),
    );
    control.name = `order-${i}`;
    control.setAttribute("aria-label", `Column of level ${i + 1}`);
    return control;
  });
  const several = group("order", "Columns, coarse to fine", make("div", order, { class: "row" }));
  const crossed = choice([]);
  const show = () => {
    several.hidden = main.value !== "";
    const chosen = crossed.value || draft.cross;
    const fitting = listed.filter(([spec]) => canCross(main.value, spec));
    crossed.replaceChildren(...choice([["", "nothing"], ...fitting]).children);
    crossed.value = fitting.some(([spec]) => spec === chosen) ? chosen : "";
  };
  main.addEventListener("input", show);
  show();
  return [
    field(name, "Levels", main, "Coarse to fine; every level gets its numbers."),
    several,
    field("cross", "Crossed with", crossed, "Cells of two hierarchies, such as places by month."),
  ];
}

const isColumns = (spec) => spec === "" || spec.startsWith("columns:");
const isColumn = (spec) => spec !== "" && isColumns(spec) && !spec.includes(",");

const columnsIn = (spec) => spec.replace(/^\w+:/, "").split("?")[0].split(",");

/** Columns cross columns one by one: others of them would be one hierarchy. */
function canCross(one, other) {
  if (columnsIn(one).some((column) => columnsIn(other).includes(column))) return false;
  return !(isColumns(one) && isColumns(other)) || (isColumn(one) && isColumn(other));
}

function levelsOf(form, name) {
  const chosen = form.elements[name].value;
  const names = ["order-0", "order-1", "order-2", "order-3"]
    .map((one) => form.elements[one]?.value)
    .filter(Boolean);
  const main = chosen || columnsSpec(names);
  const cross = form.elements.cross.value;
  if (!cross) return main;
  if (!isColumn(main) || !isColumn(cross)) return [main, cross];
  const [one, other] = [main, cross].map((spec) => spec.slice("columns:".length));
  return `sets:${one},${other};${one};${other}`;
}

/** Measures that have bounds in the policy, or need none. */
function measureFields(data, draft) {
  const chosen = draft.measures ?? ["count"];
  const box = (value, title, about) =>
    tick("measures", value, title, about, chosen.includes(value));
  const unit = data.protects.replace(/^one /, "");
  const rows = [box("count", "Count", unit === "record" ? "records" : `different ${unit}`)];
  for (const [key, [low, high]] of Object.entries(data.bounds)) {
    const ends = `${low} to ${high}`;
    if (key in data.columns) {
      const boxes = Object.entries(MEASURES).map(([name, title]) =>
        box(
          `${name}(${quoted(key)})`,
          [title, make("span", ` of ${key}`, { class: "unseen" })],
          "",
        ),
      );
      const of = make("span", [key, make("small", ends)], { class: "of" });
      rows.push(make("div", [of, boxes], { class: "row", role: "group", "aria-label": key }));
    } else {
      const of = /^distinct\((.*)\)$/s.exec(key);
      const title = of ? `Different values of ${of[1]}` : key;
      rows.push(box(key, title, of ? `up to ${high} each` : ends));
    }
  }
  return group("measures", "Measures", make("div", rows, { class: "measured" }));
}

const quoted = (column) => (/^\w+$/.test(column) ? column : `"${column.replaceAll('"', '""')}"`);

// -- the fields of each question, and the arguments that they are ---------------------------------

const FIELDS = {
  rollup: (data, draft) => [...levelFields(data, draft, "by"), measureFields(data, draft)],
  hhh: (data, draft) => {
    const weights = Object.keys(data.bounds).filter((key) => key in data.columns);
    const control = choice(
      [
        ["", data.protects.replace(/^one /, "each ")],
        ...weights.map((key) => [key, `sum of ${key}`]),
      ],
      draft.weight,
    );
    return [
      ...levelFields(data, draft, "hierarchy"),
      weights.length ? field("weight", "Counted", control) : null,
    ];
  },
  heavy_hitters: (data, draft) => {
    const first = data.hierarchies
      .filter(({ kind }) => kind === "columns")
      .map(({ columns }) => columns[0]);
    const names = [...new Set([...singles(data), ...first])].map((one) => [one, one]);
    return [
      field("column", "Column", choice(names, draft.column)),
      field("k", "How many values at most", number(draft.k ?? 10, { min: 1, step: 1 })),
    ];
  },
  tree_counts: (data, draft) => {
    const keys = [["", "found in the data"], ...data.keys.map((key) => [key, `the list ${key}`])];
    const isBounded = data.hierarchies.some(({ kind }) => kind === "number" || kind === "ip");
    if (isBounded) keys.push(["domain", "all that there can be"]);
    return [
      field("hierarchy", "Levels", choice(hierarchies(data), draft.hierarchy)),
      field(
        "keys",
        "Nodes",
        choice(keys, draft.keys),
        "Nodes that are known beforehand are all shown.",
      ),
    ];
  },
  sql: (data, draft) => {
    const names = Object.keys(data.columns).join(", ");
    const first = data.hierarchies.find(({ kind }) => kind === "columns")?.columns[0];
    const column = first && quoted(first);
    const begun = column
      ? `SELECT ${column}, count(*)\nFROM ${data.name}\nGROUP BY ROLLUP (${column})`
      : `SELECT count(*)\nFROM ${data.name}`;
    const area = make("textarea", draft.query ?? begun, {
      rows: 8,
      spellcheck: "false",
      autocapitalize: "off",
      wrap: "soft",
    });
    const where = data.filters.length ? ` WHERE may read ${data.filters.join(", ")}.` : "";
    return [field("query", "Query", area, `Columns: ${names}.${where}`)];
  },
};

const ARGUMENTS = {
  rollup: (form) => ({
    by: levelsOf(form, "by"),
    measures: [...form.querySelectorAll("[name=measures]:checked")].map(({ value }) => value),
  }),
  hhh: (form) => ({
    hierarchy: levelsOf(form, "hierarchy"),
    weight: form.elements.weight?.value || null,
  }),
  heavy_hitters: (form) => ({ column: form.elements.column.value, k: numberOf(form.elements.k) }),
  tree_counts: (form) => ({
    hierarchy: form.elements.hierarchy.value,
    keys: form.elements.keys.value || null,
  }),
  sql: (form) => ({ query: form.elements.query.value }),
};

/** A number as it was typed; text where it is none, which the gateway then refuses in its words. */
function numberOf(control) {
  if (control.validity.badInput) return "?";
  return control.value === "" ? null : Number(control.value);
}

function commonFields(data, draft) {
  const limits = { min: 0, max: data.largest, step: "any" };
  const sure = [
    ["0.9", "90 %"],
    ["0.95", "95 %"],
    ["0.99", "99 %"],
  ];
  const example = "such as 2013-03, 2013-W10 or 2013-03-09";
  return [
    data.period &&
      field(
        "period",
        "Period",
        text(draft.period ?? "", "all"),
        `One period of ${data.period}, ${example}; empty for all.`,
      ),
    field(
      "epsilon",
      "Price, epsilon",
      number(draft.epsilon ?? data.default, limits),
      `More costs more and errs less. At most ${amount(data.largest)} a question.`,
    ),
    field("confidence", "Intervals hold with", choice(sure, draft.confidence ?? "0.95")),
  ].filter(Boolean);
}

// -- the form -------------------------------------------------------------------------------------

/** The form of a data set, and the price beside it. `answer` is called with what was asked and the
 * reply; `refused` with a refusal that ends the session. */
export function questionForm(data, { answer, refused }) {
  const questions = Object.keys(QUESTIONS).filter((name) => data.questions.includes(name));
  const draft = DRAFTS.get(data.name) ?? { question: questions[0] };
  DRAFTS.set(data.name, draft);
  const form = make("form", [], { class: "asking", novalidate: true, autocomplete: "off" });
  const fields = make("div", [], { class: "fields" });
  const price = make("div", [], { class: "priced" });
  const trouble = make("p", [], { class: "notice", hidden: true, id: "trouble" });
  const button = make("button", "Ask", { class: "main", disabled: true });
  let waiting, running, priced;
  let left = data.budget;

  const kinds = questions.map((name) =>
    tick(
      "question",
      name,
      QUESTIONS[name][0],
      QUESTIONS[name][1],
      name === draft.question,
      "radio",
    ),
  );

  function drawFields() {
    fields.replaceChildren(
      ...FIELDS[draft.question](data, draft).filter(Boolean),
      make("div", commonFields(data, draft), { class: "common" }),
    );
  }

  function keepDraft() {
    for (const { name, value, type } of form.elements) {
      if (name && type !== "checkbox" && type !== "radio") draft[name] = value;
    }
    const boxes = [...form.querySelectorAll("[name=measures]")];
    if (boxes.length) draft.measures = boxes.filter((box) => box.checked).map((box) => box.value);
  }

  function given() {
    const { period, epsilon, confidence } = form.elements;
    return {
      ...ARGUMENTS[draft.question](form),
      ...(period?.value.trim() && { period: period.value.trim() }),
      epsilon: numberOf(epsilon),
      confidence: Number(confidence.value),
    };
  }

  async function explain() {
    running?.abort();
    running = new AbortController();
    const asked = { question: draft.question, given: given() };
    form.setAttribute("aria-busy", "true");
    try {
      const path = `${pathOf(data.name, asked.question)}/explain`;
      const found = await askJson(path, { given: asked.given, signal: running.signal });
      priced = { ...asked, found };
      left = found.budget;
      showPrice(found);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.status === 401) refused(error);
      else showTrouble(error.message);
    }
    form.removeAttribute("aria-busy");
  }

  function later() {
    keepDraft();
    priced = undefined;
    button.disabled = true;
    button.textContent = "Looking for the price …";
    clearTimeout(waiting);
    waiting = setTimeout(explain, PAUSE);
  }

  function clearTrouble() {
    trouble.hidden = true;
    trouble.textContent = "";
    for (const one of form.querySelectorAll(".wrong")) one.textContent = "";
    for (const one of form.querySelectorAll("[aria-invalid]")) one.removeAttribute("aria-invalid");
  }

  /** A refusal stands at the field that it begins with, or above the form. */
  function showTrouble(sentence) {
    clearTrouble();
    button.disabled = true;
    button.textContent = "Ask";
    const words = make("p", "None yet: the question cannot be asked like this.", { class: "soft" });
    price.replaceChildren(make("h2", "Price"), words, budgetBars(left, true));
    const name = /^(\w*)/.exec(sentence)[1].replace(/^measure$/, "measures");
    if (showWrong(name, sentence)) return;
    trouble.textContent = sentence;
    trouble.hidden = false;
    say(sentence);
  }

  /** Put a sentence at a field; false if there is none of this name. */
  function showWrong(name, sentence) {
    const place = form.querySelector(`[data-field="${CSS.escape(name)}"]`);
    if (!place) return false;
    place.querySelector(".wrong").textContent = sentence;
    place.querySelector("input, select, textarea").setAttribute("aria-invalid", "true");
    say(sentence);
    return true;
  }

  function showPrice(found) {
    clearTrouble();
    const isFree = found.free !== null;
    const short = found.budget.filter((row) => row.fits === false);
    const isDear = found.epsilon > data.largest;
    button.disabled = !isFree && (short.length > 0 || isDear);
    button.textContent = isFree ? "Show: free" : `Ask: costs epsilon ${amount(found.epsilon)}`;
    price.replaceChildren(...priceParts(found, isFree));
    if (!isFree && short.length) {
      const left = amount(Math.min(...short.map((row) => row.left)));
      const words = `${capital(short[0].of)} has epsilon ${left} left, which is too little. Lower the price, or ask the owner.`;
      trouble.textContent = words;
      trouble.hidden = false;
      say(words);
    } else {
      const after = found.budget[0].after;
      say(
        isFree
          ? `Free: ${reason(found.free)}.`
          : `Costs epsilon ${amount(found.epsilon)}. Then ${amount(after)} of ${found.budget[0].of} is left.`,
      );
    }
  }

  async function press() {
    if (!priced) return;
    const { question, given: sent, found } = priced;
    button.disabled = true;
    button.textContent = "Asking …";
    say("Asking.");
    try {
      const reply = await askJson(pathOf(data.name, question), { given: sent });
      answer({ question, given: sent, release: found.release, reply });
    } catch (error) {
      if (error.status === 401) refused(error);
      else showTrouble(error.message);
    }
  }

  async function findPrice(error, findButton) {
    if (error === null) return;
    findButton.disabled = true;
    try {
      const { epsilon, ...asked } = given();
      const path = `${pathOf(data.name, draft.question)}/explain`;
      const found = await askJson(path, { given: { ...asked, error } });
      form.elements.epsilon.value = found.epsilon;
      later();
    } catch (problem) {
      if (problem.status === 401) refused(problem);
      else if (problem.message.startsWith("error ")) showWrong("error", problem.message);
      else showTrouble(problem.message);
    }
    findButton.disabled = false;
  }

  const error = number("", { min: 0, step: "any" });
  const findButton = make("button", "Find the price", {}, () =>
    findPrice(numberOf(error), findButton),
  );
  const finder = make("details", [
    make("summary", "Find the price of an error"),
    field(
      "error",
      "Width of intervals to each side, at most",
      error,
      "Of what one node has of its own; the smallest price is put in above.",
    ),
    findButton,
  ]);
  finder.addEventListener("input", (event) => event.stopPropagation());

  form.addEventListener("submit", (event) => event.preventDefault()); // Enter must not spend
  form.addEventListener("input", (event) => {
    if (event.target.name === "question") {
      keepDraft();
      draft.question = event.target.value;
      drawFields();
    }
    later();
  });
  button.addEventListener("click", press);
  form.append(
    group("question", "Question", make("div", kinds, { class: "kinds" })),
    trouble,
    make(
      "div",
      [make("div", [fields, finder]), make("aside", [price, button], { "aria-label": "Price" })],
      { class: "columns-of-form" },
    ),
  );
  drawFields();
  later();
  return form;
}

// -- the price ------------------------------------------------------------------------------------

/** Price, what is left, error, what cannot be shown, and all lines of the plan. */
function priceParts(found, isFree) {
  const lines = new Map(found.lines.map(([name, value, meaning]) => [name, [value, meaning]]));
  const head = isFree ? "Free" : `Epsilon ${amount(found.epsilon)}`;
  const delta = found.delta ? `, delta ${amount(found.delta)}` : "";
  const below = isFree
    ? `${capital(reason(found.free))}.`
    : `Paid once${delta}. Whoever asks the same again, gets the same for nothing.`;
  const facts = [];
  const unseen = lines.get("not shown");
  if (unseen) facts.push(["Cannot be shown", ...unseen]);
  for (const [name, [value, meaning]] of lines) {
    if (name === "standard error" || name.startsWith("error of "))
      facts.push([capital(name), value, meaning]);
  }
  const more = lines.get("shows more");
  if (more) facts.push(["Shows more", ...more]);
  const terms = facts.map(([name, value, meaning]) =>
    make("div", [make("dt", name), make("dd", [valueText(value), make("small", meaning)])]),
  );
  const rows = found.lines.filter(([name]) => name !== "in the ledger");
  return [
    make("h2", "Price"),
    make("p", [make("strong", head), make("small", below)], { class: "price" }),
    budgetBars(found.budget, isFree),
    make("dl", terms),
    make("details", [make("summary", "The whole plan"), cardTable(rows, "The whole plan")]),
  ];
}

/** Names, values and meanings of a card. */
export function cardTable(rows, caption) {
  const lines = rows.map(([name, value, meaning]) =>
    make("tr", [
      make("th", name, { scope: "row" }),
      make("td", valueText(value)),
      make("td", meaning),
    ]),
  );
  return make("table", [make("caption", caption, { class: "unseen" }), make("tbody", lines)], {
    class: "card",
  });
}
