"""Reports what rows show of facts that the policy leaves unsaid: single rows of units, and NULLs in keys."""

from __future__ import annotations

from dpsql.engines.exact import ExactQueries
from dpsql.owner.findings import Report
from dpsql.policy import Policy, Table, UnitColumn, fold


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
