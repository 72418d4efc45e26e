"""Verify a policy against its data: columns are readable, unique facts hold, domains cover.

What the policy says that can hardly be meant is reported, without the data. Tables of another engine are
verified there: the catalog first, then the rows.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from itertools import combinations

from dpsql.engines import OwnerTools, engine_notice, length_check_key, open_engine, owner_tools
from dpsql.engines.duckdb.duckdb_owner import Inspector, find_opening_errors
from dpsql.engines.exact_queries import RemoteInspector, UnreadableError
from dpsql.engines.remote_engine import RemoteEngine
from dpsql.errors import Error, InternalError, PolicyError
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import StoredLadder
from dpsql.owner.declared_facts import verify_bounds, verify_domains, verify_facts, verify_rows
from dpsql.owner.findings import Report, number_of
from dpsql.owner.stored_values import verify_lengths, verify_values, verify_zones
from dpsql.owner.units import verify_kinds, verify_others, verify_unit
from dpsql.policy import AnalystPolicy, GroupPolicy, Policy, Table, UnitColumn, fold, show_length
from dpsql.policy.names import key_path
from dpsql.release import source_version, tables_read
from dpsql.release.kept_ladders import LedgerLadders
from dpsql.release.moved_units import KnownUnits
from dpsql.release.reuse import Versions
from dpsql.types import VARCHAR


def verify_engine(
    report: Report,
    policy: Policy,
    on_progress: Callable[[str, int | None, int | None], None],
    ladders: Sequence[StoredLadder] = (),
) -> None:
    """Verify a policy whose tables are in another engine, and add what is found to the report."""
    tools = owner_tools(policy.engine)
    on_progress("reading the catalog", None, None)
    _examine_catalog(report, policy, tools)
    if report.wrong:
        return
    try:
        engine = open_engine(policy)
    except Error as problem:
        report.add("wrong", "policy", _add_hint(*_message_of(problem)))
        return
    if not isinstance(engine, RemoteEngine):
        raise InternalError("the engine is not a remote one")
    inspector, versions = RemoteInspector(engine, tools.describe_error), Versions(policy)
    kept = LedgerLadders(policy, versions, ladders)
    try:
        for table in policy.tables.values():
            if table.trust_source and not table.public:
                text = "trust_source is set: its rows were not read, nothing about them was verified"
                report.add("note", table.place(), text)
            elif table.name in engine.scans:
                on_progress(f"reading {table.name}", None, None)
                _verify_engine_table(report, inspector, policy, table, versions, kept)
        if all(name in engine.scans for name in policy.tables):
            on_progress("comparing the tables", None, None)
            verify_kinds(report, inspector, policy)
            verify_others(report, inspector, policy)
    finally:
        inspector.close()


def _verify_engine_table(
    report: Report,
    inspector: RemoteInspector,
    policy: Policy,
    table: Table,
    versions: Versions,
    kept: LedgerLadders,
) -> None:
    version, before = source_version(policy, table, versions), report.wrong
    try:
        rows, lost = inspector.read(table.name)
        kind = "public" if table.public else "private"
        report.add("ok", table.place(), f"{kind}, {number_of(rows, 'row')}, all readable")
        _verify_engine_values(report, inspector, policy, table, lost)
        verify_facts(report, inspector, table)
        if report.wrong == before and not table.public:
            report.passed[table.name] = version
        verify_domains(report, inspector, table, rows)
        verify_unit(report, inspector, policy, table, rows)
        verify_rows(report, inspector, policy, table)
        verify_bounds(report, inspector, policy, table, kept)
    except UnreadableError as problem:
        found = inspector.find_unreadable(table.name)
        for column, text in found.items():
            report.add("wrong", table.place("columns", column), f"cannot be read: {text}")
        if not found:
            report.add("wrong", table.place("source"), f"cannot be read: {problem}")


def _verify_engine_values(
    report: Report, inspector: RemoteInspector, policy: Policy, table: Table, lost: dict[str, int]
) -> None:
    limit = show_length(policy.longest_value)
    for column, kind in inspector.readers[table.name].columns:
        if lost[column] > 0 and kind == VARCHAR:
            number = number_of(lost[column], "value")
            text = f"{number} longer than {limit} ([engine] longest_value), or no UTF-8"
            report.add("note", table.place("columns", column), f"{text}: read as NULL")
        elif lost[column] > 0:
            text = f"{number_of(lost[column], 'value')} not readable as {kind}, so read as NULL"
            report.add("wrong", table.place("columns", column), text)


def _examine_catalog(report: Report, policy: Policy, tools: OwnerTools) -> None:
    """Report which engine it is, and whether its catalog has the declared tables as they are declared."""
    try:
        with tools.open_catalog() as catalog:
            kind, text = catalog.describe()
            report.add(kind, "database.engine", text)
            for table in filter(catalog.has, policy.tables.values()):
                with _report_problems(report, table, tools.verified):
                    catalog.check_table(table, policy.longest_value)
                if slow := catalog.describe_statistics(table):
                    report.add("note", table.place("source"), slow)
        tools.check_policy(policy)
    except Error as problem:
        _add_problem(report, None, problem)


@contextmanager
def _report_problems(report: Report, table: Table, said: str) -> Iterator[None]:
    """Report the `PolicyError` of the block as wrong with a table; without one, report `said` as ok."""
    try:
        yield
    except PolicyError as problem:
        _add_problem(report, table, problem)
    else:
        report.add("ok", table.place("source"), said)


def _add_problem(report: Report, table: Table | None, problem: Error) -> None:
    """Add an error of the catalog; its place is the key at which its text begins."""
    message, hint = _message_of(problem)
    place, colon, text = message.partition(": ")
    if not colon or " " in place:
        place, text = ("database.engine" if table is None else table.place()), message
    report.add("wrong", place, _add_hint(text, hint))


def _message_of(problem: Error) -> tuple[str, str | None]:
    return getattr(problem, "message", str(problem)), getattr(problem, "hint", None)


def _add_hint(text: str, hint: str | None) -> str:
    return f"{text} ({hint})" if hint else text


_ALIKE = 0.85
_LARGE_DELTA = Fraction(1, 10_000)


OnProgress = Callable[[str, int | None, int | None], None]
"""Called with what is done now, and the bytes done (None: not known) of how many."""


def verify(
    policy: Policy,
    on_progress: OnProgress = lambda words, done, total: None,
    ladders: Sequence[StoredLadder] = (),
    units: KnownUnits | None = None,
) -> Report:
    """Verify a policy against its data, reading every column of it once.

    Parameters
    ----------
    policy
        The owner's policy.
    on_progress
        Called with what is done now. What it is told is private, as the report is.
    ladders
        The kept ladders of its ledger.
    units
        The units of the version of the data that was read last, where parts of units are compared.
    """
    report, hashed = Report(), _Hashed(on_progress)
    versions = Versions(policy, on_read=hashed.read)
    if text := engine_notice():
        report.add("note", "the engine", f"{text}; a statement that needs more than was tested is refused")
    _verify_sense(report, policy)
    if policy.budget.accounting == "zcdp" and policy.budget.delta > _LARGE_DELTA:
        text = "is more than 1e-4: with that chance nothing is promised; values like 1e-6 are customary"
        report.add("note", "budget.delta", text)
    if policy.engine != "duckdb":
        verify_engine(report, policy, on_progress, ladders)
        return _locate_lines(report, policy)
    stamps, kept = versions.stamps(), LedgerLadders(policy, versions, ladders)
    try:
        inspector = Inspector(policy)
    except PolicyError as problem:
        found = find_opening_errors(policy)
        for place, words in found:
            report.add("wrong", place, _join_lines(words))
        if not found:
            report.add("wrong", "policy", problem.message + (f" ({problem.hint})" if problem.hint else ""))
        return _locate_lines(report, policy)
    try:
        for table in policy.tables.values():
            hashed.begin(f"hashing {table.name}", versions.size(tables_read(policy, [table.name])))
            if table.trust_source and not table.public:
                text = "trust_source is set: its rows were not read, nothing about them was verified"
                report.add("note", table.place(), text)
            else:
                _verify_table(report, inspector, policy, table, versions, hashed, kept)
                _verify_moves(report, inspector, policy, table, units)
        on_progress("comparing the tables", None, None)
        verify_kinds(report, inspector, policy)
        verify_others(report, inspector, policy)
    finally:
        inspector.close()
    if versions.stamps() != stamps:
        report.passed.clear()
        report.add(
            "note", "policy", "files changed while they were read: run it again, nothing is remembered"
        )
    return _locate_lines(report, policy)


@dataclass(slots=True)
class _Hashed:
    """How many bytes of a table's files were hashed, for the progress."""

    on_progress: OnProgress
    words: str = ""
    done: int = 0
    total: int = 0

    def begin(self, words: str, total: int) -> None:
        self.words, self.done, self.total = words, 0, total
        self.on_progress(words, None, total)

    def read(self, size: int) -> None:
        self.done += size
        self.on_progress(self.words, self.done, self.total)


