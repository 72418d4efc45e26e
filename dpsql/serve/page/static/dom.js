// Elements and requests. Texts become text nodes, so that nothing of an answer is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const el = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);
export const byId = (id) => document.getElementById(id);
export const put = (element, ...children) => element.replaceChildren(...children.flat().filter(Boolean));

// A number for reading: four digits are enough.
export function figure(value) {
  if (!Number.isFinite(value)) {
    return String(value);
  }
  if (value !== 0 && Math.abs(value) < 1e-4) {
    return value.toExponential(2).replace(/\.?0+e/, "e");
  }
  return value.toLocaleString("en", {maximumSignificantDigits: Math.abs(value) >= 1e4 ? 6 : 4});
}

// "epsilon 0.5", and the delta where there is one.
export function price(amounts) {
  return `epsilon ${figure(amounts.epsilon)}` + (amounts.delta ? `, delta ${figure(amounts.delta)}` : "");
}

// An answer that is no success: `facts` has `refused`, and perhaps `hint`.
export class Refused extends Error {
  constructor(status, facts) {
    super(facts.refused);
    this.status = status;
    this.facts = facts;
  }
}

export async function api(method, path, body, signal, more) {
  const headers = {"X-Dpsql": "1", ...more};
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(path, {
      method, headers, signal, credentials: "same-origin", cache: "no-store",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (problem) {
    if (problem.name === "AbortError") {
      throw problem;
    }
    throw new Refused(0, {refused: "the server cannot be reached", hint: "try again in a moment"});
  }
  const text = await response.text();
  let facts = {};
  try {
    facts = text ? JSON.parse(text) : {};
  } catch {
    facts = {refused: "the server's answer cannot be read"};
  }
  if (!response.ok) {
    throw new Refused(response.status, facts.refused ? facts : {refused: `the server answered ${response.status}`});
  }
  return facts;
}

// A table with a caption; `columns` are objects with name, cells, and whether they are numbers.
export function table(caption, columns, first = 0) {
  const rows = columns.length ? columns[0].cells.length : 0;
  const side = (column) => ({class: column.number ? "number" : column.whole ? "whole" : null});
  const body = [];
  for (let i = 0; i < rows; i++) {
    body.push(el("tr", {}, columns.map((column, place) => {
      const content = column.nulls?.includes(i) ? el("i", {}, column.cells[i] || "NULL") : column.cells[i];
      return place === 0 && !column.number ? el("th", {scope: "row"}, content) : el("td", side(column), content);
    })));
  }
  return el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption},
    el("table", {},
      el("caption", {}, caption + (first ? `, from row ${first + 1}` : "")),
      el("thead", {}, el("tr", {}, columns.map((column) => el("th", {scope: "col", ...side(column)}, column.name)))),
      el("tbody", {}, body)));
}
