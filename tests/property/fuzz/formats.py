"""Every form in which an answer is given: each is written, and read back where it can be."""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import duckdb
import pyarrow as pa

from dpsql.cli.output import FORMATS, AnswerOutput
from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.composition.show_describe import ends, schema_of, with_ends
from dpsql.dbapi.cursor import Cursor
from dpsql.kernel.loss import Charge
from dpsql.places import list_renamed, make_distinct
from dpsql.release import Release, from_arrow, from_bytes, places_of, to_arrow, to_bytes, write_cell
from dpsql.render.data import as_json
from dpsql.render.readable import estimates
from dpsql.serve.answers import columns_of, messages_of
from dpsql.serve.mcp.tools import release_page as of_agent
from dpsql.serve.page.answers import release_page as of_page
from dpsql.serve.page.answers import write_file as page_file
from dpsql.serve.wire.command_words import CopyOptions
from dpsql.serve.wire.results import copy_messages
from dpsql.serve.wire.types.encoding import RowEncoder
from dpsql.session import Session

Problem = str


def problems(
    session: Session, cursor: Cursor, folder: Path, statement: str, first: int = 0, most: int = 100
) -> Iterator[Problem]:
    """Give an answer in up to so many forms, from one on; yield what is wrong with one of them."""
    release, table = cursor.release, cursor.arrow()
    assert release is not None
    every = [*_FORMS.items()]
    start = first % len(every)
    for name, form in (every[start:] + every[:start])[:most]:
        try:
            wrong = form(session, cursor, release, table, folder, statement)
        except Exception as problem:  # noqa: BLE001  any is a finding
            wrong = f"{type(problem).__name__}: {problem}"
        if wrong:
            yield f"{name}: {wrong}"


Form = Callable[[Session, Cursor, Release, pa.Table, Path, str], str]
_FORMS: dict[str, Form] = {}


def _form(made: Form) -> Form:
    _FORMS[made.__name__] = made
    return made


@_form
def files(_: Session, cursor: Cursor, release: Release, table: pa.Table, folder: Path, statement: str) -> str:
    """Write each format of the command line, with and without intervals, and count what comes back."""
    for name in FORMATS:
        for intervals in (False, True):
            file = folder / f"answer.{name}"
            wanted = release.table if intervals else table
            for exact in (False, True):
                out = AnswerOutput(name, str(file), intervals=intervals, exact_digits=exact)
                with redirect_stderr(io.StringIO()) as said:
                    out.write(table, release, Charge())
                    out.close()
            wrong = _read_back(name, file, wanted)
            if wrong:
                return f"{name}, intervals {intervals}: {wrong}"
            told = name in ("json", "jsonl", "parquet")
            if told and list_renamed(wanted.column_names) and "of one name" not in said.getvalue():
                return f"{name}: nobody is told of other names"
    return ""


def _read_back(name: str, file: Path, wanted: pa.Table) -> str:
    """Say what a file lacks of a table; tables for people are only written."""
    found: tuple[list[str], int]
    match name:
        case "csv":
            with file.open(newline="") as text:
                lines = list(csv.reader(text))
            found, names = (lines[0], len(lines) - 1), wanted.column_names
        case "json" | "jsonl":
            text_ = file.read_text()
            rows = json.loads(text_) if name == "json" else [json.loads(line) for line in text_.splitlines()]
            found, names = (list(rows[0]) if rows else [], len(rows)), make_distinct(wanted.column_names)
            if rows and any(len(row) != len(names) for row in rows):
                return "a row lacks a column"
            if not rows:
                names = []
        case "parquet":
            read = duckdb.read_parquet(str(file)).to_arrow_table()
            found, names = (read.column_names, read.num_rows), make_distinct(wanted.column_names, fold=True)
        case "arrow":
            read = pa.ipc.open_file(file).read_all()
            found, names = (read.column_names, read.num_rows), wanted.column_names
            if not read.replace_schema_metadata(None).equals(wanted.replace_schema_metadata(None)):
                return "other values"
        case _:
            return "" if file.stat().st_size else "nothing"
    return "" if found == (names, wanted.num_rows) else f"{found} for {names}, {wanted.num_rows}"


