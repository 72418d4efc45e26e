"""What `dpsql init` declares of each table: the owner's flags, what follows from keys, what is asked."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from dpsql.cli import narrate
from dpsql.cli.init_text import Declared, Via, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpsql.owner import Found, FoundColumn
    from dpsql.types import SqlType

__all__ = ["Tables", "Wishes"]


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the flags say; what they leave open is asked, if somebody is there to answer."""

    sources: tuple[str, ...]
    units: tuple[str, ...] = ()
    unit_kind: str | None = None
    public: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    amounts: tuple[tuple[str, str], ...] = ()


def _fold(name: str) -> str:
    return name.lower()


class Tables:
    """Decides, table by table, what is declared of it."""

    def __init__(self, found: list[Found], wishes: Wishes, ask: Callable[..., str] | None) -> None:
        self._ask = ask
        self._found = {_fold(table.name): table for table in found}
        pairs = [(name, unit) for name, mark, unit in (w.rpartition("=") for w in wishes.units) if mark]
        self._units = {_fold(self._table(name).name): unit for name, unit in pairs}
        self._common = [unit for unit in wishes.units if "=" not in unit]
        if len(self._common) > 1:
            raise click.UsageError("--unit COLUMN is for all tables; write --unit TABLE=COLUMN for one")
        self._public = {_fold(self._table(name).name) for name in wishes.public}
        if both := self._public & set(self._units):
            raise click.UsageError(f"{min(both)} cannot be public and have a unit")
        decided = {name: self._direct(table) for name, table in self._found.items()}
        # Parents first: a child may follow from what is answered for them.
        order = sorted(found, key=lambda table: bool(table.parents))
        units = {table.name: self._decide(table, decided) for table in order}
        self.declared = [Declared(table, units[table.name]) for table in found]
        for wish in wishes.columns:
            self._type(wish)
        for wish in wishes.domains:
            self._domain(wish)
        if ask is not None:
            self._ask_more(ask, wishes)

    def _table(self, name: str) -> Found:
        found = self._found.get(_fold(name))
        if found is None:
            raise click.UsageError(f"there is no table {name}; there are {', '.join(self._names())}")
        return found

    def _names(self) -> list[str]:
        return [table.name for table in self._found.values()]

    # -- units

    def _direct(self, table: Found) -> str | None:
        """Return the unit that flags name for a table: a column, ROW, or PUBLIC."""
        if _fold(table.name) in self._public:
            return "PUBLIC"
        if _fold(table.name) in self._units:
            return self._unit(table, self._units[_fold(table.name)])
        for unit in self._common:
            if unit == "ROW" or _column(table, unit) is not None:
                return self._unit(table, unit)
        return None

    def _unit(self, table: Found, text: str) -> str:
        if text.upper() in ("ROW", "PUBLIC") and _column(table, text) is None:
            return text.upper()
        column = _column(table, text)
        if column is None:
            raise click.UsageError(f"{table.name} has no column {text}; it has {_listed(table)}")
        return column.name

    def _decide(self, table: Found, decided: dict[str, str | None]) -> str | Via | None:
        unit = decided[_fold(table.name)]
        if unit is None:
            link = self._link(table, decided)
            if link is not None:
                return link
            unit = self._ask_unit(table)
            decided[_fold(table.name)] = unit
        return None if unit == "PUBLIC" else unit

    def _link(self, table: Found, decided: dict[str, str | None]) -> Via | None:
        """Return the way to the unit through the database's foreign key to a table that has it."""
        for column, source, theirs in table.parents:
            parent = next((t for t in self._found.values() if t.source == source), None)
            if parent is None or (theirs,) not in parent.unique:
                continue
            if decided[_fold(parent.name)] not in (None, "ROW", "PUBLIC"):
                return Via(column, parent.name, theirs)
        return None

    def _ask_unit(self, table: Found) -> str:
        if self._ask is None:
            said = f"it has no column {self._common[0]}" if self._common else "nothing says"
            raise click.UsageError(
                f"whose rows are those of {table.name}? {said}\n"
                f"Hint: --unit {table.name}=COLUMN (it has {_listed(table)}), --unit {table.name}=ROW, "
                f"or --public {table.name}"
            )
        narrate.say(f"{table.name}: {_listed(table, types=True)}")
        while True:
            answer = self._ask("  the column that names whom to protect, ROW if each row is one, or PUBLIC")
            try:
                return self._unit(table, answer)
            except click.UsageError as problem:
                narrate.error(problem.format_message())

    # -- types and domains

    def _place(self, text: str, what: str) -> tuple[Declared, FoundColumn]:
        """Find `TABLE.COLUMN`, or a column that only one table has."""
        table, dot, name = text.rpartition(".")
        if dot:
            self._table(table)
        hits = [
            (declared, column)
            for declared in self.declared
            if not dot or _fold(declared.name) == _fold(table)
            for column in declared.found.columns
            if _fold(column.name) == _fold(name)
        ]
        if len(hits) != 1:
            which = "is in several tables: write TABLE.COLUMN" if hits else "is no column here"
            raise click.UsageError(f"--{what}: {text} {which}")
        return hits[0]

    def _type(self, wish: str) -> None:
        from dpsql.types import column_type

        place, equals, text = wish.partition("=")
        if not equals:
            raise click.UsageError(f"--column takes TABLE.COLUMN=TYPE, not {wish}")
        declared, column = self._place(place.strip(), "column")
        try:
            declared.kinds[column.name] = column_type(text)
        except ValueError as problem:
            raise click.UsageError(f"--column {wish}: {problem}") from None

    def _domain(self, wish: str) -> None:
        place, equals, text = wish.partition("=")
        if not equals:
            raise click.UsageError(f"--domain takes TABLE.COLUMN=VALUES, not {wish}")
        declared, column = self._place(place.strip(), "domain")
        if declared.unit is None:
            raise click.UsageError(f"--domain {place}: {declared.name} is public, which needs no domain")
        declared.domains[column.name] = _values(text.strip(), declared.kind(column), self._names())

    # -- what is asked

    def _ask_more(self, ask: Callable[..., str], wishes: Wishes) -> None:
        for declared in self.declared:
            for column in declared.found.columns:
                if column.physical is None and column.name not in declared.kinds:
                    self._ask_type(ask, declared, column)
        private = [declared for declared in self.declared if declared.unit is not None]
        for declared in private if not wishes.domains else ():
            answer = ask(f"{declared.name}: columns to group by whose values are public (a, b; Enter: none)")
            for name in filter(None, re.split(r"[,\s]+", answer)):
                self._ask_domain(ask, declared, name)

    def _ask_type(self, ask: Callable[..., str], declared: Declared, column: FoundColumn) -> None:
        while True:
            answer = ask(f"  type of {declared.name}.{column.name}", "VARCHAR")
            try:
                self._type(f"{declared.name}.{column.name}={answer}")
            except click.UsageError as problem:
                narrate.error(problem.format_message())
            else:
                return

    def _ask_domain(self, ask: Callable[..., str], declared: Declared, name: str) -> None:
        answer = ask(f"  all values {name} may have: a, b, c or 0..23 or TABLE.COLUMN (Enter: leave out)")
        if not answer:
            return
        try:
            self._domain(f"{declared.name}.{name}={answer}")
        except click.UsageError as problem:
            narrate.error(problem.format_message())


