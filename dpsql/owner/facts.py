"""Verifies declared facts of a table: unique columns, columns without NULL, domains.

And what rows show of facts that the policy leaves unsaid: single rows of units, and NULLs in keys.
"""

from __future__ import annotations

from dpsql.engines.exact import ExactQueries
from dpsql.owner.findings import Report, times
from dpsql.policy import EnumDomain, Policy, Table, UnitColumn, fold
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


def verify_rows(report: Report, inspector: ExactQueries, policy: Policy, table: Table) -> None:
    """Report that units have one row each, and NULLs in keys."""
    if table.public:
        return
    if isinstance(table.unit, UnitColumn):
        _report_single(report, inspector, policy, table, table.unit.column)
    if table.cut == "NOISE_ONLY":
        text = "intervals of statements over this table do not have what bounds cut, though it may be known"
        report.add("note", table.place("cut"), text)
    vouched = {fold(column) for column in table.not_null}
    keys = [column for column in table.domain if fold(column) not in vouched]
    nulls, rows = inspector.nulls(table.name, keys)
    for column in keys:
        if nulls[column]:
            text = f"{nulls[column]:,} of {rows:,} rows are NULL: a group of their own"
            report.add("note", table.place("domain", column), text)


def _report_single(report: Report, inspector: ExactQueries, policy: Policy, table: Table, unit: str) -> None:
    """Report that no unit has two rows, which a policy may say and rows alone do not promise."""
    if any(len(fact) == 1 and fold(fact[0]) == fold(unit) for fact in table.unique):
        return
    rows, units = inspector.rows_and_units(table.name)
    if rows < 2 or rows != units:
        return
    most = policy.most(table, "rows_per_unit")
    gain = "counts of rows need no bound" if most is None else f"noise {most:,} times less"
    text = (
        f"{unit} names each of {rows:,} rows once: if that is so by construction, "
        f'write unique = [["{unit}"]]: {gain}'
    )
    report.add("note", table.place("unit"), text)
