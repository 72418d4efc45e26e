// What a statement would cost, what it was answered, and why it is refused.

import {download, el, figure, price, svg, table} from "/dom.js";
import {pages} from "/pages.js";

const row = (name, ...value) => [el("dt", {}, name), el("dd", {}, value)];

// The obstacles of a refusal, the first one first.
export const obstacles = (facts) => [facts, ...(facts.others ?? [])];

export function priced(facts) {
  const found = [];
  const add = (name, value) => {
    if (value !== undefined && value !== null && value !== "") {
      found.push(...row(name, value));
    }
  };
  add("Mechanism", facts.mechanism ?? facts.selection);
  add("Expected error", expected(facts));
  add("Protected", facts.guarantee ?? facts.unit);
  add("Groups", facts.domain ? `${facts.domain}${facts.domain_size > 1 ? ` (${facts.domain_size} groups)` : ""}` : null);
  add("Cut", facts.left_out?.join("; "));
  add("Assumed", facts.assumed?.join("; "));
  add("Know", facts.warnings?.join("; "));
  const parts = [el("dl", {}, found)];
  for (const release of facts.releases ?? []) {
    parts.push(el("details", {}, el("summary", {}, `${release.relation}: ${release.mechanism}, ${price(release)}`),
      el("p", {}, expected(release) ?? ""), alternatives(release.considered)));
  }
  const others = alternatives(facts.considered);
  if (others) {
    parts.push(el("details", {id: "alternatives"}, el("summary", {}, "Other mechanisms for it"), others));
  }
  return parts;
}

function expected(facts) {
  const texts = [];
  if (facts.half_width) {
    texts.push(`noise within ± ${figure(facts.half_width)} in 95 of 100 answers`);
  } else if (facts.predicted_stddev) {
    texts.push(`standard deviation ${figure(facts.predicted_stddev)}`);
  }
  if (facts.tells_apart) {
    texts.push(`tells groups apart that differ by ${figure(facts.tells_apart)}`);
  }
  if (facts.rank_error) {
    texts.push(`rank off by at most ${figure(facts.rank_error)} rows`);
  }
  if (Array.isArray(facts.units_reaching)) {
    texts.push(`reached by ${facts.units_reaching.map(figure).join(" to ")} units`);
  }
  return texts.length ? texts.join("; ") : null;
}

function alternatives(considered) {
  if (!considered?.length) {
    return null;
  }
  const number = (value) => (value === null || value === undefined ? "" : figure(value));
  const column = (name, cells, isNumber) => ({name, cells, number: isNumber});
  return table("Mechanisms that were considered", [
    column("mechanism", considered.map((each) => each.mechanism), false),
    column("±", considered.map((each) => number(each.half_width)), true),
    column("tells apart", considered.map((each) => number(each.tells_apart)), true),
    column("epsilon", considered.map((each) => number(each.epsilon)), true),
    column("why", considered.map((each) => each.why), false),
  ]);
}

// A refusal: `go(i)` shows the i-th place in the text, `replace(i, word)` changes it, `use(text)` takes a statement over.
export function refusal(facts, {go, replace, use}) {
  const listed = obstacles(facts);
  const items = listed.map((each, i) => el("li", {},
    el("p", {}, el("strong", {}, each.refused), " ", each.line
      ? el("button", {type: "button", class: "link", onclick: () => go(i)}, `line ${each.line}, column ${each.column}`)
      : null),
    hint(each, (word) => replace(i, word), use)));
  const parts = [el("ol", {class: "obstacles"}, items)];
  if (facts.would_be_accepted) {
    parts.push(el("h3", {}, "This would be accepted"), el("pre", {class: "sql"}, facts.would_be_accepted),
      el("button", {type: "button", class: "main", id: "use-rewrite", onclick: () => use(facts.would_be_accepted)}, "Use this statement"));
  }
  return parts;
}

function hint({hint: text, line}, replace, use) {
  if (!text) {
    return null;
  }
  const meant = line && /^did you mean (\w+)\?$/.exec(text);
  if (meant) {
    return el("p", {class: "hint"}, `${text} `,
      el("button", {type: "button", class: "replace", onclick: () => replace(meant[1])}, `Write ${meant[1]}`));
  }
  if (/^\s*SELECT\b/i.test(text)) {
    return [el("pre", {class: "sql"}, text),
      el("button", {type: "button", class: "use-hint", onclick: () => use(text)}, "Use this statement")];
  }
  return el("p", {class: "hint"}, text);
}

// An answer; `failed` is told why a download did not come.
export function answer(facts, failed) {
  const parts = [];
  if (facts.picture) {
    parts.push(picture(facts.picture));
  }
  parts.push(facts.shown.length ? pages(facts.release ? `Release ${facts.release}` : "Rows", facts) : null);
  const shown = facts.rows.length;
  if (facts.rows_in_all > shown) {
    parts.push(el("p", {class: "small"}, `Rows ${facts.first_row + 1} to ${facts.first_row + shown} of ${facts.rows_in_all}; a download has all.`));
  }
  for (const line of [facts.line, ...(facts.below ?? []), ...(facts.warnings ?? [])].filter(Boolean)) {
    parts.push(el("p", {class: "small"}, line));
  }
  if (facts.assumes) {
    parts.push(el("details", {class: "small"}, el("summary", {}, "What is assumed"),
      el("ul", {}, facts.assumes.map((each) => el("li", {}, each)))));
  }
  if (facts.release) {
    const file = (form, words) => el("button", {
      type: "button", class: "link",
      onclick: () => download(`/v1/releases/${facts.release}/${form}${form === "rows.csv" ? "?spreadsheet=true" : ""}`, `release-${facts.release}.${form.split(".").pop()}`).catch(failed),
    }, words);
    parts.push(el("p", {class: "downloads"}, "Download: ", file("rows.csv", "CSV"), " ", file("rows.parquet", "Parquet"),
      facts.picture ? " " : null, facts.picture ? file("chart.svg", "SVG") : null));
    parts.push(el("p", {class: "small"}, `Receipt ${facts.receipt ?? ""}`));
  }
  return parts.filter(Boolean);
}

const DRAWN = new Set(["svg", "title", "g", "rect", "line", "path", "text"]);

// An element of a drawing: its name, its attributes, then children, of which texts stay texts.
function element([name, {xmlns, ...attributes}, ...children]) {
  return DRAWN.has(name) ? svg(name, attributes, ...children.map((each) => (typeof each === "string" ? each : element(each)))) : null;
}

// The picture of an answer: of its drawings the widest that has room.
function picture(facts) {
  const box = el("div", {class: "picture"});
  let drawn = null;
  new ResizeObserver(() => {
    const [first, ...wider] = facts.drawings;
    const fitting = wider.filter((each) => each.width <= box.clientWidth).pop() ?? first;
    if (box.clientWidth > 0 && fitting !== drawn) {
      drawn = fitting;
      box.replaceChildren(element(fitting.drawing));
    }
  }).observe(box);
  return box;
}
