"""`dpsql checks run FILE`: runs the checks of a file, and reports what is off; made for cron.

All of it is differentially private: what the report says of a check is its answer.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli import narrate
from dpsql.cli.narrate import ExitCode, UnwritableError, exit_code
from dpsql.errors import Error
from dpsql.language import read_first_words
from dpsql.lazy_dataclass import dataclass
from dpsql.render.grid import Style, draw_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dpsql.cli.options import Piece
    from dpsql.render.grid import Drawn
    from dpsql.session_api import AnalystSession

_KINDS = (".html", ".json", ".txt")
_NUMBERS = ("expected", "low", "high", "gap")


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """One statement of the file, and what came of it."""

    where: str
    statement: str
    rows: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""
    code: ExitCode = ExitCode.OK

    @property
    def state(self) -> str:
        """The worst state of the statement's rows, from "error" and "off" to "as expected"."""
        if self.error:
            return "error"
        found = {str(row["checked"]) for row in self.rows}
        worst = ("off", "answered", "not checked", "new best", "no new best")
        return next((state for state in worst if state in found), "as expected")


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a run of a file has found."""

    source: str
    when: datetime
    outcomes: tuple[CheckOutcome, ...]
    streams: tuple[Mapping[str, Any], ...]

    @property
    def code(self) -> ExitCode:
        """The exit code: of the first error, else whether a number is off."""
        failed = next((each.code for each in self.outcomes if each.code), ExitCode.OK)
        off = any(each.state == "off" for each in self.outcomes)
        return failed or (ExitCode.OFF if off else ExitCode.OK)

    def to_json(self) -> str:
        """Return the report as one JSON object."""
        checks = [
            {
                "where": each.where,
                "statement": each.statement,
                "state": each.state,
                "rows": [dict(row) for row in each.rows],
                "notes": list(each.notes),
                "error": each.error or None,
            }
            for each in self.outcomes
        ]
        whole = {
            "file": self.source,
            "when": self.when.isoformat(timespec="seconds"),
            "exit_code": int(self.code),
            "checks": checks,
            "streams": [dict(row) for row in self.streams],
        }
        return json.dumps(whole, indent=2, ensure_ascii=False, default=str) + "\n"

    def to_text(self, style: Style) -> str:
        """Draw the checks, the rows that are not as expected, and what is left of the streams."""
        counted = [sum(each.state == state for each in self.outcomes) for state in ("off", "error")]
        text = f"{len(self.outcomes)} checks: {counted[0]} off, {counted[1]} in error\n"
        columns: list[Drawn[CheckOutcome]] = [
            ("checked", lambda each: each.state, "firm"),
            ("where", lambda each: each.where, "firm"),
            ("statement", lambda each: " ".join(each.statement.split()), "statements"),
        ]
        text += draw_rows(self.outcomes, columns, style)
        for each in self.outcomes:
            if each.error:
                text += f"{each.where}: {each.error}\n"
            elif rows := [row for row in each.rows if row["checked"] != "as expected"]:
                text += f"{each.where}:\n{_draw_table(rows, style)}"
            text += "".join(f"  {note}\n" for note in each.notes)
        if self.streams:
            text += _draw_table(self.streams, style)
        return text

    def written_as(self, suffix: str) -> str:
        """Return the report as JSON, HTML or plain text, by the suffix of its file."""
        if suffix == ".json":
            return self.to_json()
        return self.to_html() if suffix == ".html" else self.to_text(Style())

    def to_html(self) -> str:
        """Return the report as a self-contained HTML page."""
        from dpsql.render import html

        found = [html.tag("h1", escape(self.source)), html.tag("p", f"{self.when:%Y-%m-%d %H:%M} UTC")]
        for each in self.outcomes:
            found.append(html.tag("h2", f"{escape(each.state)}: {escape(each.where)}"))
            found.append(html.tag("pre", escape(each.statement)))
            found += [html.tag("p", escape(each.error))] * bool(each.error)
            found += [_html_table(each.rows)] * bool(each.rows)
            found += [html.tag("p", escape(note)) for note in each.notes]
        if self.streams:
            found += [html.tag("h2", "streams"), _html_table(self.streams)]
        return html.document(f"{self.source}: checks", "".join(found))


def _draw_table(rows: Sequence[Mapping[str, Any]], style: Style) -> str:
    columns: list[Drawn[Mapping[str, Any]]] = [
        (name, partial(_cell_of, name), "number" if name in _NUMBERS else "") for name in rows[0]
    ]
    return draw_rows(rows, columns, style)


def _cell_of(name: str, row: Mapping[str, Any]) -> str:
    return _cell(row[name])


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}"
    return "" if value is None else str(value)


def _html_table(rows: Sequence[Mapping[str, Any]]) -> str:
    from dpsql.render import html

    heads = (html.tag("th", escape(name)) for name in rows[0])
    cells = ((html.tag("td", escape(_cell(value))) for value in row.values()) for row in rows)
    return html.table(heads, cells)


def read_values(given: Iterable[str]) -> dict[str, object]:
    """Return the values of `--set NAME=VALUE`: dates, numbers, else texts."""
    found: dict[str, object] = {}
    for text in given:
        name, equal, value = text.partition("=")
        if not equal or not name.isidentifier():
            raise click.UsageError("--set takes NAME=VALUE, for $NAME in the file")
        found[name] = _read_value(value)
    return found


def _read_value(text: str) -> object:
    for read in (date.fromisoformat, int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def check_reports(paths: Sequence[str]) -> list[Path]:
    """Return the files of reports, whose folders are there; raises before anything is asked."""
    found = [Path(each) for each in paths]
    for each in found:
        if each.suffix not in _KINDS:
            raise click.UsageError("--report takes a file whose name ends in .html, .json or .txt")
        if not each.parent.is_dir():
            raise UnwritableError(f"there is no folder {each.parent}")
    return found


def run_checks(
    session: AnalystSession, source: str, pieces: Sequence[Piece], values: Mapping[str, object]
) -> CheckReport:
    """Run all statements of a file, also those after one that failed.

    A stream that is open is not opened again: so the file begins with how it is opened.
    """
    outcomes = list[CheckOutcome]()
    for piece in pieces:
        words = read_first_words(piece.text, 3)
        if words[:1] not in (("OPEN",), ("CHECK",), ("ASK",), ("REFILL",), ("CLOSE",)):
            raise click.UsageError(f"{piece.where}: the file has OPEN, CHECK, ASK, REFILL and CLOSE STREAM")
    for piece in pieces:
        words = read_first_words(piece.text, 3)
        if words[0] == "OPEN" and len(words) > 2 and _is_open(session, words[2]):
            continue
        used = {name: value for name, value in values.items() if f"${name}" in piece.text}
        try:
            result = session.run(piece.text, used or None)
        except Error as problem:
            narrate.error(problem, where=piece.where)
            outcomes.append(
                CheckOutcome(piece.where, piece.text, error=str(problem), code=exit_code(problem))
            )
            continue
        if words[0] in ("CHECK", "ASK"):
            rows = tuple(result.table.to_pylist())
            outcomes.append(CheckOutcome(piece.where, piece.text, rows, result.notices))
    streams = tuple(session.run("SHOW STREAMS").table.to_pylist())
    return CheckReport(source, datetime.now(UTC), tuple(outcomes), streams)


def _is_open(session: AnalystSession, name: str) -> bool:
    rows = session.run("SHOW STREAMS").table.to_pylist()
    return any(row["stream"] == name.lower() and row["state"] in ("open", "used up") for row in rows)
