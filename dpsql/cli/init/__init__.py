"""`dpsql init`: writes a policy from names and types alone; asks the owner, or takes flags, for the rest.

``tables`` decides what is declared, ``units`` the privacy units, and ``text`` writes the file.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli import narrate
from dpsql.cli.narrate import ExitCode, pause_progress, progress, without_charge
from dpsql.cli.options import read_amount

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.cli.options import CliSettings
    from dpsql.owner import Skipped
    from dpsql.policy import CsvFormat


_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}


@click.command("init")
@click.argument("sources", metavar="[NAME=]SOURCE...", nargs=-1, required=True)
@click.option(
    "--unit",
    "units",
    metavar="[TABLE=]COLUMN",
    multiple=True,
    help="The column that names whom to protect; PARENT.COLUMN if the table PARENT has it and COLUMN leads "
    "there; ROW if each row is a unit of its own.",
)
@click.option("--unit-kind", metavar="WORD", help="What a unit is, such as patient.")
@click.option("--public", metavar="TABLE", multiple=True, help="A table that everybody may see.")
@click.option(
    "--column",
    "columns",
    metavar="[TABLE.]COLUMN=TYPE",
    multiple=True,
    help="A column's type; a CSV file has none, and dpsql never guesses them from the rows: it only sees "
    "whether times have an offset.",
)
@click.option(
    "--domain",
    "domains",
    metavar="[TABLE.]COLUMN=VALUES",
    multiple=True,
    help="A column's public values: a,b,c or 0..23 or 2024-01-01..2024-12-31 or a public TABLE.COLUMN.",
)
@click.option(
    "--table",
    "tables",
    metavar="[SCHEMA.]TABLE",
    multiple=True,
    help="A table of PostgreSQL or Spark, or a pattern such as 'shop.*'; a view is declared only if it is "
    "named, which is your word that each of its rows comes from rows of one unit. [default: all tables]",
)
@click.option("--epsilon", metavar="X", help="All that can ever be spent. [default: 1]")
@click.option("--delta", metavar="X", help="The same for delta, which undeclared keys need.")
@click.option("--max-epsilon-per-query", metavar="X", help="The most one statement may take.")
@click.option("--default-epsilon", metavar="X", help="What a statement takes that names none.")
@click.option("--default-delta", metavar="X", help="The same for delta.")
@click.pass_obj
def init_command(settings: CliSettings, /, **given: Any) -> int:  # noqa: ANN401  as declared above
    """Write a commented policy for Parquet and CSV files, a DuckDB database, PostgreSQL or Spark.

    Reads names and types of columns, but no value, and asks for what the flags leave open. A folder, or a
    pattern such as 'parts/*.parquet', is one table. A table is called as its file, or NAME. PostgreSQL is
    postgresql://USER@HOST/DATABASE, or postgres for the database that PGHOST, PGUSER and PGDATABASE name;
    Spark is sc://HOST:15002, or spark with Parquet files. The policy is written to the file that -p names,
    which must not exist yet.
    """
    with without_charge("nothing was written"):
        return _write_policy(settings, given)


def _write_policy(settings: CliSettings, given: dict[str, Any]) -> int:
    from dpsql.cli.init.tables import InitOptions, Tables
    from dpsql.cli.init.text import AMOUNTS, DELTA, policy_text
    from dpsql.owner import introspect_sources
    from dpsql.policy import load

    options = InitOptions(**{name: given[name] for name in InitOptions.__dataclass_fields__})
    path = Path(settings.policy)
    if path.exists() or path.is_symlink():
        raise click.UsageError(f"{path} is there already, and init never overwrites")
    ask = _ask_on_terminal if sys.stdin.isatty() else None
    on_csv = FormatQuestions(ask)
    with progress("looking at the sources"):
        found = introspect_sources(options.sources, on_csv, given["tables"], _note_skipped)
    tables = Tables(found, options, ask)
    if given["epsilon"] is None:
        given["epsilon"] = ask("epsilon, all that can ever be spent", "1") if ask else "1"
    if given["delta"] is None:
        given["delta"] = DELTA
    amounts = {name: _read_number(name, text) for name, _, _ in AMOUNTS if (text := given[name]) is not None}
    text = policy_text(tables.declared, amounts, path)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as problem:
        raise click.UsageError(f"cannot write {path}: {problem.strerror}") from None
    try:
        load(path)
    except BaseException:
        path.unlink()
        raise
    private = sum(table.unit is not None for table in tables.declared)
    public = len(tables.declared) - private
    read = (
        "no value was read, of CSV files it was found how they are written"
        if on_csv.found
        else "no row was read"
    )
    narrate.note(f"wrote {path}: {private} private, {public} public; {read}")
    types = "the types of CSV columns and " if on_csv.found else ""
    narrate.note(
        f"next: read it, state {types}domains, then `dpsql check` verifies it against the data, for you alone"
    )
    return ExitCode.OK


def _note_skipped(skipped: Skipped) -> None:
    mend = f": {skipped.mend}" if skipped.mend else ""
    narrate.note(f"left out: {skipped.name}, {skipped.why}{mend}")


def _read_number(name: str, text: str) -> str:
    from dpsql.cli.init.text import quote_toml

    read_amount(name, text)
    return text if re.fullmatch(r"\d+(\.\d+)?([eE][-+]?\d+)?", text) else quote_toml(text)


def _ask_on_terminal(question: str, default: str = "") -> str:
    found: str = click.prompt(question, default=default, show_default=bool(default), err=True)
    return found.strip()


class FormatQuestions:
    """Decides how CSV files are written.

    On a terminal the owner is asked where it is not commas and UTF-8; what was found is proposed.
    """

    def __init__(self, ask: Callable[..., str] | None) -> None:
        self._ask = ask
        self.found: list[str] = []
        """The tables whose files it was asked about."""

    def __call__(self, table: str, form: CsvFormat) -> CsvFormat:
        """Return the format that holds for the files of a table."""
        from dpsql.policy import CsvFormat

        self.found.append(table)
        if form == CsvFormat():
            return form
        if self._ask is None:
            shown = "a tab" if form.delimiter == "\t" else form.delimiter
            narrate.note(f"{table}: fields are separated by {shown}, the encoding is {form.encoding}")
            return form
        with pause_progress():
            return self._ask_owner(self._ask, table, form)

    def _ask_owner(self, ask: Callable[..., str], table: str, form: CsvFormat) -> CsvFormat:
        narrate.say(f"{table}: a CSV file")
        delimiter = ask("  what separates its fields", form.delimiter.replace("\t", "tab"))
        encoding = ask("  its encoding", form.encoding)
        decimal = form.decimal
        if delimiter == ";":
            decimal = ask("  what stands before the decimals of its numbers", form.decimal)
        return replace(form, delimiter=_NAMES.get(delimiter, delimiter), encoding=encoding, decimal=decimal)
