"""`dpsql init`: writes a policy from names and types alone; asks the owner, or takes flags, for the rest.

`Tables` has what is declared of each table, ``units`` decides the privacy units, and ``text`` writes the file.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli import narrate
from dpsql.cli.init.text import DeclaredTable, Via, quote_toml
from dpsql.cli.init.units import UnitChoices, fold_name, is_called
from dpsql.cli.narrate import ExitCode, pause_progress, progress, without_charge
from dpsql.cli.options import read_amount
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpsql.cli.options import CliSettings
    from dpsql.owner import Found, FoundColumn, Skipped
    from dpsql.policy import CsvFormat
    from dpsql.types import SqlType

__all__ = ["init_command"]


@dataclass(frozen=True, slots=True)
class InitOptions:
    """Values of the flags of `dpsql init`; on a terminal, the owner is asked for what they leave open."""

    sources: tuple[str, ...]
    units: tuple[str, ...] = ()
    unit_kind: str | None = None
    public: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()


class Tables:
    """The declarations of all tables, in `declared`."""

    def __init__(self, found: list[Found], options: InitOptions, ask: Callable[..., str] | None) -> None:
        self._found = {fold_name(table.name): table for table in found}
        pairs = [(name, unit) for name, mark, unit in (w.rpartition("=") for w in options.units) if mark]
        named = {fold_name(self._table(name).name): unit for name, unit in pairs}
        common = [unit for unit in options.units if "=" not in unit]
        if len(common) > 1:
            raise click.UsageError("--unit COLUMN is for all tables; write --unit TABLE=COLUMN for one")
        public = {fold_name(self._table(name).name) for name in options.public}
        if both := public & set(named):
            raise click.UsageError(f"{min(both)} cannot be public and have a unit")
        units = UnitChoices(self._found, named, common, public, ask)
        self.declared = [
            DeclaredTable(
                table, None if units.of[name] == "PUBLIC" else units.of[name], instead=units.instead.get(name)
            )
            for name, table in self._found.items()
        ]
        _state_kinds(self.declared, units.kinds, options.unit_kind)
        _declare_keys(self.declared)
        for option in options.columns:
            self._type(option)
        for option in options.domains:
            self._domain(option)
        if ask is not None:
            self._ask_more(ask, options)
        _check_unit_types(self.declared)

    def _table(self, name: str) -> Found:
        found = self._found.get(fold_name(name))
        if found is None:
            raise click.UsageError(f"there is no table {name}; there are {', '.join(self._names())}")
        return found

    def _names(self) -> list[str]:
        return [table.name for table in self._found.values()]

    # -- types and domains

    def _place(self, text: str, what: str) -> tuple[DeclaredTable, FoundColumn]:
        """Find `TABLE.COLUMN`, or a column that only one table has."""
        whole = self._columns(text)
        table, dot, name = text.partition(".")
        if dot and not whole:
            self._table(table)
        hits = whole or (self._columns(name, table) if dot else [])
        if len(hits) != 1:
            which = "is in several tables: write TABLE.COLUMN" if hits else "is no column of these tables"
            names = (
                ""
                if hits
                else "; they have " + ", ".join(c.name for d in self.declared for c in d.found.columns)
            )
            raise click.UsageError(f"--{what}: {text} {which}{names[:300]}")
        return hits[0]

    def _columns(self, name: str, table: str | None = None) -> list[tuple[DeclaredTable, FoundColumn]]:
        """Return the columns of a name, of all tables or of one."""
        return [
            (declared, column)
            for declared in self.declared
            if table is None or fold_name(declared.name) == fold_name(table)
            for column in declared.found.columns
            if is_called(declared.found, column.name, name)
        ]

    def _split(self, flag: str, form: str, option: str) -> tuple[DeclaredTable, FoundColumn, str]:
        """Return the column that an option of this form is about, and what stands behind the `=`."""
        place, equals, text = option.partition("=")
        if not equals:
            raise click.UsageError(f"--{flag} takes {form}, not {option}")
        return *self._place(place.strip(), flag), text.strip()

    def _type(self, option: str) -> None:
        from dpsql.types import column_type

        declared, column, text = self._split("column", "TABLE.COLUMN=TYPE", option)
        try:
            declared.kinds[column.name] = column_type(text)
        except ValueError as problem:
            raise click.UsageError(f"--column {option}: {problem}") from None

    def _domain(self, option: str) -> None:
        declared, column, text = self._split("domain", "TABLE.COLUMN=VALUES", option)
        if declared.unit is None:
            raise click.UsageError(
                f"--domain {option.partition('=')[0]}: {declared.name} is public, which needs no domain"
            )
        declared.domains[column.name] = _write_domain(text, declared.kind(column), self._names())

    # -- what is asked

    def _ask_more(self, ask: Callable[..., str], options: InitOptions) -> None:
        for declared in self.declared:
            for column in declared.found.columns:
                if column.physical is None and column.name not in declared.kinds:
                    self._ask_type(ask, declared, column)
        private = [declared for declared in self.declared if declared.unit is not None]
        for declared in private if not options.domains else ():
            answer = ask(f"{declared.name}: columns to group by whose values are public (a, b; Enter: none)")
            for name in filter(None, re.split(r"[,\s]+", answer)):
                self._ask_domain(ask, declared, name)

    def _ask_type(self, ask: Callable[..., str], declared: DeclaredTable, column: FoundColumn) -> None:
        place = f"{declared.name}.{column.name}"
        while not _is_accepted(
            self._type, f"{place}={ask(f'  type of {place}', str(column.kind or 'VARCHAR'))}"
        ):
            pass

    def _ask_domain(self, ask: Callable[..., str], declared: DeclaredTable, name: str) -> None:
        answer = ask(f"  all values {name} may have: a, b, c or 0..23 or TABLE.COLUMN (Enter: leave out)")
        if answer:
            _is_accepted(self._domain, f"{declared.name}.{name}={answer}")


def _is_accepted(declare: Callable[[str], None], option: str) -> bool:
    """Whether an answer could be declared; if not, its error is reported."""
    try:
        declare(option)
    except click.UsageError as problem:
        narrate.error(problem.format_message())
        return False
    return True


def _state_kinds(tables: list[DeclaredTable], kinds: dict[str, str], option: str | None) -> None:
    """Set `unit_kind` where the owner gave one, or where several columns may hold different units."""
    columns = {unit.lower() for table in tables if isinstance(unit := table.unit, str) and unit != "ROW"}
    for table in tables:
        if not isinstance(table.unit, str):
            continue
        if option is not None and (table.unit != "ROW" or not columns):
            table.unit_kind = option
        elif option is None and len(columns) > 1 and table.unit != "ROW":
            table.unit_kind = kinds[fold_name(table.name)]


def _check_unit_types(tables: list[DeclaredTable]) -> None:
    """Raise `click.UsageError` if a CSV file's column without a type leads to units of another type."""
    of = {fold_name(table.name): table for table in tables}
    kinds: dict[str, list[tuple[DeclaredTable, FoundColumn]]] = {}
    for table in tables:
        if isinstance(table.unit, Via):
            ends = ((table, table.unit.column), (of[fold_name(table.unit.parent)], table.unit.parent_column))
            _check_one_type([found for end in ends for found in _columns_named(*end)])
        elif table.unit is not None:
            kinds.setdefault(table.unit_kind or "unit", []).extend(_columns_named(table, table.unit))
    for same in kinds.values():
        _check_one_type(same)


