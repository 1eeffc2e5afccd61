// The gateway's page: signing in and out, the address of each view, and the view of a data set.

import { answerView, logView, releaseTable } from "./gateway_answers.js";
import { forgetDrafts, questionForm } from "./gateway_forms.js";
import {
  addressOf,
  amount,
  askJson,
  at,
  budgetBars,
  capital,
  keepToken,
  levelsText,
  link,
  make,
  pathOf,
  say,
  section,
  titleOf,
  token,
} from "./gateway_parts.js";

const main = at("main");
const byProxy = document.body.dataset.identity === "proxy"; // which says who asks
const session = { analyst: undefined, names: [], asked: undefined };

// -- signing in -----------------------------------------------------------------------------------

async function signIn() {
  session.analyst = await askJson("analyst");
  session.names = (await askJson("datasets")).map(({ name }) => name);
  at("top").hidden = false;
  at("who").textContent = session.analyst.name;
  at("leave").hidden = byProxy && !token();
  const pages = session.names.map((name) => [name, [name]]);
  if (session.analyst.owner) pages.push(["Log", ["log", "all"]]);
  at("pages").hidden = pages.length < 2;
  at("pages").replaceChildren(...pages.map(([words, steps]) => make("li", link(words, ...steps))));
}

function signOut(message = "") {
  keepToken("");
  Object.assign(session, { analyst: undefined, names: [], asked: undefined });
  forgetDrafts();
  at("top").hidden = true;
  showSignIn(message);
}

function showSignIn(message) {
  const box = make("input", [], {
    ...{ id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true },
    ...{ autocapitalize: "off", "aria-describedby": "token-about token-wrong" },
  });
  const wrong = make("strong", message, { id: "token-wrong", class: "wrong", role: "alert" });
  const button = make("button", "Sign in", { class: "main" });
  button.type = "submit";
  const form = make("form", [
    make("div", [make("label", "Token", { for: "token" }), box, wrong], { class: "field" }),
    button,
  ]);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const given = box.value.trim();
    wrong.textContent = "";
    if (!/^[\x21-\x7e]+$/.test(given)) {
      refuse("A token is one word of letters, digits and signs. Paste all of it.");
      return;
    }
    keepToken(given);
    button.disabled = true;
    try {
      await signIn();
    } catch (error) {
      keepToken("");
      button.disabled = false;
      const unknown = "No analyst has this token. Paste all of it, or ask the owner of the data.";
      refuse(error.status === 401 ? unknown : error.message);
      return;
    }
    await show();
  });
  function refuse(sentence) {
    wrong.textContent = sentence;
    box.setAttribute("aria-invalid", "true");
    box.focus();
  }
  const about =
    "Ask about data that nobody reads here: answers are noisy, and what they cost is taken from a " +
    "budget. The owner of the data gave you a token. It stays in this tab until you sign out.";
  document.title = "Sign in – dpframe gateway";
  draw([
    make(
      "div",
      [make("h1", "Sign in"), make("p", about, { id: "token-about", class: "lead" }), form],
      { class: "sign-in" },
    ),
  ]);
  if (message) box.focus();
}

// -- views ----------------------------------------------------------------------------------------

function draw(parts, kind = "") {
  main.className = kind;
  main.replaceChildren(...parts);
  scrollTo(0, 0);
}

/** What the address names: nothing, a data set, a release of it, or the log. */
function stepsOfAddress() {
  const steps = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean);
  try {
    return steps.map(decodeURIComponent);
  } catch {
    return [];
  }
}

let turn = 0; // of the view that was asked for last: a slower one is thrown away

