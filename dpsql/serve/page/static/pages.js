// The rows of an answer: pages of 25 with a head that stays, sorted by any column, copied as text. All of it is free.

import {el, put, table} from "/dom.js";

const ROWS = 25;

// NULL comes last, whichever the direction.
function compare(a, b, direction) {
  if (a === null || b === null) {
    return (a === null) - (b === null);
  }
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true});
  return direction * order;
}

// Copies a text; the second way is for pages without TLS, where browsers have no first one.
async function write(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", {class: "hidden", "aria-hidden": "true"});
    const focused = document.activeElement;
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    focused?.focus();
    return copied;
  }
}

export function pages(caption, facts) {
  const columns = facts.shown.map((column) => ({...column, whole: /^(date|timestamp|time)/.test(facts.columns[column.column].type)}));
  const rows = facts.rows.map((row, i) => i);
  let [order, sorted, direction, first] = [rows, -1, 1, 0];
  const box = el("div", {class: "pages"});
  const said = el("p", {class: "small", role: "status"});

  const cellsOf = (places) => columns.map((column) => ({
    ...column,
    cells: places.map((i) => column.cells[i]),
    nulls: places.flatMap((i, place) => (column.nulls.includes(i) ? [place] : [])),
  }));

  const sort = (place) => {
    [sorted, direction] = [place, place === sorted ? -direction : columns[place].number ? -1 : 1];
    const value = (i) => facts.rows[i][columns[place].column];
    order = rows.toSorted((a, b) => compare(value(a), value(b), direction) || a - b);
    first = 0;
    show();
    box.querySelectorAll("thead button")[place].focus();
  };

  const turn = (to, name) => {
    first = to;
    show();
    const button = box.querySelector(`[data-turn="${name}"]`);
    (button.disabled ? box.querySelector(".scroll") : button).focus();
  };

  const copy = async () => {
    const text = (cell) => String(cell ?? "").replace(/[\t\n]+/g, " ");
    const lines = [columns.map((column) => text(column.name)), ...order.map((i) => columns.map((column) => text(column.cells[i])))];
    const copied = await write(lines.map((line) => line.join("\t")).join("\n") + "\n");
    said.textContent = copied ? `${order.length} rows were copied.` : "This browser does not let a page copy: take a download.";
  };

  const show = () => {
    const heads = columns.map((column, place) => ({
      sort: () => sort(place),
      order: place === sorted ? (direction > 0 ? "ascending" : "descending") : "none",
    }));
    const shown = order.slice(first, first + ROWS);
    const page = order.length > ROWS ? `, rows ${first + 1} to ${first + shown.length} of ${order.length}` : "";
    const turns = order.length > ROWS ? [
      el("button", {type: "button", class: "quiet", "data-turn": "back", disabled: first === 0, onclick: () => turn(first - ROWS, "back")}, "Previous 25 rows"),
      el("button", {type: "button", class: "quiet", "data-turn": "on", disabled: first + ROWS >= order.length, onclick: () => turn(first + ROWS, "on")}, "Next 25 rows"),
    ] : [];
    put(box, table(`${caption}${page}`, cellsOf(shown), facts.first_row, heads),
      el("div", {class: "turns"}, turns, el("button", {type: "button", class: "quiet", onclick: copy}, "Copy")), said);
  };
  show();
  return box;
}
