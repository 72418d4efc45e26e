"""The end-to-end audit: whole statements run thousands of times on the data and without one privacy unit.

Only this module of the package runs sessions; the mechanisms' subjects load without it.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsql.analysis import quote
from dpsql.audit import Campaign, Outcome
from dpsql.audit.detector import Subject, Verdict, detect
from dpsql.audit.runs import CHARGE, Pair
from dpsql.composition.prepared import PreparedCommand, PreparedComposed, PreparedPrivate
from dpsql.engines.duckdb.duckdb_settings import switch_off_progress_bar
from dpsql.engines.duckdb.source_files import scan_files, sql_text
from dpsql.errors import ProgrammingError, with_article
from dpsql.language import Options, Set
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import (
    DatabaseSource,
    ParquetSource,
    Policy,
    Table,
    UnitColumn,
    UnitPeriod,
    UnitRow,
    UnitVia,
)
from dpsql.policy.part_declarations import MOST_EPSILON
from dpsql.session import Session
from dpsql.session_api import StatementResult


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The neighbouring database: the same policy over data without one unit."""

    policy: Policy
    """The policy, its changed sources in a scratch folder."""
    removed: str
    """Which unit is missing, in words."""
    rows: int
    """How many rows it had."""


def neighbour(policy: Policy, tables: Sequence[str], unit: str | None, folder: Path) -> Neighbour:
    """Copy the private tables in which a unit has rows, without these rows, to a folder.

    `tables` are those that a statement reads: its units are meant. `unit` is one as text, or the number of a
    row, from 1, where rows are units; None stands for the unit with the most rows, or the first row.

    Raises `ProgrammingError` if there is no such unit or the data cannot be copied.
    """
    private = [table for name in tables if (table := policy.table(name)) is not None and table.unit]
    if not private:
        raise ProgrammingError("the statement reads no private table: there is no unit to remove")
    try:
        with duckdb.connect() as connection:
            switch_off_progress_bar(connection)
            return _NeighbourCopy(policy, connection, folder).without(private[0], unit)
    except (duckdb.Error, OSError) as problem:
        why = type(problem).__name__
        raise ProgrammingError(f"the data cannot be copied without a unit ({why})") from None


