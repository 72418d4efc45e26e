"""`Database`: what is opened once for a policy and shared by its sessions: engines, catalog and ledger.

`Running` is the kernel's charged work, with what the engines tell of the statement that runs.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import field, replace
from functools import partial
from typing import Any, Protocol, Self, TypeVar

from dpsql.analysis import CompiledQuery, check_sealed, is_alike, merge_queries
from dpsql.engines import (
    Engine,
    KeptCounts,
    Untranslatable,
    length_check_key,
    open_engine,
    running_statement,
    take_counts,
)
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.errors import EngineNotTested, InterfaceError, InternalError, OperationalError, with_article
from dpsql.fair_cache import FairCache
from dpsql.kernel.charged_work import ChargedWork, run_uncharged
from dpsql.kernel.counts import Counts
from dpsql.kernel.facts import Facts
from dpsql.kernel.ledger.limits import OwnerProcess
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import Ledger, Reservation
from dpsql.policy import Policy, Table, UnitColumn, UnitParts, load, same_name
from dpsql.policy.model import declared_facts_of
from dpsql.release import source_version, tables_read
from dpsql.release.reuse import CHANGING, Stamps, Versions, is_settled

_T = TypeVar("_T")


class Running(ChargedWork):
    """A reservation, used by the process that made it, for one piece of work at a time."""

    def __init__(self, ledger: Ledger, reservation: Reservation) -> None:
        """Take over a reservation that was just made; nothing else may use it."""
        super().__init__(ledger, reservation, running_statement)


def run_sealed(work: Callable[[], _T], otherwise: _T) -> _T:
    """Run uncharged work that reads private data, as `run_uncharged` does."""
    return run_uncharged(work, otherwise, running_statement)


_ATTEMPTS = 5
_PLANS = 64
"""The most plans that are kept for statements that are asked again."""


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Engines:
    """The engines of a policy, opened on the files as they were then; the last user's end closes them."""

    policy: Policy = field(repr=False)
    engine: Engine
    versions: Versions
    stamps: Stamps
    """The files of all tables as they were just before the engines were opened."""
    kept: KeptCounts = field(repr=False)
    """The exact counts of earlier statements on these files."""
    newest_ladder: int = 0
    """The number of the newest kept ladder when the engines were opened; 0: there was none."""
    _facts: list[Facts] = field(default_factory=list, repr=False)
    """`facts` once they were read."""

    @property
    def schema_database(self) -> SchemaDatabase:
        """The schema database of the engine."""
        return self.engine.schema_database

    @property
    def facts(self) -> Facts:
        """The facts that the owner declares of these data, as the kernel has them; read once.

        Unique columns of public tables are as declared: they are tested where a query reads the table.
        """
        if not self._facts:
            try:
                self._facts.append(declared_facts_of(self.policy, self.schema_database))
            except ValueError:  # a query over public domains failed
                raise OperationalError("the declared domains cannot be read; nothing was charged") from None
        return self._facts[0]

    def is_unchanged(self, tables: Iterable[Table]) -> bool:
        """Whether no file of these tables was touched since the engine was opened."""
        return set(self.versions.stamps(tables)) <= set(self.stamps)

    def count(
        self, compiled: CompiledQuery, reads: Iterable[Table], *, few: Callable[[], None] | None = None
    ) -> Counts:
        """Return the exact counts of a compiled query, which an earlier statement may have counted.

        `reads` are all tables that they depend on. Counts are kept only if a change of the tables would show:
        a file changed a moment ago may change again without its times telling it.

        With `few`, exact counts of few groups are enough. Groups are counted where they are asked for, unless
        statements that come next, or that came before, count the same groups: then all are, and are kept.
        `few` is called whenever groups were counted, and raises if the tables have changed.
        """
        check_sealed(compiled)
        tables = tuple(reads)
        known = self.is_unchanged(tables) and self.versions.tell(tables)
        if known and (found := self.kept.find(compiled)) is not None:
            return found
        known = known and is_settled(self.versions.stamps(tables))
        query = self._widen(compiled) if known else compiled
        counts, kept = None, None
        if few is not None and not (known and self._are_all_counted(compiled)):
            few_of = query if compiled.groups is None or compiled.groups.limit is None else compiled
            kept = self.kept.find_few(few_of)
            counts = self.engine.count_few(few_of, few, kept)
            query = query if counts is None else few_of
        if counts is None:
            counts, kept = self.engine.count(query), None
        if known and kept is None and self.is_unchanged(tables):
            self.kept.keep(query, counts)
        return counts if query is compiled else take_counts(counts, query, compiled)

    def _are_all_counted(self, compiled: CompiledQuery) -> bool:
        """Whether counts of all groups serve other statements, and may be kept for them."""
        often = self.kept.is_asked_often(compiled)
        return self.kept.fits(compiled) and (often or _are_counted_next(compiled))

    def _widen(self, compiled: CompiledQuery) -> CompiledQuery:
        """Return a query that counts more, so that its counts serve the statements that come next, too."""
        with running_statement() as statement:
            others = statement.beside
        if compiled.groups is None or not self.kept.fits(compiled):
            return compiled
        try:
            query = merge_queries(compiled, others, self.policy, self.schema_database)
            self.engine.translate(query)
        except (Untranslatable, EngineNotTested, InternalError, RecursionError):
            return compiled  # which was proved and confirmed before the charge
        return query if self.kept.fits(query) else compiled


