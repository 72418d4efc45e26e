// The analyst's page: sign in, price while typing, ask, open earlier answers.

import {answer, obstacles, priced, refusal} from "/answer.js";
import {api, byId, el, figure, keep, price, put, Refused} from "/dom.js";
import {Editor} from "/editor.js";

const WAIT = 120;

let editor = null;
let current = null; // the price of the text as it stands: {text, facts}
let waiting = null;
let pricing = null;
let asking = false;
let most = Infinity; // the largest epsilon of one statement

function status(text) {
  byId("price-status").textContent = text;
}

function signedOut(words) {
  byId("work").hidden = true;
  byId("budget").hidden = true;
  byId("sign-out").hidden = true;
  byId("sign-in").hidden = false;
  byId("who").textContent = "";
  put(byId("answer"));
  put(byId("releases"));
  byId("answer-card").hidden = true;
  byId("sign-in-error").textContent = words ?? "";
  current = null;
  byId(byId("name").value ? "password" : "name").focus();
}

function failed(problem) {
  if (problem.name === "AbortError") {
    return;
  }
  if (problem instanceof Refused && problem.status === 401) {
    signedOut("The login has ended; sign in again.");
    return;
  }
  status(problem.message);
}

async function signIn(event) {
  event.preventDefault();
  const password = byId("password");
  const button = event.target.querySelector("button");
  byId("sign-in-error").textContent = "";
  button.disabled = true;
  try {
    keep((await api("POST", "/v1/session", {name: byId("name").value, password: password.value})).key);
    password.value = "";
    await begin();
  } catch (problem) {
    byId("sign-in-error").textContent = problem.message;
    password.focus();
  } finally {
    button.disabled = false;
  }
}

async function signOut() {
  try {
    await api("DELETE", "/v1/session");
  } finally {
    keep(null);
    editor.text = "";
    signedOut();
  }
}

async function begin() {
  const who = await api("GET", "/v1/session");
  const [words, policy, budget, list] = await Promise.all(
    ["/v1/language", "/v1/tables", "/v1/budget", "/v1/releases"].map((path) => api("GET", path)));
  byId("sign-in").hidden = true;
  byId("work").hidden = false;
  byId("budget").hidden = false;
  byId("sign-out").hidden = false;
  byId("who").textContent = who.analyst === who.user ? who.user : `${who.user} (as ${who.analyst})`;
  editor.know(words, policy.tables);
  most = policy.limits?.max_epsilon_per_query ?? Infinity;
  showTables(policy);
  showBudget(budget);
  showReleases(list.releases);
  const examples = examplesOf(policy);
  put(byId("examples"), examples.map((each) => el("button", {type: "button", onclick: () => use(each.sql)}, each.words)));
  if (!editor.text && examples.length) {
    editor.text = examples[0].sql;
    explainSoon(0);
  }
  editor.area.focus();
}

function showBudget(budget) {
  const [left, total] = [budget.left, budget.total];
  const delta = total.delta ? `, delta ${figure(left.delta)} of ${figure(total.delta)}` : "";
  byId("budget-text").textContent = `epsilon ${figure(left.epsilon)} of ${figure(total.epsilon)}${delta} left${budget.renewal ? `; starts anew on ${budget.renewal.next_start}` : ""}`;
  byId("budget-text").title = budget.renewal ? budget.renewal.words : "";
  byId("budget-bar").max = total.epsilon || 1;
  byId("budget-bar").value = left.epsilon;
}

