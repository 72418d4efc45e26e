"""Verifies declared facts of a table: unique columns, columns without NULL, domains."""

from __future__ import annotations

from dpsql.engines.exact import ExactQueries
from dpsql.owner.findings import Report, times
from dpsql.policy import EnumDomain, Table
from dpsql.policy.names import key_path


def verify_facts(report: Report, inspector: ExactQueries, table: Table) -> None:
    """Report whether the unique facts, the columns without NULL and the complete domains are so."""
    for i, fact in enumerate(table.unique):
        _verify_fact(report, inspector, table, i, fact)
    _verify_not_null(report, inspector, table)
    for column in table.complete:
        _verify_complete(report, inspector, table, column)


def verify_domains(report: Report, inspector: ExactQueries, table: Table, rows: int) -> None:
    """Report the values outside of domains."""
    for column, domain in table.domain.items():
        if not isinstance(domain, EnumDomain) and column not in table.complete:
            _verify_domain(report, inspector, table, column, rows)


def _verify_fact(
    report: Report, inspector: ExactQueries, table: Table, i: int, fact: tuple[str, ...]
) -> None:
    place = f"{key_path('tables', table.name)}.unique[{i}]"
    values, rows = inspector.repeated(table.name, fact)
    if values:
        text = f"{times(values, 'value')} of {', '.join(fact)} stand in more than one row ({rows:,} rows)"
        report.add("wrong", place, text)
    else:
        report.add("ok", place, f"{', '.join(fact)} is unique")


def _verify_not_null(report: Report, inspector: ExactQueries, table: Table) -> None:
    nulls = inspector.nulls(table.name, table.not_null)[0] if table.not_null else {}
    for i, (column, number) in enumerate(nulls.items()):
        place = f"{key_path('tables', table.name)}.not_null[{i}]"
        if number:
            found = f"{column} is NULL in {times(number, 'row')} that have a unit"
            report.add("wrong", place, f"{found}: leave it out, NULL is then a group")
        else:
            report.add("ok", place, f"{column} has no NULL")


def _verify_complete(report: Report, inspector: ExactQueries, table: Table, column: str) -> None:
    place = table.place("domain", column)
    _, rows, nulls = inspector.outside(table.name, column)
    if rows or nulls:
        text = (
            f"is not complete: {times(rows, 'row')} outside, {times(nulls, 'row')} with NULL: leave that out"
        )
        report.add("wrong", place, text)
    else:
        report.add("ok", place, "is complete")


def _verify_domain(report: Report, inspector: ExactQueries, table: Table, column: str, total: int) -> None:
    place = table.place("domain", column)
    values, rows, _ = inspector.outside(table.name, column)
    if values:
        listed = inspector.outside_values(table.name, column)
        shown = ", ".join(f"{text!r} ({times(n, 'row')})" for text, n in listed)
        more = ", .." if values > len(listed) else ""
        text = (
            f"{times(rows, 'row')} outside of the domain ({rows / max(total, 1):.2%}), with "
            f"{times(values, 'value')}: {shown}{more}. "
            f"Where {column} is a group key, these rows are in no group, which may be meant"
        )
        report.add("note", place, text)
    else:
        report.add("ok", place, "covers every value")
