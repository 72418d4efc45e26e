"""The report: one HTML file without JavaScript, and a CSV beside it for every table."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from reproduce.svg import Series, swatch

__all__ = ["Claim", "Section", "Table", "write"]

STYLE = """
:root { color-scheme: light }
body { font: 16px/1.5 system-ui, sans-serif; color: #1c1c1c; background: #fff; margin: 2rem auto;
  max-width: 1240px; padding: 0 1.2rem }
h1 { font-size: 1.7rem; margin-bottom: .2rem } h2 { font-size: 1.25rem; margin: 2.6rem 0 .3rem;
  border-top: 1px solid #ccc; padding-top: 1.2rem }
p { max-width: 52rem; margin: .5rem 0 } .from { color: #555; margin: 0 }
.claims { list-style: none; padding: 0; max-width: 60rem } .claims li { margin: .25rem 0 .25rem 1.6rem;
  text-indent: -1.6rem }
.mark { display: inline-block; width: 1.6rem; text-indent: 0; font-weight: 700 } .yes { color: #00704f }
.no { color: #b03a00 }
.panels { display: flex; flex-wrap: wrap; gap: .6rem 1rem; margin: .6rem 0 }
.panels svg { width: 380px; max-width: 100%; height: auto } .two { max-width: 800px }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; font-size: .9rem; color: #333 }
.legend span { display: inline-flex; align-items: center; gap: .35rem }
svg text { font: 12px system-ui, sans-serif; fill: #333 } svg .title { font-weight: 600; font-size: 13px }
svg .label { text-anchor: middle } svg .right { text-anchor: end } svg .middle { text-anchor: middle }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums }
th, td { padding: .15rem .7rem; text-align: right; border-bottom: 1px solid #e6e6e6 }
th.text, td.text { text-align: left; white-space: nowrap } thead th { border-bottom: 1px solid #888 }
details { margin: .6rem 0 } summary { cursor: pointer; color: #00537f }
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence with its figures, and whether what was measured bears it out."""

    words: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Table:
    """Figures for people and programs; the name is that of its CSV file."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    shown: bool = False
    """Whether people should see it at once."""


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment: what it is after, what came out, figures, tables."""

    title: str
    source: str
    text: str
    claims: Sequence[Claim]
    panels: Sequence[str] = field(default=())
    legend: Sequence[Series] = field(default=())
    tables: Sequence[Table] = field(default=())


def write(
    path: Path, title: str, before: Sequence[str], data: Table, sections: Sequence[Section]
) -> list[Path]:
    """Write the report and its tables; return the files written."""
    folder = path.with_name(path.stem + "-tables")
    folder.mkdir(parents=True, exist_ok=True)
    files = [path]
    tables = [data, *(table for section in sections for table in section.tables)]
    for table in tables:
        file = folder / f"{table.name}.csv"
        with file.open("w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([table.columns, *table.rows])
        files.append(file)
    claims = [claim for section in sections for claim in section.claims]
    holding = f"{sum(c.holds for c in claims)} of {len(claims)} claims hold in this run."
    parts = [
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>",
        "<meta name='viewport' content='width=device-width'>",
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>",
        *(f"<p>{escape(line)}</p>" for line in (*before, holding)),
        _table(data, folder.name),
        *(_section(section, folder.name) for section in sections),
        "</body></html>",
    ]
    path.write_text("\n".join(parts), encoding="utf-8")
    return files


def _section(section: Section, folder: str) -> str:
    claims = "".join(
        f"<li><span class='mark {'yes' if c.holds else 'no'}'>{'✓' if c.holds else '✗'}</span>"
        f"{escape(c.words)}</li>"
        for c in section.claims
    )
    panels = "panels two" if len(section.panels) in (2, 4) else "panels"
    legend = "".join(f"<span>{swatch(s)}{escape(s.name)}</span>" for s in section.legend)
    return (
        f"<h2>{escape(section.title)}</h2><p class='from'>{escape(section.source)}</p>"
        f"<p>{escape(section.text)}</p><ul class='claims'>{claims}</ul>"
        f"<div class='legend'>{legend}</div>"
        f"<div class='{panels}'>{''.join(section.panels)}</div>"
        + "".join(_table(table, folder) for table in section.tables)
    )


def _table(table: Table, folder: str) -> str:
    texts = [any(isinstance(row[i], str) for row in table.rows) for i in range(len(table.columns))]
    sides = [" class='text'" if text else "" for text in texts]
    heads = "".join(f"<th{side}>{escape(n)}</th>" for side, n in zip(sides, table.columns, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{side}>{escape(_cell(v))}</td>" for side, v in zip(sides, row, strict=True))
        + "</tr>"
        for row in table.rows
    )
    link = f"<a href='{escape(folder)}/{escape(table.name)}.csv'>{escape(table.name)}.csv</a>"
    held = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    if table.shown:
        return f"{held}<p>{link}</p>"
    return f"<details><summary>{len(table.rows)} rows of figures, {link}</summary>{held}</details>"


def _cell(value: object) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