function showTables(policy) {
  const of = (column) => {
    const values = Array.isArray(column.values) ? column.values.join(", ")
      : column.values?.first ? `${column.values.first.join(", ")} … (${column.values.number_of_values} values)`
        : column.values?.from_table ? `those of ${column.values.from_table}.${column.values.column}`
          : column.values?.from !== undefined ? `${column.values.from} to ${column.values.to}` : column.values ?? "";
    const cut = column.values_are_cut_to;
    return values + (cut ? `${values ? "; " : ""}cut to ${cut.from} to ${cut.to}` : "");
  };
  put(byId("tables"), policy.tables.map((each) => el("details", {},
    el("summary", {}, el("strong", {}, each.name), ` ${each.unit.includes(":") || each.unit.startsWith("a ") ? each.unit.split(":")[0] : `protects ${each.protects ?? each.unit}`}`),
    el("dl", {class: "columns-of"}, each.columns.flatMap((column) => [
      el("dt", {}, el("button", {type: "button", class: "link", "aria-label": `Insert ${column.name}`, onclick: () => insert(column.name)}, column.name),
        el("span", {class: "type"}, ` ${column.type}`)),
      el("dd", {}, of(column))])))));
}

function showReleases(listed) {
  const items = listed.toReversed().slice(0, 200).map((each) => el("li", {value: each.number},
    el("button", {type: "button", class: "release", onclick: () => open(each.number)},
      el("span", {class: "small"}, `${each.when.slice(0, 16)} · epsilon ${each.epsilon ?? "none"}${each.part ? ` · part ${each.part}` : ""}`),
      el("code", {}, each.statement))));
  put(byId("releases"), items.length ? items : el("li", {class: "none"}, "none yet"));
}

// Two questions that every policy answers, or nearly every one.
function examplesOf(policy) {
  const found = [];
  const epsilon = policy.limits?.default_epsilon ?? 0.1;
  for (const table of policy.tables) {
    if (table.unit.startsWith("public") || table.unit.startsWith("a view")) {
      continue;
    }
    const of = !table.protects && table.columns.some((each) => each.name === table.unit) ? `COUNT(DISTINCT ${table.unit})` : "COUNT(*)";
    const select = `SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = ${epsilon})\n`;
    const key = table.columns.filter((each) => Array.isArray(each.values)).sort((a, b) => b.values.length - a.values.length)[0];
    if (key) {
      found.push({words: `${table.name} by ${key.name}`, sql: `${select}  ${key.name}, ${of} AS n\nFROM ${table.name}\nGROUP BY ${key.name}\nTOP 5`});
    }
    found.push({words: `how many in ${table.name}`, sql: `${select}  ${of} AS n\nFROM ${table.name}`});
  }
  return found.sort((a, b) => Number(b.sql.includes("GROUP BY")) - Number(a.sql.includes("GROUP BY"))).slice(0, 4);
}

function use(text) {
  editor.text = text;
  editor.area.focus();
  explainSoon(0);
}

function insert(word) {
  const area = editor.area;
  area.setRangeText(word, area.selectionStart, area.selectionEnd, "end");
  area.focus();
  area.dispatchEvent(new Event("input"));
  editor.close();
}

function explainSoon(wait = WAIT) {
  current = null;
  byId("ask").disabled = true;
  clearTimeout(waiting);
  waiting = setTimeout(explain, wait);
}

// Prices the text; what was asked of the server for an earlier text is given up.
async function explain() {
  clearTimeout(waiting);
  const text = editor.text;
  pricing?.abort();
  if (!text.trim()) {
    status("Write a statement, or take an example.");
    put(byId("price"));
    return;
  }
  pricing = new AbortController();
  const began = performance.now();
  try {
    const facts = await api("POST", "/v1/explain", {sql: text}, {signal: pricing.signal});
    if (editor.text === text) {
      current = {text, facts};
      showPrice(facts);
      byId("price").dataset.milliseconds = (performance.now() - began).toFixed(1);
    }
  } catch (problem) {
    if (problem instanceof Refused && problem.status !== 401 && editor.text === text) {
      showRefusal(problem.facts);
    } else {
      failed(problem);
    }
  }
}