def _are_counted_next(compiled: CompiledQuery) -> bool:
    """Whether a statement that comes next counts the same groups."""
    with running_statement() as statement:
        return any(each is not compiled and is_alike(compiled, each) for each in statement.beside)


def tell_version(policy: Policy, versions: Versions, table: str) -> Stamps | None:
    """Return stamps of all that a table's rows and their units are read from.

    None: equal ones would not say that the rows are the same. It has no handle of the database, which an
    engine would keep from being closed.
    """
    tables = tables_read(policy, [table])
    stamps = versions.stamps(tables)
    return stamps if stamps and versions.tell(tables) and is_settled(stamps) else None


class _User(Protocol):
    """What uses a database and is closed with it: a session."""

    def close(self) -> None:
        """Settle what is open; waits for a running statement."""


class Database:
    """The engines and the ledger of a policy, for sessions of any number of analysts and threads.

    When files change, the engines are opened again for the statements that begin then; statements that run
    finish on the engines that they began with. Only the process that opened the database may use it.

    `memory` is the most bytes that DuckDB takes; left out, DuckDB's own limits hold. In the `background`, the
    threads with which it counts give way to the others of this process. `beside` is a database whose ledger
    it uses (`with_tables`).
    """

    def __init__(
        self,
        policy: str | os.PathLike[str] | Policy,
        *,
        memory: int | None = None,
        background: bool = False,
        beside: Database | None = None,
    ) -> None:
        self._beside = beside
        self.policy = policy if isinstance(policy, Policy) else load(policy)
        self._memory = memory
        self._background = background
        self._process = OwnerProcess("database")
        self._lock = threading.RLock()
        self._vetting = threading.RLock()
        self._closed = False
        self.on_vetting: Callable[[str | None], None] = lambda table: None
        """Called with a table's name before its rows are verified, and with None afterwards."""
        self.users: weakref.WeakSet[_User] = weakref.WeakSet()
        """The open sessions."""
        self.plans = FairCache[tuple[object, ...], Any](_PLANS)
        """Plans of statements (`kept_plans`), each with the engines on which it was made."""
        self.ledger: Ledger = Ledger.of(self.policy) if beside is None else beside.ledger
        self.versions = Versions(self.policy, self.ledger)
        try:
            self._engines, self._close_engines = self._open()
        except BaseException:
            if beside is None:
                self.ledger.close()
            raise

    def with_tables(self, tables: Iterable[Table]) -> Database:
        """Return a database of the same data and the same ledger, with public tables of a session.

        It is closed before this one.
        """
        policy = replace(self.policy, tables={**self.policy.tables, **{each.name: each for each in tables}})
        return Database(policy, memory=self._memory, background=self._background, beside=self)

    def _open(self) -> tuple[Engines, weakref.finalize[..., Engines]]:
        """Open the engines; open them again if a file that they keep open changed meanwhile."""
        for _ in range(_ATTEMPTS):
            stamps, held = self.versions.stamps(), self.versions.held_stamps()
            tell = partial(tell_version, self.policy, self.versions)
            engine = open_engine(self.policy, self._memory, background=self._background, version=tell)
            self._number_values(engine)
            kept = KeptCounts(self.policy.keep)
            stored = self.ledger.ladders()
            if stored:
                from dpsql.release.kept_ladders import LedgerLadders  # noqa: PLC0415  few ledgers have ladders

                engine.schema_database.kept_ladders = LedgerLadders(self.policy, self.versions, stored)
            newest = stored[-1].number if stored else 0
            # The owner declares nothing of a session's own tables, so the facts are those without them.
            facts = [] if self._beside is None else [self._beside.engines().facts]
            engines = Engines(self.policy, engine, self.versions, stamps, kept, newest, facts)
            finalizer = weakref.finalize(engines, _close, self._process, engine, kept)
            finalizer.atexit = False
            if self.versions.held_stamps() == held:
                return engines, finalizer
        raise OperationalError(CHANGING)

    def _number_values(self, engine: Engine) -> None:
        """Take the numbers of the values that are parts of units from the ledger."""
        parts = self.policy.unit_parts
        if parts is not None and parts.every is None:
            listed = engine.schema_database.list_values(parts.table, parts.column)
            engine.schema_database.numbered = self.ledger.number_values(listed) if listed else ()

    def check(self) -> None:
        """Raise `InterfaceError` if the database is closed, or belongs to another process."""
        self._process.check()
        if self._closed:
            raise InterfaceError("the database is closed")

    def engines(self) -> Engines:
        """Return the engines, opened on the files as they are now: those that reuse keys name."""
        with self._lock:
            self.check()
            changed = self.versions.stamps() != self._engines.stamps
            if changed or self.ledger.newest_ladder() != self._engines.newest_ladder:
                self._engines.kept.close()  # those who count on the old files still may
                self.plans.clear()
                self._engines, self._close_engines = self._open()
            return self._engines

    def vet(self, engines: Engines, names: Iterable[str]) -> None:
        """Check, once for each version of the data, that the tables can be read as the policy declares."""
        with self._vetting:
            for table in map(self.policy.table, names):
                if table is not None and not table.public and not table.trust_source:
                    self._vet(engines, table)
                    parts = self.policy.unit_parts
                    if parts is None or not same_name(parts.table, table.name):
                        continue
                    if parts.constant:
                        self._vet_constant(engines, table, parts)
                    if parts.moves == "refuse":
                        self._compare_units(engines, table, parts)

    def _vet_constant(self, engines: Engines, table: Table, parts: UnitParts) -> None:
        """Check, once for each version of the data, that all rows of a unit have one date."""
        version = source_version(self.policy, table, self.versions)
        key = f"one {parts.column} of {table.name}"
        if self.ledger.is_vetted(key, version):
            return
        engine = engines.engine
        self.on_vetting(table.name)
        with running_statement() as statement, statement.pause_timeout():
            held = run_sealed(lambda: engine.has_one_value(table.name, parts.column), otherwise=False)
        self.on_vetting(None)
        if not held:
            raise OperationalError(
                f"table {table.name} cannot be read as declared: the owner runs `dpsql check`"
            )
        if not engines.is_unchanged(tables_read(self.policy, [table.name])):
            raise OperationalError(CHANGING)
        self.ledger.vet(key, version)

    def _compare_units(self, engines: Engines, table: Table, parts: UnitParts) -> None:
        """Check, once for each version of the data, that no unit has moved to another part since the last."""
        from dpsql.release.moved_units import MovedUnits, PartsOfUnits  # noqa: PLC0415  seldom

        engine, unit, budgets = engines.engine, table.unit, self.ledger.parts
        if budgets is None or not isinstance(unit, UnitColumn):
            raise InternalError("versions of these data are not compared")
        kept, declared = MovedUnits(self.ledger, self.policy.budget.ledger), budgets.declared
        version, column = source_version(self.policy, table, self.versions), unit.column
        if not self.ledger.has_current_parts() or kept.is_known(declared, version):
            return  # where another process has declared other parts, every statement is charged to all
        key = kept.key()

        def compare() -> bool | None:
            rows = engine.read_part_values(table.name, column, parts.column, dates=parts.every is not None)
            if rows is None:
                return None
            return kept.compare(declared, version, PartsOfUnits.of(rows, key, parts.every))

        self.on_vetting(table.name)
        with running_statement() as statement, statement.pause_timeout():
            found = run_sealed(compare, otherwise=None)
        self.on_vetting(None)
        if found is None:
            raise OperationalError(f"the {parts.nouns} of {table.name} cannot be read")
        if not found:
            raise OperationalError(
                f"table {table.name} waits for its owner: since the last version of the data the"
                f" {parts.noun} of {with_article(parts.kind)} has changed, or a row is gone"
                " (`dpsql budget --moved` goes on)"
            )
        if not engines.is_unchanged(tables_read(self.policy, [table.name])):
            raise OperationalError(CHANGING)

    def _vet(self, engines: Engines, table: Table) -> None:
        engine, name = engines.engine, table.name
        version = source_version(self.policy, table, self.versions)
        if self.ledger.is_vetted(name, version):
            short = self.ledger.is_vetted(length_check_key(name), version)
            engine.assume_within_length_limit(name, short)
            return
        self.on_vetting(name)
        with running_statement() as statement, statement.pause_timeout():
            readable = run_sealed(lambda: engine.vet(name), otherwise=False)
        self.on_vetting(None)
        if not readable:
            raise OperationalError(f"table {name} cannot be read as declared: the owner runs `dpsql check`")
        if not engines.is_unchanged(tables_read(self.policy, [name])):
            raise OperationalError(CHANGING)
        self.ledger.vet(name, version)
        if engine.within_length_limit(name):
            self.ledger.vet(length_check_key(name), version)

    def close(self) -> None:
        """Close the sessions, then the engines and the ledger.

        It waits for running statements.
        """
        self._process.check()
        self._closed = True
        with ExitStack() as stack:
            if self._beside is None:
                stack.callback(self.ledger.close)
            stack.callback(self._close_engines)
            stack.callback(self.plans.clear)
            for user in list(self.users):
                stack.callback(user.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        # A child of a fork leaves the block as well; the database is its parent's.
        if self._process.in_own_process:
            self.close()


def _close(process: OwnerProcess, engine: Engine, kept: KeptCounts) -> None:
    if process.in_own_process:
        kept.close()
        engine.close()
