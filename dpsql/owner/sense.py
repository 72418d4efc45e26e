"""Reports what a policy says that can hardly be meant; the data are not read."""

from __future__ import annotations

import difflib
from itertools import combinations

from dpsql.owner.findings import Report
from dpsql.policy import AnalystPolicy, GroupPolicy, Policy, Table
from dpsql.policy.names import fold, key_path

_ALIKE = 0.85


def verify_sense(report: Report, policy: Policy) -> None:
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