@_form
def python(_: Session, cursor: Cursor, release: Release, table: pa.Table, folder: Path, __: str) -> str:
    """Fetch by Python, pandas and polars."""
    rows = cursor.fetchall()
    frame = cursor.df()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        other = cursor.pl()
    sizes = {len(rows), len(frame), len(other), table.num_rows}
    widths = {len(frame.columns), other.width, table.num_columns, len(cursor.description or ())}
    with redirect_stdout(io.StringIO()) as shown:
        cursor.show()
    if not (repr(cursor) and cursor._repr_html_() and shown.getvalue()):
        return "nothing is shown"
    return "" if len(sizes) == len(widths) == 1 else f"rows {sizes}, columns {widths}"


@_form
def pictures(_: Session, cursor: Cursor, release: Release, table: pa.Table, folder: Path, __: str) -> str:
    """Draw each number by its place."""
    release.to_markdown()
    for number in places_of(release).numbers:
        if table.num_rows and "<svg" not in release.to_svg(number.place):
            return "no picture"
    return ""


@_form
def places(_: Session, cursor: Cursor, release: Release, table: pa.Table, folder: Path, __: str) -> str:
    """Look whether each number lies in its interval, and details are where they are said to be."""
    known = places_of(release)
    if [release.table.column_names[n.place] for n in known.numbers] != list(release.counts):
        return "other numbers than their names"
    if [release.table.column_names[place] for place in known.keys] != list(release.keys):
        return "other keys than their names"
    added = release.table.column_names[table.num_columns :]
    if len({*added}) < len(added) or {*added} & {*table.column_names}:
        return f"details have one name: {added}"
    for number in known.numbers:
        if None in number.details:
            return "a number without details"
        for each in estimates(release, number):
            if each is None or each.low is None or each.high is None:
                continue
            if not each.low <= each.value <= each.high:
                return f"{each} is outside of its interval"
    return ""


@_form
def stored(_: Session, cursor: Cursor, release: Release, table: pa.Table, folder: Path, __: str) -> str:
    """Write a release as the ledger and as a client get it, and read it back."""
    for part in (release, *release.parts):
        again = from_bytes(to_bytes(part))
        if not again.table.equals(part.table) or again.places != part.places:
            return "the ledger gives another one"
    rows, back = from_arrow(to_arrow(table, release))
    if back is None or not rows.equals(table) or back.places != release.places:
        return "a client gets another one"
    described = json.loads(write_cell(release).column(0)[0].as_py())
    widths = {len(row) for row in described["rows"]}
    return "" if widths <= {release.table.num_columns} else f"SHOW RELEASE has rows of {widths}"


@_form
def asked_again(
    session: Session, cursor: Cursor, release: Release, table: pa.Table, folder: Path, statement: str
) -> str:
    """Ask again: the stored answer, free."""
    again = session.run(statement)
    if again.release is None or not again.table.equals(table):
        return "another answer"
    if again.release.reused is None or again.release.places != release.places:
        return "it is not free, or stands elsewhere"
    numbers = [part.number for part in again.release.parts or (again.release,)]
    opened = [session.release(number) for number in numbers if number is not None]
    return "" if len(opened) == len(numbers) else "a part has no number"


@_form
def server(
    session: Session, cursor: Cursor, release: Release, table: pa.Table, folder: Path, statement: str
) -> str:
    """Describe and encode the answer as a server does."""
    prepared = session.prepare(statement)
    assert isinstance(prepared, (PreparedPrivate, PreparedComposed))
    for intervals in (False, True):
        schema = schema_of(prepared, intervals=intervals)
        given = with_ends(release, ends(prepared)) if intervals else table
        if schema.names != given.column_names:
            return f"announced {schema.names}, given {given.column_names}"
        columns = columns_of(given.schema)
        for code in (0, 1):
            encoder = RowEncoder(columns, given, [code] * len(columns), extra_float_digits=1)
            if given.num_rows and not encoder.rows(0, given.num_rows):
                return "no rows"
        for form in ("text", "csv", "binary", "arrow"):
            options = CopyOptions(format=form)
            if not b"".join(copy_messages(columns, given, options, release)) and given.num_rows:
                return f"COPY in {form} is empty"
    if not messages_of(release):
        return "no notice"
    page = as_json(of_page(release))
    facts = of_agent(release, 0)
    widths = {len(row) for row in facts["rows"]}
    if widths - {len(facts["columns"])} or not page:
        return f"rows of {widths} for {facts['columns']}"
    for form in ("rows.csv", "rows.parquet"):
        if not page_file(release, form):
            return f"{form} is empty"
    return ""
