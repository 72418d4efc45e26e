"""The report: one HTML file without JavaScript, and a CSV beside it for every table."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from reproduce.svg import Series, swatch

__all__ = ["Claim", "Figure", "Section", "Table", "write"]

STYLE = """
:root { color-scheme: light }
body { font: 16px/1.5 system-ui, sans-serif; color: #1c1c1c; background: #fff; margin: 2rem auto;
  max-width: 1180px; padding: 0 1.2rem }
h1 { font-size: 1.7rem; line-height: 1.25; margin-bottom: .4rem }
h2 { font-size: 1.3rem; margin: 3rem 0 .3rem;
  border-top: 1px solid #ccc; padding-top: 1.4rem } h3 { font-size: 1.05rem; margin: 2rem 0 .2rem }
p { max-width: 52rem; margin: .5rem 0 } .from { color: #555; margin: 0 } a { color: #00537f }
.claims { list-style: none; padding: 0; margin: .3rem 0 .7rem; max-width: 60rem }
.claims li { margin: .25rem 0 .25rem 1.6rem; text-indent: -1.6rem }
.mark { display: inline-block; width: 1.6rem; text-indent: 0; font-weight: 700 } .yes { color: #00704f }
.no { color: #b03a00 }
figure { margin: 0 } .panels { display: grid; gap: .8rem 1rem; margin: .5rem 0 1rem }
.two { grid-template-columns: repeat(2, minmax(0, 440px)) } .three { grid-template-columns: repeat(3, 1fr) }
.panels svg { width: 100%; height: auto }
@media (max-width: 860px) { .two, .three { grid-template-columns: minmax(0, 440px) } }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; font-size: .9rem; color: #333 }
.legend span { display: inline-flex; align-items: center; gap: .35rem }
svg text { font: 12px system-ui, sans-serif; fill: #333 } svg .title { font-weight: 600; font-size: 13px }
svg .label { text-anchor: middle } svg .right { text-anchor: end } svg .middle { text-anchor: middle }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; margin: .6rem 0 }
th, td { padding: .15rem .7rem; text-align: right; border-bottom: 1px solid #e6e6e6; vertical-align: top }
th.text, td.text { text-align: left } thead th { border-bottom: 1px solid #888; vertical-align: bottom }
.short td, .short th { white-space: nowrap }
caption { text-align: left; font-weight: 600; padding: .5rem 0 }
details { margin: .6rem 0 } summary { cursor: pointer; color: #00537f }
"""

CLASS = " class='short'"


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence with its figures, and whether what was measured bears it out."""

    words: str
    holds: bool
    paper: str = ""
    """What a paper says of it, in few words: such claims are listed at the top."""
    here: str = ""
    """What was measured, in few words."""


@dataclass(frozen=True, slots=True)
class Table:
    """Figures for people and programs; the name is that of its CSV file."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    shown: bool = False
    """Whether people should see it at once."""
    title: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """Charts that belong together, and the claims that must be true of them."""

    title: str
    claims: Sequence[Claim]
    panels: Sequence[str] = field(default=())
    legend: Sequence[Series] = field(default=())


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment: what it is after, what came out, figures, tables."""

    title: str
    source: str
    text: str
    figures: Sequence[Figure]
    tables: Sequence[Table] = field(default=())

    @property
    def claims(self) -> list[Claim]:
        """Of all its figures."""
        return [claim for figure in self.figures for claim in figure.claims]


def write(
    path: Path, title: str, before: Sequence[str], data: Table, sections: Sequence[Section]
) -> list[Path]:
    """Write the report and its tables; return the files written."""
    folder = path.with_name(path.stem + "-tables")
    folder.mkdir(parents=True, exist_ok=True)
    files = [path]
    summary = _summary(sections)
    for table in [data, summary, *(table for section in sections for table in section.tables)]:
        file = folder / f"{table.name}.csv"
        with file.open("w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([table.columns, *table.rows])
        files.append(file)
    claims = [claim for section in sections for claim in section.claims]
    holding = f"{sum(c.holds for c in claims)} of {len(claims)} claims on this page hold in this run."
    parts = [
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>",
        "<meta name='viewport' content='width=device-width'>",
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>",
        *(f"<p>{escape(line)}</p>" for line in (*before, holding)),
        "<h3>The data</h3>",
        _table(data, folder.name),
        "<h3>What the papers say, and what came out</h3>",
        _table(summary, folder.name),
        *(_section(number, section, folder.name) for number, section in enumerate(sections, 1)),
        "</body></html>",
    ]
    path.write_text("\n".join(parts), encoding="utf-8")
    return files


def _summary(sections: Sequence[Section]) -> Table:
    rows = [
        (number, claim.paper, claim.here, _sign(claim))
        for number, section in enumerate(sections, 1)
        for claim in section.claims
        if claim.paper
    ]
    return Table("summary", ("section", "the paper", "here", "holds"), rows, shown=True)


def _section(number: int, section: Section, folder: str) -> str:
    return (
        f"<h2>{number}. {escape(section.title)}</h2><p class='from'>{escape(section.source)}</p>"
        f"<p>{escape(section.text)}</p>"
        + "".join(_figure(figure) for figure in section.figures)
        + "".join(_table(table, folder) for table in section.tables)
    )


def _figure(figure: Figure) -> str:
    claims = "".join(
        f"<li><span class='mark {'yes' if c.holds else 'no'}'>{_sign(c)}</span>{escape(c.words)}</li>"
        for c in figure.claims
    )
    columns = "two" if len(figure.panels) in (1, 2, 4) else "three"
    legend = "".join(f"<span>{swatch(s)}{escape(s.name)}</span>" for s in figure.legend)
    return (
        f"<figure><h3>{escape(figure.title)}</h3><ul class='claims'>{claims}</ul>"
        + (f"<div class='legend'>{legend}</div>" if legend else "")
        + (f"<div class='panels {columns}'>{''.join(figure.panels)}</div>" if figure.panels else "")
        + "</figure>"
    )


def _sign(claim: Claim) -> str:
    return "✓" if claim.holds else "✗"


def _table(table: Table, folder: str) -> str:
    columns = [[row[i] for row in table.rows] for i in range(len(table.columns))]
    sides = [" class='text'" if any(isinstance(v, str) for v in c) else "" for c in columns]
    heads = "".join(f"<th{side}>{escape(n)}</th>" for side, n in zip(sides, table.columns, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{side}>{escape(v)}</td>" for side, v in zip(sides, row, strict=True)) + "</tr>"
        for row in zip(*(_cells(c) for c in columns), strict=True)
    )
    link = f"<a href='{escape(folder)}/{escape(table.name)}.csv'>{escape(table.name)}.csv</a>"
    long = any(len(str(v)) > 90 for c in columns for v in c)
    title = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    held = (
        f"<div class='wide'><table{'' if long else CLASS}>{title}<thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    if table.shown:
        return f"{held}{note}<p>{link}</p>"
    return f"<details><summary>{len(table.rows)} rows of figures, {link}</summary>{held}{note}</details>"


def _cells(column: Sequence[object]) -> list[str]:
    """Write a column's numbers with as many decimals as its most precise one needs, three at most."""
    floats = [round(v, 3) for v in column if isinstance(v, float)]
    decimals = next((d for d in range(3) if all(round(v, d) == v for v in floats)), 3)
    if floats and max(map(abs, floats)) >= 1000:
        decimals = 0
    return [
        ""
        if v is None
        else f"{v:,.{decimals}f}"
        if isinstance(v, float)
        else f"{v:,}"
        if isinstance(v, int)
        else str(v)
        for v in column
    ]
