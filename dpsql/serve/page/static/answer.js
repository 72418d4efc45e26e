// What a statement would cost, what it was answered, and why it is refused.

import {download, el, figure, price, svg, table} from "/dom.js";

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
  if (facts.chart?.bars.length) {
    parts.push(chart(facts.chart));
  }
  parts.push(facts.shown.length ? table(facts.release ? `Release ${facts.release}` : "Rows", facts.shown, facts.first_row) : null);
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
      facts.chart ? " " : null, facts.chart ? file("chart.svg", "SVG") : null));
    parts.push(el("p", {class: "small"}, `Receipt ${facts.receipt ?? ""}`));
  }
  return parts.filter(Boolean);
}

// Bars from zero to each number, a line over its interval, and the gap to the next group.
function chart(facts) {
  const box = el("div", {class: "chart"});
  let drawn = 0;
  new ResizeObserver(() => {
    const width = Math.floor(box.clientWidth);
    if (width > 100 && width !== drawn) {
      drawn = width;
      box.replaceChildren(bars(facts, width));
    }
  }).observe(box);
  return box;
}

function bars(facts, width) {
  const narrow = width < 520;
  const texts = facts.bars.map((bar) => bar.text + (bar.gap === null ? "" : ` · gap ${bar.gap_text}`));
  const room = Math.max(14, ...texts.map((text) => 7 * [...text].length + 14)); // of the longest text beside a bar
  const below = narrow && room > width / 2; // the texts have lines of their own
  const line = below ? 60 : narrow ? 44 : 28;
  const head = 26;
  const [from, to] = narrow ? [4, width - 4] : [Math.min(200, width * 0.28), width - room];
  const there = facts.bars.filter((each) => each.value !== null);
  const start = (bar) => bar.low ?? (bar.high === null ? bar.value : Math.min(bar.value, 0));
  const end = (bar) => (bar.high === null ? bar.value : Math.max(bar.value, bar.high));
  const top = Math.max(0, ...there.map(end));
  const negative = there.some((bar) => (bar.high ?? bar.value) < 0);
  const bottom = negative ? Math.min(0, ...there.map((bar) => Math.min(start(bar), bar.value))) : 0;
  const span = top - bottom || 1;
  const x = (value) => from + ((Math.min(Math.max(value, bottom), top) - bottom) / span) * (to - from);
  const height = head + line * facts.bars.length + 8;
  const percent = figure(facts.confidence * 100);
  const label = `Bar chart of ${facts.of} with ${percent}% intervals; the table below has the same numbers`;
  const parts = [svg("title", {}, label), svg("text", {x: 4, y: 16, class: "strong"}, `${facts.of}, with ${percent}% intervals`)];
  parts.push(svg("line", {x1: x(0), x2: x(0), y1: head, y2: height - 4, class: "axis"}));
  facts.bars.forEach((bar, i) => {
    const y = head + line * i;
    const middle = narrow ? y + line - 13 : y + line / 2;
    const letters = [...bar.label];
    const most = Math.floor((below ? width - 8 : narrow ? width * 0.5 : from - 12) / 7);
    const cut = letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : bar.label;
    const row = [svg("title", {}, `${bar.label}: ${texts[i]}`)];
    row.push(narrow ? svg("text", {x: 4, y: y + 16}, cut) : svg("text", {x: from - 8, y: middle + 4, "text-anchor": "end"}, cut));
    const under = below ? y + 32 : narrow ? y + 16 : middle + 4;
    row.push(svg("text", {x: width - 4, y: under, "text-anchor": "end", class: "figures"}, texts[i]));
    if (bar.value !== null) {
      const [zero, at] = [x(0), x(bar.value)];
      row.push(svg("rect", {x: Math.min(zero, at), y: middle - 7, width: Math.max(Math.abs(at - zero), 1), height: 14, class: "bar"}));
      if (bar.low !== null || bar.high !== null) {
        const [low, high] = [x(start(bar)), x(end(bar))];
        const ended = start(bar) >= bottom ? `M${low} ${middle - 6}V${middle + 6}` : ""; // else it goes on beyond the axis
        row.push(svg("path", {d: `${ended}M${low} ${middle}H${high}M${high} ${middle - 6}V${middle + 6}`, class: "interval"}));
      }
    }
    parts.push(svg("g", {}, row));
  });
  return svg("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label}, parts);
}
