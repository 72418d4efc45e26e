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

// The key of the login: what a cookie alone does not open. No other origin reads it.
const KEY = "dpsql-key";
let kept = null;
try {
  kept = localStorage.getItem(KEY);
} catch { /* a browser that keeps nothing */ }

export function keep(key) {
  kept = key;
  try {
    if (key === null) {
      localStorage.removeItem(KEY);
    } else {
      localStorage.setItem(KEY, key);
    }
  } catch { /* as above */ }
}

async function send(method, path, {body, signal, headers} = {}) {
  try {
    return await fetch(path, {
      method, signal, credentials: "same-origin", cache: "no-store",
      headers: {"X-Dpsql": kept ?? "1", ...(body === undefined ? {} : {"Content-Type": "application/json"}), ...headers},
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (problem) {
    if (problem.name === "AbortError") {
      throw problem;
    }
    throw new Refused(0, {refused: "the server cannot be reached", hint: "try again in a moment"});
  }
}

async function facts(response) {
  const text = await response.text();
  let found = {};
  try {
    found = text ? JSON.parse(text) : {};
  } catch {
    found = {refused: "the server's answer cannot be read"};
  }
  if (!response.ok) {
    throw new Refused(response.status, found.refused ? found : {refused: `the server answered ${response.status}`});
  }
  return found;
}

export const api = async (method, path, body, more) => facts(await send(method, path, {body, ...more}));

// Saves a file; a link alone could not send the key.
export async function download(path, name) {
  const response = await send("GET", path);
  if (!response.ok) {
    await facts(response);
  }
  const url = URL.createObjectURL(await response.blob());
  el("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

// A table with a caption; `columns` are objects with name, cells, and whether they are numbers. `heads` say how a
// column is sorted now, and sort it.
export function table(caption, columns, first = 0, heads = null) {
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
      el("thead", {}, el("tr", {}, columns.map((column, place) => (heads
        ? el("th", {scope: "col", "aria-sort": heads[place].order, ...side(column)},
          el("button", {type: "button", class: "sort", onclick: heads[place].sort}, column.name))
        : el("th", {scope: "col", ...side(column)}, column.name))))),
      el("tbody", {}, body)));
}
