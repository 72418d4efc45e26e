"""Shows what the policy's bounds cut: shares of rows, units and values, exact and for the owner alone."""

from __future__ import annotations

from dpsql.engines.exact import ExactQueries
from dpsql.owner.findings import Report
from dpsql.policy import Policy, Table, UnitRow
from dpsql.policy.names import joined

_ADVICE = "choose bounds without the rows: one that is copied from this share is a fact about the data"


def verify_bounds(report: Report, inspector: ExactQueries, policy: Policy, table: Table) -> None:
    """Report the shares of a table's rows, groups and values that are beyond its bounds."""
    for column in table.bounds:
        _report_cut(report, inspector, table, column)
    if table.public or isinstance(table.unit, UnitRow):
        return
    _report_beyond(report, inspector, policy, table, "rows_per_unit")
    for column in table.domain:
        _report_beyond(report, inspector, policy, table, "groups", column)


def _report_beyond(
    report: Report,
    inspector: ExactQueries,
    policy: Policy,
    table: Table,
    bound: str,
    column: str | None = None,
) -> None:
    own, default = getattr(table, bound), getattr(policy.defaults, bound)
    most = default if own is None else own
    if most is None:
        return
    place = joined("defaults", bound) if own is None else table.place(bound)
    beyond, whole = inspector.beyond(table.name, most, column)
    what = f"rows of {table.name}" if column is None else f"rows of {table.name}, grouped by {column},"
    if not beyond:
        report.add("ok", place, f"no unit of {table.name} is cut{f' by {column}' if column else ''}")
        return
    words = "count with less weight" if column is None else "are not counted where groups are cut"
    if column is None:
        above, units = inspector.units_beyond(table.name, most)
        words += f", those of {above / units:.2%} of its units"
    advice = _ADVICE
    if bound == "rows_per_unit" and policy.defaults.auto_bounds and None in (own, default):
        advice += "; or leave it out: each statement then finds a bound privately"
    report.add("note", place, f"{beyond / whole:.2%} of the {what} {words}: {advice}")


def _report_cut(report: Report, inspector: ExactQueries, table: Table, column: str) -> None:
    beyond, whole = inspector.cut(table.name, column)
    place = table.place("bounds", column)
    if beyond:
        report.add("note", place, f"{beyond / whole:.2%} of the values are cut: {_ADVICE}")
    else:
        report.add("ok", place, "no value is cut")
