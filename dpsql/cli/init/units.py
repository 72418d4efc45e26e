"""Decides the privacy unit of each table for `dpsql init`, from flags, keys and the owner's answers."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import click

from dpsql.cli import narrate
from dpsql.cli.init.text import Via
from dpsql.owner.units import is_bare_key, is_key_name, kind_word, names_person, names_rows
from dpsql.policy.references import MOST_HOPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.owner import Found, FoundColumn


Unit = str | Via
"""A column, "ROW", "PUBLIC", or a link to the table that has the unit's column."""


def fold_name(name: str) -> str:
    """Fold a name as the policy compares it."""
    return name.lower()


def is_called(table: Found, column: str, name: str) -> bool:
    """Return whether a column has a name, in the policy or in its file's header."""
    header = dict(table.csv.rename) if table.csv is not None else {}
    return fold_name(column) == fold_name(name) or header.get(name) == column


def _column_of(table: Found, name: str) -> FoundColumn | None:
    """Return a table's column of that name."""
    return next((column for column in table.columns if is_called(table, column.name, name)), None)


def _own_name_of(table: Found, name: str) -> str:
    """Return a column's name as the table has it; raises `click.UsageError`."""
    column = _column_of(table, name)
    if column is None:
        raise click.UsageError(f"{table.name} has no column {name}; it has {_list_columns(table)}")
    return column.name


def _list_columns(table: Found) -> str:
    return ", ".join(column.name for column in table.columns)