def _locate_lines(report: Report, policy: Policy) -> Report:
    if policy.path is not None:
        with suppress(OSError, UnicodeDecodeError):
            report.locate(policy.path.read_text("utf-8-sig"))
    return report


def _join_lines(words: str) -> str:
    return "; ".join(words.split("\n"))


def _verify_table(
    report: Report,
    inspector: Inspector,
    policy: Policy,
    table: Table,
    versions: Versions,
    hashed: _Hashed,
    kept: LedgerLadders,
) -> None:
    place = table.place()
    version, before = source_version(policy, table, versions), report.wrong
    hashed.on_progress(f"reading {table.name}", None, hashed.total)
    try:
        rows, lost = inspector.read(table.name)
        report.add(
            "ok", place, f"{'public' if table.public else 'private'}, {number_of(rows, 'row')}, all readable"
        )
        verify_values(report, inspector, table, lost)
        verify_zones(report, inspector, table)
        short = verify_lengths(report, inspector, policy, table)
        verify_facts(report, inspector, table)
        if report.wrong == before and not table.public:
            report.passed[table.name] = version
            if short:
                report.passed[length_check_key(table.name)] = version
        verify_domains(report, inspector, table, rows)
        verify_unit(report, inspector, policy, table, rows)
        verify_rows(report, inspector, policy, table)
        verify_bounds(report, inspector, policy, table, kept)
    except UnreadableError as problem:
        _report_unreadable(report, inspector, table, str(problem))