async function show() {
  const mine = ++turn;
  if (!session.analyst) {
    showSignIn("");
    return;
  }
  const [data, release] = stepsOfAddress();
  try {
    if (!data && session.names.length === 1) {
      location.replace(addressOf(session.names[0]));
      return;
    }
    main.setAttribute("aria-busy", "true");
    const view = await viewOf(data, release);
    if (mine !== turn) return;
    document.title = `${view.title} – dpframe gateway`;
    draw(view.parts, view.kind);
    const heading = main.querySelector("h1");
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
    say(view.title);
  } catch (error) {
    if (mine !== turn) return;
    if (error.status === 401) signOut("Your token is no longer known. Sign in again.");
    else
      draw([
        make("h1", "This cannot be shown"),
        make("p", error.message, { class: "notice", role: "alert" }),
      ]);
  } finally {
    if (mine === turn) main.removeAttribute("aria-busy");
  }
  for (const one of at("pages").querySelectorAll("a")) {
    if (one.textContent === data || (data === "log" && one.textContent === "Log"))
      one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
}

async function viewOf(data, release) {
  if (!data) return { title: "Data sets", parts: await dataSets() };
  if (data === "log" && release === "all") return { title: "Log", parts: await logView() };
  if (!release) return { title: data, parts: await dataSet(data) };
  return oneAnswer(data, release);
}

async function dataSets() {
  const found = await askJson("datasets");
  const cards = found.map((one) => {
    const left = Math.min(...one.budget.map((row) => row.left));
    const words = `Protects ${one.protects}. Epsilon ${amount(left)} left for you.`;
    return make("li", [
      make("h2", link(one.name, one.name)),
      one.about && make("p", one.about),
      make("p", words, { class: "soft" }),
    ]);
  });
  const none = make("p", "No data set is open to you. Ask the owner.", { class: "lead" });
  return [make("h1", "Data sets"), cards.length ? make("ul", cards, { class: "data-sets" }) : none];
}

async function dataSet(name) {
  const [data, releases] = await Promise.all([
    askJson(pathOf(name)),
    askJson(pathOf(name, "releases")),
  ]);
  const form = questionForm(data, {
    refused: () => signOut("Your token is no longer known. Sign in again."),
    answer(asked) {
      const { reply, release, question } = asked;
      const isStored = reply.release === release && (question !== "sql" || reply.free === null);
      session.asked = { ...asked, data: name, isStored };
      location.hash = addressOf(name, isStored ? reply.release : "answer");
    },
  });
  const about = "All that was ever drawn here opens for nothing, whoever asked for it.";
  return [
    make("header", [
      make("h1", data.name),
      data.about && make("p", data.about, { class: "lead" }),
      protection(data),
    ]),
    section("Ask", form, { class: "ask" }),
    section("Releases", [make("p", about, { class: "soft" }), ...releaseTable(name, releases)]),
    section("What may be asked", allowed(data)),
  ];
}

function protection(data) {
  const facts = [
    ["Protects", data.protects, data.protects === "one record" ? "a row" : "with all its records"],
    ["A question", `epsilon ${amount(data.largest)}`, "at most"],
    data.period && ["Periods", data.period, "budgets of disjoint periods do not add up"],
  ].filter(Boolean);
  const shown = facts.map(([name, value, remark]) =>
    make("div", [make("dt", name), make("dd", [value, make("small", remark)])]),
  );
  return make("dl", shown, { class: "figures" });
}

/** What the policy allows, as a table. */
function allowed(data) {
  const bounds = Object.entries(data.bounds).map(
    ([key, [low, high]]) => `${key}: ${low} to ${high}`,
  );
  const columns = Object.entries(data.columns).map(
    ([name, type]) => `${name} (${type.toLowerCase()})`,
  );
  const rows = [
    ["Levels", data.levels.map(levelsText)],
    ["Measures, with bounds", bounds],
    ["Filters of queries", data.filters],
    ["Public tables", data.public],
    ["Lists of keys", data.keys],
    ["Views", data.views.map((view) => `${view.name}: ${view.question}, every ${view.unit}`)],
    ["Columns", columns],
  ].filter(([, list]) => list.length);
  const lines = rows.map(([title, list]) =>
    make("tr", [
      make("th", title, { scope: "row" }),
      make(
        "td",
        make(
          "ul",
          list.map((one) => make("li", one)),
          { class: "plain" },
        ),
      ),
    ]),
  );
  return make(
    "table",
    [make("caption", "What may be asked", { class: "unseen" }), make("tbody", lines)],
    { class: "card" },
  );
}

/** A stored release, or what was asked last where its answer follows from another release or is
 * what remains of a query. */
async function oneAnswer(data, release) {
  const asked = session.asked?.data === data ? session.asked : undefined;
  if (release === "answer" && !asked) {
    location.replace(addressOf(data));
    return { title: data, parts: [make("h1", data)] };
  }
  const path = pathOf(data, "releases", release);
  const isNew = release === "answer" || (asked?.isStored && asked.reply.release === release);
  const request =
    release === "answer" ? { path: pathOf(data, asked.question), given: asked.given } : { path };
  const reply = isNew ? asked.reply : await askJson(path);
  const row = isNew
    ? { question: asked.question, arguments: asked.given }
    : (await askJson(pathOf(data, "releases"))).find((one) => one.release === release);
  const title = row?.question ? titleOf(row.question, row.arguments) : release;
  return { title, kind: "answer-view", parts: await answerView(data, title, request, reply) };
}

// -- start ----------------------------------------------------------------------------------------

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
at("leave").addEventListener("click", () => {
  history.replaceState(null, "", location.pathname);
  signOut();
  say("You are signed out.");
});
addEventListener("hashchange", show);

try {
  if (token() || byProxy) await signIn();
  await show();
} catch (error) {
  if (error.status === 401) signOut(token() ? "Your token is no longer known. Sign in again." : "");
  else showSignIn(error.message);
}