def _columns_named(table: DeclaredTable, name: str) -> list[tuple[DeclaredTable, FoundColumn]]:
    return [(table, column) for column in table.found.columns if column.name == name]


def _check_one_type(columns: list[tuple[DeclaredTable, FoundColumn]]) -> None:
    from dpsql.policy import is_one_type

    known = [(t, c) for t, c in columns if c.physical is not None or c.name in t.kinds]
    for table, column in columns if known else ():
        (first, own), kind = known[0], table.kind(column)
        expected = first.kind(own)
        if (table, column) not in known and kind and expected and not is_one_type(kind, expected):
            raise click.UsageError(
                f"a CSV file has no types: {table.name}.{column.name} would be {kind}, but "
                f"{first.name}.{own.name}, which has the same values, is {expected}\n"
                f"Hint: --column {shlex.quote(f'{table.name}.{column.name}={expected}')}"
            )


def _declare_keys(tables: list[DeclaredTable]) -> None:
    """Declare the key of each parent as unique, as a link through that key requires."""
    parents = {fold_name(table.name): table for table in tables}
    for table in tables:
        if isinstance(table.unit, Via):
            parent, fact = parents[fold_name(table.unit.parent)], (table.unit.parent_column,)
            if fact not in parent.found.unique:
                parent.vouched.setdefault(fact, table.name)


def _write_domain(text: str, kind: SqlType | None, tables: Sequence[str]) -> str:
    """Write a domain as TOML: a range, a public table's column, or a list of values."""
    if text.upper() in ("BOOLEAN", "ENUM"):
        return quote_toml(text.upper())
    ends = re.fullmatch(r"(-?\d+|\d{4}-\d\d-\d\d)\s*\.\.\s*(-?\d+|\d{4}-\d\d-\d\d)", text)
    if ends:
        return f"{{ from = {ends[1]}, to = {ends[2]} }}"
    table, dot, column = text.partition(".")
    if dot and fold_name(table) in map(fold_name, tables):
        return f"{{ table = {quote_toml(table)}, column = {quote_toml(column)} }}"
    try:
        found = json.loads(text) if text.startswith("[") else [part.strip() for part in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--domain: not a JSON list: {text}") from None
    return "[" + ", ".join(_write_value(value, kind) for value in found) + "]"


def _write_value(value: object, kind: SqlType | None) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    number = kind is not None and kind.numeric and re.fullmatch(r"-?\d+(\.\d+)?", value)
    return value if number else quote_toml(value)


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
    help="A column's public values: a,b,c or 0..23 or TABLE.COLUMN of a public table.",
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
    narrate.note(
        "next: read it, state domains, then `dpsql check` verifies it against the data, for you alone"
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
