"""Verifies a policy against tables of PostgreSQL and Spark: the catalog first, then the rows, there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dpsql.engines import open_engine
from dpsql.engines.exact import UnreadableError
from dpsql.engines.remote import RemoteEngine
from dpsql.engines.remote_exact import RemoteInspector
from dpsql.errors import Error, InternalError, PolicyError
from dpsql.kept_ladders import LedgerLadders
from dpsql.ledger import StoredLadder
from dpsql.owner.bounds import verify_bounds
from dpsql.owner.facts import verify_domains, verify_facts, verify_rows
from dpsql.owner.findings import Report, times
from dpsql.owner.units import verify_kinds, verify_others, verify_unit
from dpsql.policy import DatabaseSource, ParquetSource, Policy, Table, engine_kind, show_length
from dpsql.release import source_version
from dpsql.types import VARCHAR
from dpsql.versions import Versions

Words = Callable[[BaseException], str]


def verify_engine(
    report: Report,
    policy: Policy,
    on_progress: Callable[[str, int | None, int | None], None],
    ladders: Sequence[StoredLadder] = (),
) -> None:
    """Verify a policy whose tables are in another engine, and add what is found to the report."""
    postgres = engine_kind(policy.engine) == "postgresql"
    on_progress("reading the catalog", None, None)
    words = _examine_postgres(report, policy) if postgres else _examine_spark(report, policy)
    if report.wrong:
        return
    try:
        engine = open_engine(policy)
    except Error as problem:
        report.add("wrong", "policy", _with_hint(*_message(problem)))
        return
    if not isinstance(engine, RemoteEngine):
        raise InternalError("the engine is not a remote one")
    inspector, versions = RemoteInspector(engine, words), Versions(policy)
    kept = LedgerLadders(policy, versions, ladders)
    try:
        for table in policy.tables.values():
            if table.trust_source and not table.public:
                text = "trust_source is set: its rows were not read, nothing about them was verified"
                report.add("note", table.place(), text)
            elif table.name in engine.scans:
                on_progress(f"reading {table.name}", None, None)
                _verify_table(report, inspector, policy, table, versions, kept)
        if all(name in engine.scans for name in policy.tables):
            on_progress("comparing the tables", None, None)
            verify_kinds(report, inspector, policy)
            verify_others(report, inspector, policy)
    finally:
        inspector.close()


def _verify_table(
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
        report.add("ok", table.place(), f"{kind}, {times(rows, 'row')}, all readable")
        _verify_values(report, inspector, policy, table, lost)
        verify_facts(report, inspector, table)
        if report.wrong == before and not table.public:
            report.passed[table.name] = version
        verify_domains(report, inspector, table, rows)
        verify_unit(report, inspector, policy, table, rows)
        verify_rows(report, inspector, policy, table)
        verify_bounds(report, inspector, policy, table, kept)
    except UnreadableError as problem:
        found = inspector.unreadable(table.name)
        for column, text in found.items():
            report.add("wrong", table.place("columns", column), f"cannot be read: {text}")
        if not found:
            report.add("wrong", table.place("source"), f"cannot be read: {problem}")


def _verify_values(
    report: Report, inspector: RemoteInspector, policy: Policy, table: Table, lost: dict[str, int]
) -> None:
    limit = show_length(policy.longest_value)
    for column, kind in inspector.readers[table.name].columns:
        if lost[column] > 0 and kind == VARCHAR:
            text = f"{times(lost[column], 'value')} longer than {limit} ([engine] longest_value), or no UTF-8"
            report.add("note", table.place("columns", column), f"{text}: read as NULL")
        elif lost[column] > 0:
            text = f"{times(lost[column], 'value')} not readable as {kind}, so read as NULL"
            report.add("wrong", table.place("columns", column), text)


def _examine_postgres(report: Report, policy: Policy) -> Words:
    from dpsql.engines.postgres import owner as postgres  # noqa: PLC0415  an extra

    try:
        with postgres.owner_connection(policy.engine) as connection:
            report.add(*_put_place("database.engine", postgres.describe_server(connection)))
            for table in policy.tables.values():
                if not isinstance(table.source, DatabaseSource):
                    continue
                with _of_table(report, table, "exists, may be read, types are as declared"):
                    postgres.check_table(connection, table, table.source, policy.longest_value)
                if stale := postgres.describe_statistics(connection, table.source):
                    report.add("note", table.place("source"), stale)
    except PolicyError as problem:
        _add_problem(report, None, problem)
    return postgres.postgres_words


def _examine_spark(report: Report, policy: Policy) -> Words:
    from dpsql.engines.spark import owner as spark  # noqa: PLC0415  an extra
    from dpsql.engines.spark.guard import check_facts  # noqa: PLC0415

    try:
        with spark.owner_session(policy.engine) as session:
            report.add(*_put_place("database.engine", spark.describe_spark(policy.engine, session)))
            for table in policy.tables.values():
                local = isinstance(table.source, ParquetSource) and "://" not in policy.engine
                if not isinstance(table.source, DatabaseSource) and not (local and not table.public):
                    continue
                with _of_table(report, table, "exists, types are as declared"):
                    spark.check_table(session, table, policy.longest_value)
        check_facts(policy)
    except Error as problem:
        _add_problem(report, None, problem)
    return spark.spark_words


@contextmanager
def _of_table(report: Report, table: Table, said: str) -> Iterator[None]:
    """Add what the block finds wrong with a table; what is said if it finds nothing."""
    try:
        yield
    except PolicyError as problem:
        _add_problem(report, table, problem)
    else:
        report.add("ok", table.place("source"), said)


def _put_place(place: str, found: tuple[str, str]) -> tuple[str, str, str]:
    return found[0], place, found[1]


def _add_problem(report: Report, table: Table | None, problem: Error) -> None:
    """Add an error of the catalog; its place is the key at which its text begins."""
    message, hint = _message(problem)
    place, colon, text = message.partition(": ")
    if not colon or " " in place:
        place, text = ("database.engine" if table is None else table.place()), message
    report.add("wrong", place, _with_hint(text, hint))


def _message(problem: Error) -> tuple[str, str | None]:
    return getattr(problem, "message", str(problem)), getattr(problem, "hint", None)


def _with_hint(text: str, hint: str | None) -> str:
    return f"{text} ({hint})" if hint else text