def _column(table: Found, name: str) -> FoundColumn | None:
    return next((column for column in table.columns if _fold(column.name) == _fold(name)), None)


def _listed(table: Found, *, types: bool = False) -> str:
    return ", ".join(
        f"{column.name} {column.physical}" if types and column.physical else column.name
        for column in table.columns
    )


def _values(text: str, kind: SqlType | None, tables: Sequence[str]) -> str:
    """Write a domain as TOML: a range, a public table's column, or a list of values."""
    if text.upper() in ("BOOLEAN", "ENUM"):
        return quoted(text.upper())
    ends = re.fullmatch(r"(-?\d+|\d{4}-\d\d-\d\d)\s*\.\.\s*(-?\d+|\d{4}-\d\d-\d\d)", text)
    if ends:
        return f"{{ from = {ends[1]}, to = {ends[2]} }}"
    table, dot, column = text.partition(".")
    if dot and _fold(table) in map(_fold, tables):
        return f"{{ table = {quoted(table)}, column = {quoted(column)} }}"
    try:
        found = json.loads(text) if text.startswith("[") else [part.strip() for part in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--domain: not a JSON list: {text}") from None
    return "[" + ", ".join(_value(value, kind) for value in found) + "]"


def _value(value: object, kind: SqlType | None) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    number = kind is not None and kind.numeric and re.fullmatch(r"-?\d+(\.\d+)?", value)
    return value if number else quoted(value)