class UnitChoices:
    """The unit of every table, in `of`; `kinds` holds one word for each unit column."""

    def __init__(
        self,
        found: dict[str, Found],
        given: dict[str, str],
        common: list[str],
        public: set[str],
        ask: Callable[..., str] | None,
    ) -> None:
        self._found, self._common, self._ask = found, common, ask
        self.of: dict[str, Unit] = {}
        self.instead: dict[str, Via] = {}
        """For tables where each row is to be one: a way from the rows to units of another table."""
        self.kinds: dict[str, str] = {}
        for name, table in found.items():
            unit = "PUBLIC" if name in public else self._from_flag(table, given.get(name))
            if unit is not None:
                self._decide(table, unit)
        waiting = [table for name, table in found.items() if name not in self.of]
        # Parents first: a child may follow from what is decided for them.
        waiting.sort(key=lambda table: _rank(_people(table)))
        while waiting:
            table = self._next([t for t in waiting if not self._has_undecided_parent(t, waiting)] or waiting)
            waiting.remove(table)
            self._decide(table, self._follow_keys(table) or self._ask_unit(table))
        for name, table in found.items():
            if self.of[name] == "ROW" and (related := self._describe_relation(table)):
                narrate.warning(f"{table.name}: ROW protects single rows, although {related}")
                if links := self._links(table, sure=True):
                    self.instead[name] = links[0]

    def _decide(self, table: Found, unit: Unit) -> None:
        self.of[fold_name(table.name)] = unit
        if isinstance(unit, str) and unit not in ("ROW", "PUBLIC"):
            self.kinds.setdefault(fold_name(table.name), kind_word(unit, table.name))

    def _column(self, table: Found) -> str | None:
        """Return the column that names a table's units, if that was decided."""
        unit = self.of.get(fold_name(table.name))
        return unit if isinstance(unit, str) and unit not in ("ROW", "PUBLIC") else None

    def _parents(self, table: Found) -> list[tuple[Found, str, int]]:
        """Return the other tables whose rows have units, with their unit columns, if any, and hops."""
        hops = ((other, self._column(other) or "", self._hops(other)) for other in self._found.values())
        return [(other, unit, most) for other, unit, most in hops if other is not table and most is not None]

    def _hops(self, table: Found) -> int | None:
        """Return how many tables lie between a table and the one that names its units; None without units."""
        unit, hops = self.of.get(fold_name(table.name)), 0
        while isinstance(unit, Via):
            unit, hops = self.of.get(fold_name(unit.parent)), hops + 1
        return None if unit in (None, "ROW", "PUBLIC") or hops >= MOST_HOPS else hops

    def _others(self, table: Found) -> list[tuple[Found, str]]:
        """Return the other tables with a unit column, and that column."""
        pairs = ((other, self._column(other)) for other in self._found.values() if other is not table)
        return [(other, unit) for other, unit in pairs if unit is not None]

    # -- flags

    def _from_flag(self, table: Found, option: str | None) -> Unit | None:
        if option is not None:
            return self._read(table, option)
        fits = (unit for unit in self._common if unit == "ROW" or _column_of(table, unit) is not None)
        return next((self._read(table, unit) for unit in fits), None)

    def _read(self, table: Found, text: str) -> Unit:
        """Read a column, ROW, PUBLIC, or PARENT.COLUMN (COLUMN:PARENT.COLUMN if the names differ)."""
        if not text:
            raise click.UsageError(
                f"whom to protect in {table.name}? name one of {_list_columns(table)}, ROW or PUBLIC"
            )
        if text.upper() in ("ROW", "PUBLIC") and _column_of(table, text) is None:
            return text.upper()
        own, _, target = text.rpartition(":")
        name, _, theirs = target.rpartition(".")
        parent = self._found.get(fold_name(name))
        if parent is None or _column_of(table, text) is not None:
            return _own_name_of(table, text)
        if parent is table:
            raise click.UsageError(f"{table.name} cannot lead to itself")
        if not own and _column_of(table, theirs) is None and _column_of(parent, theirs) is not None:
            raise self._say_what_leads(table, parent, theirs)
        return Via(_own_name_of(table, own or theirs), parent.name, _own_name_of(parent, theirs))

    def _say_what_leads(self, table: Found, parent: Found, theirs: str) -> click.UsageError:
        """Return the error of a flag that names the unit's column of a parent, not what leads there."""
        shared = (c.name for c in table.columns if _column_of(parent, c.name) is not None)
        hints = [f"--unit {table.name}={parent.name}.{name}" for name in shared]
        hints = hints or [f"--unit {table.name}=COLUMN:{parent.name}.COLUMN"]
        return click.UsageError(
            f"{table.name} has no column {theirs}: say which of its columns leads to {parent.name}\n"
            f"Hint: {' or '.join(hints)}"
        )

    # -- what follows from keys

    def _next(self, ready: list[Found]) -> Found:
        """Return the table to decide now: one named for people, else one that leads to what is decided."""
        return next((t for t in ready if _rank(_people(t)) < 2 or self._links(t)), ready[0])

    def _has_undecided_parent(self, table: Found, waiting: list[Found]) -> bool:
        sources = {other.source for other in waiting if other is not table}
        return any(source in sources for _, source, _ in table.parents)

    def _follow_keys(self, table: Found) -> Unit | None:
        """Return the unit that a foreign key implies; without a terminal, also a column named as one."""
        for column, source, theirs in table.parents:
            parent, unit = next((p[:2] for p in self._parents(table) if p[0].source == source), (None, ""))
            if parent is None:
                continue
            if unit and fold_name(unit) == fold_name(theirs):
                self.kinds[fold_name(table.name)] = self.kinds[fold_name(parent.name)]
                return column
            if (theirs,) in parent.unique:
                return Via(column, parent.name, theirs)
        links = self._links(table, sure=True) if self._ask is None and self.of else []
        if len(links) == 1:
            narrate.note(f"{table.name}: {self._reason(links[0])}; `dpsql check` verifies it")
            return links[0]
        return None

    def _links(self, table: Found, *, sure: bool = False) -> list[Via]:
        """Return links to a table whose rows have units through a key of that table, the most certain first.

        A key is what the database keeps unique, or is named as the key of its table; where the owner is
        there to say no, also a table's first column. Of a column's links, those of the fewest hops are taken.
        """
        found = []
        for parent, unit, hops in self._parents(table):
            for column, theirs in product(table.columns, parent.columns):
                if fold_name(theirs.name) == fold_name(unit) or not _may_match(column, theirs):
                    continue
                same = fold_name(column.name) == fold_name(theirs.name) and not is_bare_key(column.name)
                first = theirs is parent.columns[0] and column is not table.columns[0] and not parent.unique
                key = names_rows(column.name, parent.name, theirs.name)
                key = key or (same and (theirs.name,) in parent.unique)
                if key or (not sure and same and first and is_key_name(column.name)):
                    found.append((not key, hops, Via(column.name, parent.name, theirs.name)))
        least = {via.column: min(h for _, h, v in found if v.column == via.column) for _, _, via in found}
        found = [(no, hops, via) for no, hops, via in found if hops == least[via.column]]
        return [via for *_, via in sorted(found, key=lambda each: each[:2])]

    def _reason(self, via: Via) -> str:
        parent, through = self._found[fold_name(via.parent)], list[str]()
        while isinstance(unit := self.of[fold_name(parent.name)], Via):
            parent = self._found[fold_name(unit.parent)]
            through.append(parent.name)
        path = f", found through {', '.join(through)}" if through else ""
        return (
            f"its {via.column} names a row of {via.parent}, so each of its rows belongs to that row's {unit}"
            f"{path} (each {via.parent_column} stands once in {via.parent})"
        )

    def _shared_columns(self, table: Found) -> list[str]:
        """Return a table's columns named as the unit of another table."""
        units = {fold_name(unit) for _, unit in self._others(table)}
        return [c.name for c in table.columns if fold_name(c.name) in units and not is_bare_key(c.name)]

    def _describe_relation(self, table: Found) -> str | None:
        """Describe how a table's rows belong to units of another table; None if they do not."""
        for parent, unit in self._others(table):
            if not is_bare_key(unit) and _column_of(table, unit) is not None:
                return f"its {unit} is the unit of {parent.name}"
        links = self._links(table, sure=True)
        return self._reason(links[0]) if links else None

    # -- what is asked

    def _ask_unit(self, table: Found) -> Unit:
        shared, links, people = self._shared_columns(table), self._links(table), _people(table)
        paths = [_write_via(via) for via in links]
        if self._ask is None:
            raise self._open(table, paths)
        columns = (f"{column.name} {column.physical or ''}".rstrip() for column in table.columns)
        narrate.say(f"{table.name}: {', '.join(columns)}")
        if not shared and links:
            narrate.say(f"  {self._reason(links[0])}")
        proposed = shared or paths[:1] or people
        while True:
            answer = self._ask(
                "  whom to protect: the column that names them, PARENT.COLUMN if the table PARENT has it, "
                "ROW if each row is one, or PUBLIC",
                proposed[0] if len(proposed) == 1 else "",
            )
            try:
                return self._read(table, answer)
            except click.UsageError as problem:
                narrate.error(problem.format_message())

    def _open(self, table: Found, paths: list[str]) -> click.UsageError:
        said = f"it has no column {self._common[0]}" if self._common else "nothing says"
        through = "".join(f"--unit {table.name}={path} (through that table), " for path in paths)
        return click.UsageError(
            f"whose rows are those of {table.name}? {said}\n"
            f"Hint: {through}--unit {table.name}=COLUMN (it has {_list_columns(table)}), "
            f"--unit {table.name}=ROW, or --public {table.name}"
        )


def _people(table: Found) -> list[str]:
    """Return the columns named as keys of people."""
    named = [column.name for column in table.columns if names_person(column.name, table.name)]
    return [name for name in named if fold_name(name) != "id"] or named


def _rank(people: list[str]) -> int:
    """Order tables: one column of people, several, none."""
    return 2 if not people else min(len(people) - 1, 1)


def _write_via(via: Via) -> str:
    target = f"{via.parent}.{via.parent_column}"
    return target if via.column == via.parent_column else f"{via.column}:{target}"


def _may_match(one: FoundColumn, other: FoundColumn) -> bool:
    """Whether two columns may hold the same keys; a CSV file's have no type yet."""
    if one.physical is None or other.physical is None or one.kind is None or other.kind is None:
        return one.kind is not None and other.kind is not None
    return one.kind == other.kind or (one.kind.integer and other.kind.integer)
