"""Decides what `dpsql init` declares of each table, from flags, keys and the owner's answers."""

from __future__ import annotations

import json
import re
import shlex
from itertools import product
from typing import TYPE_CHECKING

import click

from dpsql.cli import narrate
from dpsql.cli.init.text import DeclaredTable, Via, quote_toml
from dpsql.cli.init.units import UnitChoices, fold_name, is_called
from dpsql.lazy_dataclass import dataclass
from dpsql.owner.units import names_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dpsql.owner import Found, FoundColumn
    from dpsql.types import SqlType


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
        for declared, column, other, theirs in _list_shared_keys(self.declared):
            declared.same_unit[column] = f"{other.name}.{theirs}", False
        for declared, column, other, theirs in _list_references(self.declared):
            declared.references.setdefault(column, (other.name, theirs))
        if ask is not None:
            self._ask_more(ask, options)
            self._ask_shared_keys(ask)
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

    def _ask_shared_keys(self, ask: Callable[..., str]) -> None:
        """Ask whether rows of two tables with one key belong to one unit."""
        for declared in self.declared:
            for column, (target, _) in [*declared.same_unit.items()]:
                answer = ask(
                    f"{declared.name}: does each row belong to the unit of the row of "
                    f"{target.partition('.')[0]} with its {column}? (yes, or Enter: not known)"
                )
                declared.same_unit[column] = target, answer.lower() in ("y", "yes")

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


def _list_shared_keys(tables: list[DeclaredTable]) -> Iterator[tuple[DeclaredTable, str, DeclaredTable, str]]:
    """Yield the columns that name rows of another private table, though no rows find their unit by them.

    The units are of one kind. The source says so of its foreign keys, or the names do.
    """
    private = [table for table in tables if table.unit not in (None, "ROW")]
    roots = {fold_name(table.name): _find_root(table, tables) for table in private}
    for table, other in product(private, private):
        root, theirs_of = roots[fold_name(table.name)], roots[fold_name(other.name)]
        if table is other or root is None or theirs_of is None or root.unit_kind != theirs_of.unit_kind:
            continue
        keys = {
            (column, theirs) for column, source, theirs in table.found.parents if source == other.found.source
        }
        for column, theirs in product(table.found.columns, other.found.columns):
            named = _leads_to(column, other, theirs) or (column.name, theirs.name) in keys
            own = {table.unit.column if isinstance(table.unit, Via) else table.unit, root.unit}
            if named and not {column.name, theirs.name} & {*own, theirs_of.unit}:
                yield table, column.name, other, theirs.name


def _list_references(tables: list[DeclaredTable]) -> Iterator[tuple[DeclaredTable, str, DeclaredTable, str]]:
    """Yield the columns of private tables that name rows of a public table, as the names say."""
    for table, other in product(tables, tables):
        if table.unit is None or other.unit is not None:
            continue
        for column, theirs in product(table.found.columns, other.found.columns):
            if _leads_to(column, other, theirs):
                yield table, column.name, other, theirs.name


def _leads_to(column: FoundColumn, other: DeclaredTable, theirs: FoundColumn) -> bool:
    """Return whether a column names rows of another table by one of its columns, as the names say."""
    same = fold_name(theirs.name) in (fold_name(column.name), "id")
    return same and names_rows(column.name, other.name, theirs.name)


def _find_root(table: DeclaredTable, tables: list[DeclaredTable]) -> DeclaredTable | None:
    """Return the table that names the units of a table's rows by a column."""
    for _ in tables:
        if not isinstance(table.unit, Via):
            return table
        table = next(t for t in tables if table.unit.parent == t.name)
    return None


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
    said, flags = list[str](), list[str]()
    for table in tables:
        if isinstance(table.unit, Via):
            ends = ((table, table.unit.column), (of[fold_name(table.unit.parent)], table.unit.parent_column))
            _add_other_types([found for end in ends for found in _columns_named(*end)], said, flags)
        elif table.unit is not None:
            kinds.setdefault(table.unit_kind or "unit", []).extend(_columns_named(table, table.unit))
    for same in kinds.values():
        _add_other_types(same, said, flags)
    if said:
        raise click.UsageError(f"{said[0]}\nHint: {' '.join(dict.fromkeys(flags))}")


def _columns_named(table: DeclaredTable, name: str) -> list[tuple[DeclaredTable, FoundColumn]]:
    return [(table, column) for column in table.found.columns if column.name == name]


def _add_other_types(
    columns: list[tuple[DeclaredTable, FoundColumn]], said: list[str], flags: list[str]
) -> None:
    """Add what is wrong with columns of the same values and different types, and the flags that mend it."""
    from dpsql.policy import is_one_type

    known = [(t, c) for t, c in columns if c.physical is not None or c.name in t.kinds]
    for table, column in columns if known else ():
        (first, own), kind = known[0], table.kind(column)
        expected = first.kind(own)
        if (table, column) not in known and kind and expected and not is_one_type(kind, expected):
            said.append(
                f"a CSV file has no types: {table.name}.{column.name} would be {kind}, but "
                f"{first.name}.{own.name}, which has the same values, is {expected}"
            )
            flags.append(f"--column {shlex.quote(f'{table.name}.{column.name}={expected}')}")


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