def _verify_moves(
    report: Report, inspector: Inspector, policy: Policy, table: Table, units: KnownUnits | None
) -> None:
    """Report the units whose part is another one than in the version of the data that was read last."""
    parts, unit = policy.unit_parts, table.unit
    if parts is None or units is None or fold(parts.table) != fold(table.name):
        return
    rows = (
        inspector.read_part_values(table.name, unit.column, parts.column, dates=parts.every is not None)
        if isinstance(unit, UnitColumn)
        else None
    )
    if rows is None:
        return
    moved = units.count_moved(rows, parts.every)
    text = (
        f"of {number_of(moved, parts.kind)} the {parts.noun} has changed since the data were read last,"
        " or the row is gone, so statements wait: bring the dates back, or `dpsql budget --moved` spends"
        f" the largest total of any {parts.every or 'value'} in every {parts.every or 'value'}"
    )
    report.conclude(moved, parts.place("moves"), text, f"no {parts.kind} has moved to another {parts.noun}")


def _report_unreadable(report: Report, inspector: Inspector, table: Table, words: str) -> None:
    problems = inspector.find_unreadable(table.name)
    if 0 < len(problems) < len(inspector.readers[table.name].columns):
        for column, text in problems.items():
            report.add("wrong", table.place("columns", column), f"cannot be read: {_join_lines(text)}")
    else:
        report.add("wrong", table.place("source"), f"cannot be read: {_join_lines(words)}")


def _verify_sense(report: Report, policy: Policy) -> None:
    """Report caps above the total, and unit kinds that differ by a slip of the pen."""
    for analyst in policy.analysts.values():
        _report_cap(report, policy, analyst, "analysts")
    for group in policy.groups.values():
        _report_cap(report, policy, group, "groups")
    kinds: dict[str, Table] = {}
    for table in policy.tables.values():
        if table.unit is not None:
            kinds.setdefault(table.unit.kind, table)
    for one, other in combinations(sorted(kinds), 2):
        if fold(one) == fold(other) or difflib.SequenceMatcher(None, one, other).ratio() >= _ALIKE:
            text = f"{other!r} and {one!r} are two kinds: their tables never join. Is one word meant?"
            report.add("note", kinds[other].place("unit_kind"), text)


def _report_cap(report: Report, policy: Policy, cap: AnalystPolicy | GroupPolicy, section: str) -> None:
    for name in ("epsilon", "delta"):
        own, total = getattr(cap, name), getattr(policy.budget, name)
        if own > total:
            text = f"is more than budget.{name}, so it never binds: the total ends first"
            report.add("note", key_path(section, cap.name, name), text)
