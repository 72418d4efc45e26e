"""Shows what the policy's bounds cut: shares of rows, units and values, exact and for the owner alone.

Where a kept ladder gives the bound of statements over the whole table, or could, that is said too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.analysis.kept_bounds import ROWS, columns_of, total_of
from dpsql.engines.exact import ExactQueries
from dpsql.ledger import shown
from dpsql.owner.findings import Report
from dpsql.owner.kept_list import default_price, name_of
from dpsql.owner.kept_values import has_one_row
from dpsql.policy import Policy, Table, UnitRow
from dpsql.policy.names import key_path

if TYPE_CHECKING:
    from dpsql.kept_ladders import LedgerLadders

_ADVICE = "choose bounds without the rows: one that is copied from this share is a fact about the data"


def verify_bounds(
    report: Report, inspector: ExactQueries, policy: Policy, table: Table, kept: LedgerLadders
) -> None:
    """Report the shares of a table's rows, groups and values that are beyond its bounds, and its ladders."""
    for column in table.bounds:
        _report_cut(report, inspector, table, column)
    if table.public or isinstance(table.unit, UnitRow):
        return
    _report_ladders(report, policy, table, kept)
    most, place = policy.most(table, "rows_per_unit"), _place(table, "rows_per_unit")
    if most is not None:
        _report_rows(report, inspector, policy, table, most, place, kept)
    most, place = policy.most(table, "groups"), _place(table, "groups")
    if most is not None:
        for column in table.domain:
            _report_groups(report, inspector, policy, table, most, place, column)


def _place(table: Table, name: str) -> str:
    """Return the key of the policy that has a bound of a table."""
    return key_path("defaults", name) if getattr(table, name) is None else table.place(name)


def _report_groups(
    report: Report,
    inspector: ExactQueries,
    policy: Policy,
    table: Table,
    most: int,
    place: str,
    column: str,
) -> None:
    beyond, whole = inspector.beyond(table.name, most, column)
    if beyond:
        what = f"{most:,} leaves out {beyond / whole:.2%} of the rows of {table.name}, grouped by {column}"
        report.add("note", place, f"{what}, where groups are cut: {_in_its_place(policy, 'groups')}")
    else:
        report.add("ok", place, f"no unit of {table.name} is cut by {column}")


def _in_its_place(policy: Policy, name: str) -> str:
    """Return what to write in place of a constant that cuts."""
    return f'write {name} = "AUTO"' if policy.defaults.auto_bounds else _ADVICE


def _report_rows(
    report: Report,
    inspector: ExactQueries,
    policy: Policy,
    table: Table,
    most: int,
    place: str,
    kept: LedgerLadders,
) -> None:
    beyond, whole = inspector.beyond(table.name, most, None)
    if not beyond:
        report.add("ok", place, f"no unit of {table.name} is cut")
        return
    above, units = inspector.units_beyond(table.name, most)
    text = (
        f"{most:,} cuts {beyond / whole:.2%} of the rows of {table.name}, of {above / units:.2%} of its units"
    )
    text += f": {_in_its_place(policy, 'rows_per_unit')}"
    if kept.find(table.name, ROWS) is not None:
        text += "; statements over the whole table use the kept ladder already"
    else:
        text += f", or {_offer_ladder(policy, table.name)} for statements over the whole table"
    report.add("note", place, text)


def _report_ladders(report: Report, policy: Policy, table: Table, kept: LedgerLadders) -> None:
    """Report which statements use kept ladders, and which of these are of other data than those now."""
    measures, place = kept.of(table.name), table.place("rows_per_unit")
    for measure in measures:
        found = kept.find(table.name, measure)
        name = name_of(table.name, measure)
        if found is None:
            text = f"the kept ladder of {name} is of other units than the policy declares now: it is not used"
            report.add("note", place, text)
            continue
        what = "counts of rows" if measure == ROWS else f"SUM({measure.removeprefix(total_of(''))})"
        if columns := columns_of(measure):
            what = f"groups by {', '.join(columns)}"
        text = f"{what} over the whole table: by the kept ladder of {found.ladder.made:%d %B %Y}"
        if found.current:
            report.add("ok", place, text)
        else:
            known = "what its bound leaves out of these data is not known"
            report.add("note", place, f"{text}; {known}: {_offer_ladder(policy, name)} measures it anew")
    if (
        policy.most(table, "rows_per_unit") is None
        and ROWS not in measures
        and policy.defaults.auto_bounds
        and not has_one_row(policy, table)
    ):
        text = "no bound on its rows is written, so each statement finds one privately"
        report.add("ok", place, f"{text}; {_offer_ladder(policy, table.name)} finds it once")


def _offer_ladder(policy: Policy, name: str) -> str:
    """Return the command that measures a ladder, with its price."""
    price, whole = shown(default_price(policy), up=True), shown(policy.budget.epsilon, up=False)
    return f"dpsql bounds {name} (epsilon {price} of {whole})"


def _report_cut(report: Report, inspector: ExactQueries, table: Table, column: str) -> None:
    beyond, whole = inspector.cut(table.name, column)
    place = table.place("bounds", column)
    if beyond:
        report.add("note", place, f"{beyond / whole:.2%} of the values are cut: {_ADVICE}")
    else:
        report.add("ok", place, "no value is cut")
