"""Whether the checker agrees with the analysis: what is claimed is no less than what is certified."""

from __future__ import annotations

from dpsql.analysis import Plan
from dpsql.kernel.check import Certificate, Change, Keys, NotCertified, certify
from dpsql.kernel.facts import Facts
from dpsql.language import TopK, TopPerPartition
from kernel.grounds import Compiled

__all__ = ["disagreement", "lower_claims"]


def disagreement(made: Compiled, facts: Facts) -> str:
    """Say what keeps a query from being counted: what is not certified, or is claimed too low; or nothing."""
    try:
        claim = certify(made.query, facts)
    except NotCertified as refused:
        return refused.rule
    except Exception as error:  # noqa: BLE001  whatever it is, nothing is counted
        return f"raised {type(error).__name__}: {str(error)[:80]}"
    return "" if made.ladder is not None else "; ".join(lower_claims(made.plan, claim))


def lower_claims(plan: Plan, claim: Certificate) -> list[str]:
    """Return the bounds of a plan that are lower than what is certified."""
    found, offset = list[str](), int(plan.compiled.cells)
    for place, count in enumerate(plan.counts):
        name = f"n{place + offset}"
        change = claim.number(name)
        if change is None:
            found.append(f"{name} is not certified")
            continue
        low = 0 if count.monotone else -count.bound
        bound = 1 if place == plan.existence else count.bound
        if change.low < low or change.high > bound:
            found.append(f"{name} changes by {change.low} to {change.high}, claimed {low} to {bound}")
        total, certified = plan.total(place), _total(plan, claim, change)
        if total is not None and (certified is None or certified > total):
            found.append(f"{name} changes by {certified} in all groups, claimed {total}")
    found += _groups(plan, claim)
    return found


def _groups(plan: Plan, claim: Certificate) -> list[str]:
    """Return what a plan says of its groups and is not certified."""
    found, selection = list[str](), plan.selection
    most = 1 if plan.one_group else plan.groups_per_unit
    certified = claim.most_groups
    if not plan.key_types or plan.compiled.cells or most is None:
        certified = most = 1
    if certified is None or certified > most:
        found.append(f"one unit changes {certified} groups, claimed {most}")
    parts = plan.partitions
    if parts is not None and isinstance(selection, TopPerPartition) and parts.per_unit < parts.number:
        within = claim.within(frozenset(f"k{i}" for i in selection.keys))
        if within is None or within > parts.per_unit:
            found.append(f"one unit is in {within} partitions, claimed {parts.per_unit}")
    if plan.existence is not None and claim.decides != f"n{plan.existence}":
        found.append(f"{claim.decides} decides which groups there are, claimed n{plan.existence}")
    public = plan.domain_size is not None or not plan.key_types
    if public and not plan.compiled.cells and not plan.sparse and claim.keys not in (Keys.ONE, Keys.DECLARED):
        found.append(f"the groups are {claim.keys.name}, claimed public")
    if not public and plan.existence is None and isinstance(selection, (TopK, TopPerPartition)):
        place = selection.count
        if claim.decides != f"n{place}" or (
            claim.largest is not None and claim.largest.column != f"n{place}"
        ):
            found.append(f"{claim.decides} selects groups, claimed n{place}")
    return found


def _total(plan: Plan, claim: Certificate, change: Change) -> int | None:
    """Return the total of a number, also by the number of groups that a unit changes, or that there are."""
    each = max(-change.low, change.high)
    found = [] if change.total is None else [change.total]
    if claim.keys is Keys.ONE:
        found.append(each)
    if claim.most_groups is not None:
        found.append(claim.most_groups * each)
    if claim.keys is Keys.DECLARED and plan.domain_size is not None:
        found.append(plan.domain_size * each)  # the groups are public, so is their number
    return min(found, default=None)
