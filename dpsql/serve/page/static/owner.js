// The owner's page: where the budget went, who is locked, users, the policy. It changes nothing.

import {api, byId, el, figure, price, put, svg, table} from "/dom.js";

const column = (name, rows, value, number = false) => ({
  name, number, cells: rows.map((row) => String(value(row) ?? "")),
});
const yes = (value) => (value ? "yes" : "");

// The key stays in this tab; no other origin reads it, and it is in no cookie.
const KEY = "dpsql-owner-key";

async function signIn(key) {
  sessionStorage.setItem(KEY, key);
  await show();
  byId("key").value = "";
}

function signedOut(words) {
  sessionStorage.removeItem(KEY);
  for (const part of document.querySelectorAll("#work div, #work ul")) {
    part.replaceChildren();
  }
  byId("work").hidden = true;
  byId("sign-in").hidden = false;
  byId("refresh").hidden = true;
  byId("sign-out").hidden = true;
  byId("sign-in-error").textContent = words ?? "";
  byId("key").focus();
}

async function show() {
  const facts = await api("GET", "/owner/v1/overview", undefined, {headers: {Authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}`}});
  byId("sign-in").hidden = true;
  for (const id of ["work", "refresh", "sign-out"]) {
    byId(id).hidden = false;
  }
  byId("database").textContent = `${facts.database}, dpsql ${facts.version}`;
  byId("status").textContent = `Read at ${new Date().toLocaleTimeString()}; ${facts.connected} connected.`;
  const locked = facts.analysts.filter((each) => each.locked).map((each) => `${each.analyst} is locked by failed or cancelled statements: look at them, then run dpsql budget --clear-failures`);
  const warnings = [...locked, ...facts.policy.warnings];
  put(byId("warnings"), warnings.length ? warnings.map((each) => el("li", {}, each)) : el("li", {}, "nothing"));
  showBudget(facts);
  put(byId("by"), Object.entries(facts.by).map(([what, rows]) => rows.length ? table(`By ${what}`, [
    column(what, rows, (row) => row.name),
    column("statements", rows, (row) => row.statements, true),
    column("epsilon", rows, (row) => figure(row.epsilon), true)]) : el("p", {}, `By ${what}: nothing yet`)));
  put(byId("analysts"), table("What each analyst may still spend, and failures", [
    column("analyst", facts.analysts, (row) => row.analyst),
    column("epsilon left", facts.analysts, (row) => row.left && figure(row.left.epsilon), true),
    column("of", facts.analysts, (row) => row.total && figure(row.total.epsilon), true),
    column("failed", facts.analysts, (row) => `${row.failed} of ${row.max_failures}`, true),
    column("cancelled", facts.analysts, (row) => `${row.cancelled} of ${row.max_cancelled}`, true),
    column("locked", facts.analysts, (row) => yes(row.locked))]));
  put(byId("entries"), facts.entries.length ? table(`The latest ${facts.entries.length} of ${facts.entries_in_all} charges`, [
    column("entry", facts.entries, (row) => row.entry, true),
    {...column("when (UTC)", facts.entries, (row) => row.when.slice(0, 19)), whole: true},
    column("analyst", facts.entries, (row) => row.analyst),
    column("epsilon", facts.entries, (row) => (row.epsilon === null ? "none" : figure(row.epsilon)), true),
    column("delta", facts.entries, (row) => (row.delta ? figure(row.delta) : ""), true),
    column("tables", facts.entries, (row) => row.tables),
    column("mechanism", facts.entries, (row) => row.mechanism),
    column("ended", facts.entries, (row) => row.state),
    column("statement", facts.entries, (row) => row.statement)]) : el("p", {}, "Nothing was asked yet."));
  put(byId("users"), table("Who may log in", [
    column("user", facts.users, (row) => row.user),
    column("analyst", facts.users, (row) => row.analyst),
    column("state", facts.users, (row) => row.state),
    column("password", facts.users, (row) => yes(row.password)),
    column("tokens", facts.users, (row) => row.tokens.join(", ")),
    column("expires", facts.users, (row) => row.expires),
    column("charged without a word", facts.users, (row) => yes(row.auto_charge)),
    column("free below", facts.users, (row) => figure(row.free_below), true)]));
  showPolicy(facts.policy);
}

function showBudget(facts) {
  const {total, spent, left, accounting} = facts.budget;
  put(byId("budget-facts"),
    el("dl", {}, [["total", total], ["spent", spent], ["left", left]].flatMap(([name, amounts]) => [el("dt", {}, name), el("dd", {}, price(amounts))]),
      el("dt", {}, "accounting"), el("dd", {}, accounting)),
    facts.budget.renewal ? el("p", {}, `${facts.budget.renewal.words}; of its lifetime, ${facts.budget.renewal.lifetime ?? "unlimited"}, epsilon ${facts.budget.renewal.spent ?? "unknown"} is spent`) : null,
    facts.over_time.length > 1 ? curve(facts.over_time, total.epsilon) : null);
}

// What was spent in all over time, the whole budget at the top.
function curve(points, total) {
  const [width, height, left, bottom] = [640, 170, 48, 146];
  const times = points.map((each) => Date.parse(each.when));
  const [first, last] = [times[0], times.at(-1)];
  const x = (time) => left + ((time - first) / (last - first || 1)) * (width - left - 8);
  const y = (epsilon) => bottom - (Math.min(epsilon, total) / (total || 1)) * (bottom - 10);
  let path = `M${x(first)} ${bottom}V${y(points[0].epsilon)}`;
  for (let i = 1; i < points.length; i++) {
    path += `H${x(times[i]).toFixed(1)}V${y(points[i].epsilon).toFixed(1)}`;
  }
  const label = `Epsilon spent over time: ${figure(points.at(-1).epsilon)} of ${figure(total)}`;
  const day = (text) => text.slice(0, 16).replace("T", " ");
  return el("div", {class: "scroll"}, svg("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label, class: "curve"},
    svg("title", {}, label),
    svg("line", {x1: left, x2: width - 8, y1: y(total), y2: y(total), class: "limit"}),
    svg("line", {x1: left, x2: width - 8, y1: bottom, y2: bottom, class: "axis"}),
    svg("path", {d: path, class: "line"}),
    svg("text", {x: left - 6, y: y(total) + 5, "text-anchor": "end"}, figure(total)),
    svg("text", {x: left - 6, y: bottom + 4, "text-anchor": "end"}, "0"),
    svg("text", {x: left, y: bottom + 18}, day(points[0].when)),
    svg("text", {x: width - 8, y: bottom + 18, "text-anchor": "end"}, day(points.at(-1).when))));
}

function showPolicy(policy) {
  const values = (facts) => {
    const found = facts.values;
    const declared = Array.isArray(found) ? found.join(", ")
      : found?.first ? `${found.first.join(", ")} … (${found.number_of_values} values)`
        : found?.from_table ? `those of ${found.from_table}.${found.column}`
          : found?.from !== undefined ? `${found.from} to ${found.to}` : found ?? "";
    return declared;
  };
  const cut = (facts) => (facts.values_are_cut_to ? `${facts.values_are_cut_to.from} to ${facts.values_are_cut_to.to}` : "");
  put(byId("policy"),
    el("dl", {}, el("dt", {}, "file"), el("dd", {}, policy.file ?? ""), el("dt", {}, "engine"), el("dd", {}, policy.engine),
      Object.entries(policy.limits).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))])),
    policy.caps.length ? table("Caps of analysts", [
      column("analyst", policy.caps, (row) => row.analyst),
      column("epsilon", policy.caps, (row) => row.epsilon === null ? "" : figure(row.epsilon), true)]) : null,
    policy.tables.map((each) => [
      el("h3", {}, each.name, each.kind ? ` — protects one ${each.kind}` : ""),
      el("p", {class: "small"}, each.unit, each.unique.length ? `; unique: ${each.unique.join("; ")}` : ""),
      table(`Columns of ${each.name}`, [
        column("column", each.columns, (row) => row.name),
        column("type", each.columns, (row) => row.type),
        column("declared values", each.columns, values),
        column("cut to", each.columns, cut)])]).flat(),
    policy.views.map((each) => [el("h3", {}, `view ${each.name}`), el("pre", {class: "sql"}, each.sql)]).flat());
}

const failed = (problem) => signedOut(problem.status === 401 ? "" : problem.message);

byId("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await signIn(byId("key").value.trim().split("#").pop());
  } catch (problem) {
    signedOut(problem.message);
  }
});
byId("refresh").addEventListener("click", () => show().catch(failed));
byId("sign-out").addEventListener("click", () => signedOut());

// The key in the link is behind #, which no browser sends; it is taken out of the address at once.
const key = location.hash.slice(1);
if (key) {
  history.replaceState(null, "", location.pathname);
  signIn(key).catch((problem) => signedOut(problem.message));
} else {
  show().catch(failed);
}
