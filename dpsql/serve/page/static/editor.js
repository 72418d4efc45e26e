// The statement's editor: a textarea over its own text in colours, with marks and completions.

import {byId, el, put} from "/dom.js";

const TOKEN = /(--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|('(?:[^']|'')*'?)|("(?:[^"]|"")*"?)|(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|([A-Za-z_]\w*)|(\s+)|([\s\S])/g;
const KINDS = ["comment", "string", "name", "figure", "word", "blank", "sign"];
const MOST = 12;

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

export class Editor {
  constructor(onInput, onSubmit) {
    this.area = byId("sql");
    this.paint = byId("paint");
    this.list = byId("completions");
    this.said = byId("completion-status");
    this.words = {keywords: [], options: {}};
    this.tables = [];
    this.marks = [];
    this.found = [];
    this.chosen = -1;
    this.area.addEventListener("input", () => {
      this.marks = [];
      this.draw();
      this.complete(false);
      onInput();
    });
    this.area.addEventListener("keydown", (event) => this.key(event, onSubmit));
    this.area.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    this.area.addEventListener("click", () => this.close());
    new ResizeObserver(() => this.size()).observe(this.area);
  }

  get text() {
    return this.area.value;
  }

  set text(value) {
    this.area.value = value;
    this.marks = [];
    this.close();
    this.draw();
  }

  know(words, tables) {
    this.words = words;
    this.tables = tables;
    this.keywords = new Set(words.keywords.flatMap((each) => each.replace("()", "").split(" ")));
    this.draw();
  }