class _NeighbourCopy:
    """Builds the neighbouring database of one policy."""

    def __init__(self, policy: Policy, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
        self.policy, self.connection, self.folder = policy, connection, folder
        if policy.database is not None:
            connection.execute(f"ATTACH {sql_text(policy.database)} AS d (READ_ONLY)")
        self.conditions: dict[str, str] = {}
        """Table -> the condition on the unit's rows; parents stand before their children."""

    def without(self, table: Table, unit: str | None) -> Neighbour:
        """Remove a unit of a table, and all its rows, from the copy of the data."""
        root = table
        while isinstance(root.unit, UnitVia):
            root = self._table(root.unit.table)
        if isinstance(root.unit, UnitRow):
            number = unit or "1"
            if not number.isdigit() or int(number) < 1:
                raise ProgrammingError("each row is a unit: name one by its number, from 1")
            self.conditions[root.name] = f"rowid = {int(number) - 1}"
            removed = f"row {number} of {root.name}"
        elif isinstance(root.unit, UnitPeriod):
            raise ProgrammingError(
                f"an audit removes all rows of {with_article(root.unit.kind)}, and the unit here is one "
                f"in one {root.unit.every}: audit a copy of the policy without unit_period"
            )
        elif isinstance(root.unit, UnitColumn):
            unit = unit or self._largest(root, root.unit.column)
            self.conditions[root.name] = _equality(root.unit.column, unit)
            removed = f"{root.unit.kind} {unit}"
        # Conditions are evaluated on the unchanged data: all are made before any row is removed.
        for other in self.policy.tables.values():
            self._condition(other, root, unit)
        rows = sum(
            self._query(f"SELECT COUNT(*) FROM {self._load_numbered(self._table(name))} WHERE {condition}")[
                0
            ][0]
            for name, condition in self.conditions.items()
        )
        if not rows:
            raise ProgrammingError(f"there is no {removed}")
        return Neighbour(self._copy_tables(), removed, rows)

    def _table(self, name: str) -> Table:
        found = self.policy.table(name)
        if found is None:
            raise ProgrammingError(f"there is no table {name}")
        return found

    def _query(self, text: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(text).fetchall()

    def _largest(self, root: Table, column: str) -> str:
        """Return the unit with the most rows."""
        found = self._query(
            f"SELECT CAST({quote(column)} AS VARCHAR) AS u FROM {self._load_numbered(root)} "
            f"WHERE u IS NOT NULL GROUP BY u ORDER BY COUNT(*) DESC, u LIMIT 1"
        )
        if not found:
            raise ProgrammingError(f"{root.name} has no rows")
        return str(found[0][0])

    def _condition(self, table: Table, root: Table, unit: str | None) -> str | None:
        """Return the condition that the unit's rows of a table meet; None if it has none."""
        if table.name in self.conditions:
            return self.conditions[table.name]
        condition, own, of_root = None, table.unit, root.unit
        if isinstance(own, UnitVia):
            parent = self._table(own.table)
            of_parent = self._condition(parent, root, unit)
            if of_parent is not None:
                found = self._query(
                    f"SELECT DISTINCT CAST({quote(own.column)} AS VARCHAR) AS key "
                    f"FROM {self._load_numbered(parent)} WHERE {of_parent} AND key IS NOT NULL"
                )
                keys = ", ".join(sql_text(key) for (key,) in found) or "NULL"
                condition = f"CAST({quote(own.via)} AS VARCHAR) IN ({keys})"
        elif isinstance(own, UnitColumn) and isinstance(of_root, UnitColumn) and own.kind == of_root.kind:
            condition = _equality(own.column, unit)
        if condition is not None:
            self.conditions[table.name] = condition
        return condition

    def _scan(self, table: Table) -> str:
        if isinstance(table.source, DatabaseSource):
            return f"d.{quote(table.source.schema or 'main')}.{quote(table.source.table)}"
        return scan_files(table, self.folder).sql

    def _load_numbered(self, table: Table) -> str:
        """Return the name of a table with row numbers; a file is loaded into one on first use."""
        if isinstance(table.source, DatabaseSource):
            return self._scan(table)
        name = quote(f"t {table.name}")
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS {name} AS SELECT * FROM {self._scan(table)}")
        return name

    def _copy_tables(self) -> Policy:
        """Write the changed tables, and return the policy with these as sources."""
        tables, database = dict(self.policy.tables), self.policy.database
        inside = {}
        for number, (name, condition) in enumerate(self.conditions.items()):
            table = self._table(name)
            if isinstance(table.source, DatabaseSource):
                inside[self._scan(table).removeprefix("d.")] = condition
                continue
            path = self.folder / f"table{number}.parquet"
            self.connection.execute(
                f"COPY (SELECT * FROM {self._load_numbered(table)} WHERE ({condition}) IS NOT TRUE) "
                f"TO {sql_text(path)} (FORMAT parquet)"
            )
            tables[table.name] = replace(table, source=ParquetSource(path))
        if inside and database is not None:
            copy = shutil.copyfile(database, self.folder / "neighbour.duckdb")
            with duckdb.connect(copy) as connection:
                switch_off_progress_bar(connection)
                # Rows of children have to be deleted before those of their parents.
                for name, condition in reversed(inside.items()):
                    connection.execute(f"DELETE FROM {name} WHERE {condition}")
            database = copy
        return replace(self.policy, tables=tables, database=database)


def _equality(column: str, unit: str | None) -> str:
    return f"CAST({quote(column)} AS VARCHAR) = {sql_text(unit)}"


_DERIVED = ("_stddev", "_low", "_high", "p_value")
"""Endings of the names of columns that are functions of other columns."""

_ENDLESS, _DELTA = Fraction(10**12), Fraction(999, 1000)
"""Budget of a scratch ledger. Its delta must be below 1, so statements that take delta need several."""


@dataclass(frozen=True, slots=True)
class Audited:
    """A private statement, its place in words, and the defaults that settings before it made."""

    text: str
    where: str
    defaults: Options


def private_statements(policy: Policy, statements: Iterable[tuple[str, str]]) -> list[Audited]:
    """Return the private ones of some statements (text and place); raises `Error` if any is wrong.

    Settings (SET) apply to the statements after them; other public statements are skipped.
    """
    found: list[Audited] = []
    with tempfile.TemporaryDirectory(prefix="dpsql-audit-") as folder, ExitStack() as stack:
        session = _open_scratch(policy, Path(folder))
        stack.callback(session.close)
        for text, where in statements:
            prepared = session.prepare(text)
            match prepared:
                case PreparedCommand(command=Set()):
                    session.execute(prepared)
                case PreparedPrivate() | PreparedComposed():
                    found.append(Audited(text, where, session.defaults))
    return found


def _open_scratch(policy: Policy, folder: Path) -> Session:
    """Open a session with a scratch ledger in a new folder; its budget is endless, by parts the largest."""
    ledger = Path(tempfile.mkdtemp(dir=folder)) / "ledger.sqlite"
    epsilon = Fraction(MOST_EPSILON) if policy.parts else _ENDLESS
    budget = replace(policy.budget, epsilon=epsilon, delta=_DELTA, ledger=ledger, high_water=False)
    scratch = replace(policy, budget=budget, analysts={}, groups={}, share_releases=False)
    return Session(scratch, analyst="audit")


def audit_statements(
    policy: Policy,
    asked: Sequence[Audited],
    *,
    unit: str | None,
    trials: int,
    error_rate: float,
    on_progress: Callable[[Audited, int], None],
) -> Campaign:
    """Audit private statements end to end, on a small database: each runs thousands of times.

    Language, analysis, price, ledger, engine, mechanism and release are those of every statement; the
    ledger is a scratch one, and nothing is charged to the policy's own. What is tested are the released
    rows, all that is free beside them, and the charge; of a statement of several releases all of these and
    the rows of its outer query, at its total epsilon. `unit` is the privacy unit to remove; None stands for
    the one with the most rows. `error_rate` is the chance that any private statement is accused; each gets
    an equal part. `on_progress` is called before each statement, with it and the number of its runs.

    Raises `Error` for a statement that is wrong, and `ProgrammingError` for an unknown unit.
    """
    started, confidence, outcomes = time.perf_counter(), 1 - error_rate / max(len(asked), 1), []
    for one in asked:
        on_progress(one, 3 * trials)
        verdict = _audit_statement(policy, one, unit, trials, confidence)
        about = f"{' '.join(one.text.split())}; {verdict.counterexample.pattern}"
        subject = Subject(one.where, "statement", about, _run_statement)
        outcomes.append(Outcome(subject, Fraction(verdict.epsilon), verdict))
    return Campaign(tuple(outcomes), confidence, error_rate, time.perf_counter() - started)


def _audit_statement(
    policy: Policy, asked: Audited, unit: str | None, trials: int, confidence: float
) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="dpsql-audit-") as name, ExitStack() as stack:
        folder = Path(name)
        first = _AuditSide("the data", policy, asked, folder)
        stack.callback(first.close)
        prepared = first.open()
        read = dict.fromkeys(name for part in prepared.parts for name in part.plan.compiled.tables)
        without = neighbour(policy, tuple(read), unit, folder)
        second = _AuditSide(f"the data without {without.removed}", without.policy, asked, folder)
        stack.callback(second.close)
        return detect(
            _run_statement,
            prepared.price.epsilon,
            delta=prepared.price.delta,
            inputs=[Pair(f"{without.removed} removed, {without.rows} rows", first, second)],
            trials=trials,
            confidence=confidence,
            name=asked.where,
        )


class _AuditSide:
    """One of the two neighbouring databases, and the statement prepared on it."""

    _execute: Callable[[], StatementResult]

    def __init__(self, name: str, policy: Policy, asked: Audited, folder: Path) -> None:
        self.name, self.lock = name, Lock()
        self._policy, self._asked, self._folder = policy, asked, folder
        self._opened = ExitStack()
        self._left = 0
        """Runs that the present ledger still pays for."""

    def __str__(self) -> str:
        return self.name

    def open(self) -> PreparedPrivate | PreparedComposed:
        """Open a session on a new ledger, and prepare the statement with reuse switched off."""
        self.close()
        session = _open_scratch(self._policy, self._folder)
        self._opened.callback(session.close)
        session.defaults = self._asked.defaults
        prepared = session.prepare(self._asked.text)
        if isinstance(prepared, PreparedComposed):
            prepared = replace(prepared, parts=tuple(map(_without_reuse, prepared.parts)))
        elif isinstance(prepared, PreparedPrivate):
            prepared = _without_reuse(prepared)
        else:
            raise ProgrammingError("only a private statement can be audited")
        price, budget = prepared.price, session.database.policy.budget
        amounts = ((budget.epsilon, price.epsilon), (budget.delta, price.delta))
        self._left = max(1, min(10**9, *(int(total / each) for total, each in amounts if each)))
        self._execute = partial(session.execute, prepared)
        return prepared

    def run(self) -> StatementResult:
        """Run the statement once, on a new ledger if the budget of the present one is used up."""
        if self._left <= 0:
            self.open()
        self._left -= 1
        return self._execute()

    def close(self) -> None:
        """Close the session on this side's data."""
        self._opened.close()


def _without_reuse(prepared: PreparedPrivate) -> PreparedPrivate:
    """Return a release that is made anew each time it is asked for."""
    plan = replace(prepared.plan, options=replace(prepared.plan.options, fresh=True))
    return replace(prepared, counting=replace(prepared.counting, plan=plan))


def _run_statement(side: _AuditSide, trials: int, _: object) -> dict[str, Any]:
    """Run the statement `trials` times and return arrays of the released rows, by position."""
    with side.lock:
        return _lay_out([side.run() for _ in range(trials)])


def _lay_out(answers: list[StatementResult]) -> dict[str, Any]:
    releases = [answer.release for answer in answers if answer.release is not None]
    if not releases or len(releases) < len(answers):
        raise ProgrammingError("the statement releases nothing")
    parts: dict[str, Any] = {CHARGE: np.array([float(release.charge.epsilon) for release in releases])}
    parts |= _parts_of_tables([release.table for release in releases], "")
    # With one part, the statement's rows may leave out some of the release's.
    for i in range(len(releases[0].parts)):
        parts |= _parts_of_tables([release.parts[i].table for release in releases], f"release {i + 1}: ")
    return parts


def _parts_of_tables(tables: list[pa.Table], prefix: str) -> dict[str, Any]:
    height = max(table.num_rows for table in tables)
    parts: dict[str, Any] = {f"{prefix}rows": np.array([table.num_rows for table in tables])}
    for place, field in enumerate(tables[0].schema):
        if field.name.endswith(_DERIVED):
            continue
        cells = [table.column(place).to_pylist() for table in tables]
        if pa.types.is_floating(field.type) or pa.types.is_decimal(field.type):
            parts[prefix + field.name] = _number_array(cells, height)
            continue
        # Whole numbers can be keys, so they are labels.
        labels = np.full((len(tables), height), "", dtype=object)
        for i, column in enumerate(cells):
            labels[i, : len(column)] = ["NULL" if cell is None else str(cell) for cell in column]
        parts[prefix + field.name] = labels.astype(np.str_)
        if pa.types.is_integer(field.type):
            # A noisy count that is rounded is whole: intervals and sums are about numbers.
            parts[f"{prefix}{field.name} as a number"] = _number_array(cells, height)
    return parts


def _number_array(cells: list[list[Any]], height: int) -> NDArray[np.float64]:
    """Return numbers as an array, one row per run; NaN for NULL and for missing rows."""
    values = np.full((len(cells), height), np.nan)
    for i, column in enumerate(cells):
        values[i, : len(column)] = [np.nan if cell is None else float(cell) for cell in column]
    return values