function showPrice(facts) {
  const free = !facts.epsilon && !facts.delta;
  const tooMuch = facts.epsilon > facts.left.epsilon ? `only ${figure(facts.left.epsilon)} is left`
    : facts.epsilon > most ? `one statement may cost at most ${figure(most)}` : null;
  const ask = byId("ask");
  ask.disabled = asking || tooMuch !== null;
  ask.textContent = free ? "Ask, free" : `Ask for ${price(facts)}`;
  editor.mark([]);
  const after = Math.max(0, facts.left.epsilon - facts.epsilon);
  status(tooMuch ? `Costs ${price(facts)}, and ${tooMuch}.`
    : free ? (facts.private ? "Free: it was asked before." : "Free: it reads nothing private.")
      : `Costs ${price(facts)}; then ${figure(Number(after.toPrecision(12)))} is left. Nothing is charged before you ask.`);
  byId("price-card").className = "card";
  put(byId("price"), priced(facts));
}

function showRefusal(facts) {
  byId("ask").disabled = true;
  byId("ask").textContent = "Ask";
  const listed = obstacles(facts);
  const marks = editor.mark(listed);
  const places = new Map(listed.filter((each) => each.line).map((each, i) => [each, marks[i]]));
  status(listed.length > 1 ? `Refused for ${listed.length} reasons; nothing was charged.` : `Refused: ${facts.refused}. Nothing was charged.`);
  byId("price-card").className = "card refused";
  put(byId("price"), refusal(facts, {
    go: (i) => places.get(listed[i]) && editor.go(places.get(listed[i])),
    replace: (i, word) => places.get(listed[i]) && use(editor.replaced(places.get(listed[i]), word)),
    use,
  }));
}

async function ask() {
  if (asking) {
    return;
  }
  if (!current || current.text !== editor.text) {
    await explain(); // the price is shown before anything is charged: asking once more agrees to it
    byId("ask").focus();
    return;
  }
  if (byId("ask").disabled) {
    return;
  }
  const {text, facts} = current;
  setAsking(true);
  let answered = false;
  try {
    const found = await api("POST", "/v1/query", {sql: text, confirm: facts.confirm});
    const spent = found.epsilon || found.delta ? `${price(found)} was spent` : "nothing was spent";
    answered = true;
    showAnswer(found, `${found.rows_in_all} ${found.rows_in_all === 1 ? "row" : "rows"}; ${spent}; left: ${price(found.left)}.`);
  } catch (problem) {
    if (problem instanceof Refused && problem.status !== 401) {
      showRefusal(problem.facts);
    } else {
      failed(problem);
    }
  } finally {
    setAsking(false);
  }
  await refresh();
  if (answered) {
    explainSoon(0); // now it is free
  }
}

function setAsking(now) {
  asking = now;
  byId("stop").hidden = !now;
  byId("ask").disabled = now;
  byId("answer-card").setAttribute("aria-busy", String(now));
  if (now) {
    status("Asking …");
  }
}

async function stop() {
  try {
    await api("POST", "/v1/cancel");
  } catch (problem) {
    failed(problem);
  }
}

async function refresh() {
  try {
    const [budget, list] = await Promise.all([api("GET", "/v1/budget"), api("GET", "/v1/releases")]);
    showBudget(budget);
    showReleases(list.releases);
  } catch (problem) {
    failed(problem);
  }
}

function showAnswer(facts, words) {
  byId("answer-card").hidden = false;
  byId("answer-status").textContent = words;
  put(byId("answer"), facts.statement ? el("pre", {class: "sql"}, facts.statement) : null, answer(facts, failed));
  byId("answer-card").scrollIntoView({block: "nearest"});
}

async function open(number) {
  try {
    showAnswer(await api("GET", `/v1/releases/${number}`), `Release ${number}, opened again; nothing was spent.`);
    byId("answer-title").focus();
  } catch (problem) {
    failed(problem);
  }
}

editor = new Editor(() => explainSoon(), ask);
byId("sign-in-form").addEventListener("submit", signIn);
byId("sign-out").addEventListener("click", signOut);
byId("ask").addEventListener("click", ask);
byId("stop").addEventListener("click", stop);
begin().catch((problem) => signedOut(problem.status === 401 ? "" : problem.message));