  // Marks where obstacles stand: objects with `line` and `column`, from 1, in characters.
  mark(obstacles) {
    const lines = this.text.split("\n");
    this.marks = obstacles.filter((each) => each.line && each.line <= lines.length).map((each) => {
      const before = lines.slice(0, each.line - 1).reduce((sum, line) => sum + line.length + 1, 0);
      const start = before + [...lines[each.line - 1]].slice(0, each.column - 1).join("").length;
      const word = /^(?:[\w.]+|'(?:[^']|'')*'?|"[^"]*"?|\S+)/.exec(this.text.slice(start));
      return {start, end: start + Math.max(1, word ? word[0].length : 1)};
    });
    this.draw();
    return this.marks;
  }

  go(place) {
    this.area.focus();
    this.area.setSelectionRange(place.start, place.end);
  }

  replaced(place, word) {
    return this.text.slice(0, place.start) + word + this.text.slice(place.end);
  }

  draw() {
    const shown = [];
    for (const match of this.text.matchAll(TOKEN)) {
      const group = match.slice(1).findIndex((each) => each !== undefined);
      let kind = KINDS[group];
      if (kind === "word") {
        kind = this.keywords?.has(match[0].toUpperCase()) ? "keyword" : "";
      }
      this.pieces(match.index, match[0], kind, shown);
    }
    put(this.paint, shown, "\n");
    this.size();
  }

  // Adds a token to what is shown, split where marks begin and end.
  pieces(start, text, kind, shown) {
    const cuts = new Set([start, start + text.length]);
    for (const mark of this.marks) {
      for (const cut of [mark.start, mark.end]) {
        if (cut > start && cut < start + text.length) {
          cuts.add(cut);
        }
      }
    }
    const at = [...cuts].sort((a, b) => a - b);
    for (let i = 0; i + 1 < at.length; i++) {
      const wrong = this.marks.some((mark) => mark.start <= at[i] && at[i] < mark.end);
      const name = [kind, wrong ? "wrong" : ""].filter(Boolean).join(" ");
      const part = text.slice(at[i] - start, at[i + 1] - start);
      shown.push(name ? el("span", {class: name}, part) : document.createTextNode(part));
    }
  }

  size() {
    this.area.style.height = "auto";
    this.area.style.height = `${Math.max(this.area.scrollHeight + 2, 120)}px`;
  }

  key(event, onSubmit) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.close();
      onSubmit();
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      this.complete(true);
    } else if (this.list.hidden) {
      return;
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      this.choose((this.chosen + (event.key === "ArrowDown" ? 1 : -1) + this.found.length) % this.found.length, true);
    } else if (event.key === "Tab" && !event.shiftKey || event.key === "Enter" && this.moved) {
      event.preventDefault();
      this.take(this.found[this.chosen]);
    } else if (event.key === "Escape") {
      event.preventDefault();
      this.close();
    }
  }

  complete(asked) {
    const [begun, among] = this.candidates(this.text.slice(0, this.area.selectionStart));
    const low = begun.toLowerCase();
    this.found = [...new Set(among)].filter((each) => each.toLowerCase().startsWith(low) && each.toLowerCase() !== low);
    this.found = this.found.slice(0, MOST);
    this.begun = begun;
    const whole = !asked && among.some((each) => each.toLowerCase() === low);
    if (whole || !this.found.length || (!begun && !asked) || this.area.selectionStart !== this.area.selectionEnd) {
      this.close();
      return;
    }
    put(this.list, this.found.map((each, i) => el("li", {
      id: `completion-${i}`, role: "option", onmousedown: (event) => {
        event.preventDefault();
        this.take(each);
      },
    }, each)));
    this.list.hidden = false;
    this.said.textContent = `${this.found.length} completions`;
    this.choose(0, false);
    this.place();
  }

  // What is begun before the cursor, and what it may become.
  candidates(before) {
    if (before.replaceAll("''", "").split("'").length % 2 === 0) {
      const compared = /(\w+)"?\s*(?:=|<>|!=|\bIN\s*\(|\bLIKE\b)\s*(?:'(?:[^']|'')*'\s*,\s*)*'((?:[^']|'')*)$/i.exec(before);
      const values = compared ? this.values(compared[1]) : [];
      return [compared?.[2] ?? "", values.map((each) => `${each.replaceAll("'", "''")}'`)];
    }
    const qualified = /(\w+)\.(\w*)$/.exec(before);
    if (qualified) {
      return [qualified[2], this.columns(qualified[1])];
    }
    const word = /\w*$/.exec(before)[0];
    const options = /\bOPTIONS\s*\(((?:[^()']|'[^']*')*)$/i.exec(before);
    if (options) {
      const current = options[1].slice(0, options[1].length - word.length).split(",").pop();
      const [name, equals] = [current.split("=")[0].trim().toLowerCase(), current.includes("=")];
      return [word, equals ? this.words.options[name] ?? [] : Object.keys(this.words.options)];
    }
    if (/\b(?:FROM|JOIN|DESCRIBE)\s+\w*$/i.test(before)) {
      return [word, this.tables.map((each) => each.name)];
    }
    const named = this.tables.filter((each) => new RegExp(`\\b${escaped(each.name)}\\b`, "i").test(this.text));
    const columns = (named.length ? named : this.tables).flatMap((each) => each.columns.map((one) => one.name));
    const lower = word !== "" && word === word.toLowerCase();
    const above = before.slice(0, before.length - word.length).trimEnd().toUpperCase();
    const further = this.words.keywords.flatMap((each) => {
      const [first, ...others] = each.split(" ");
      return others.length && new RegExp(`\\b${first}$`).test(above) ? [others.join(" ")] : [];
    });
    const keywords = [...further, ...this.words.keywords].map((each) => (lower ? each.toLowerCase() : each));
    return [word, [...columns, ...this.tables.map((each) => each.name), ...keywords]];
  }

  columns(name) {
    const table = this.tables.find((each) => each.name.toLowerCase() === name.toLowerCase()
      || new RegExp(`\\b${escaped(each.name)}\\s+(?:AS\\s+)?${escaped(name)}\\b`, "i").test(this.text));
    return table ? table.columns.map((each) => each.name) : [];
  }

  values(column) {
    const found = this.tables.flatMap((each) => each.columns).filter((each) => each.name.toLowerCase() === column.toLowerCase());
    return found.flatMap((each) => (Array.isArray(each.values) ? each.values : each.values?.first ?? [])).map(String);
  }

  choose(place, moved) {
    this.chosen = place;
    this.moved = moved;
    [...this.list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === place)));
    this.list.children[place]?.scrollIntoView({block: "nearest"});
    this.area.setAttribute("aria-activedescendant", `completion-${place}`);
  }

  take(word) {
    const end = this.area.selectionStart;
    this.area.setRangeText(word, end - this.begun.length, end, "end");
    this.close();
    this.area.dispatchEvent(new Event("input"));
    this.close();
  }

  close() {
    this.list.hidden = true;
    this.area.removeAttribute("aria-activedescendant");
    this.said.textContent = "";
  }

  // Puts the list below the cursor, where the text in colours has it.
  place() {
    let left = this.area.selectionStart - this.begun.length;
    const walker = document.createTreeWalker(this.paint, NodeFilter.SHOW_TEXT);
    let node = walker.nextNode();
    while (node && left > node.length) {
      left -= node.length;
      node = walker.nextNode();
    }
    const range = document.createRange();
    range.setStart(node ?? this.paint, node ? left : 0);
    const box = range.getBoundingClientRect();
    const outer = this.paint.getBoundingClientRect();
    const x = Math.min(box.left - outer.left, outer.width - 180);
    this.list.style.left = `${Math.max(0, x)}px`;
    this.list.style.top = `${box.bottom - outer.top + 4}px`;
  }
}
