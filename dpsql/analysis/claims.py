"""Compare what a plan claims of its numbers and groups with what the kernel has certified, before a charge.

Mechanisms are planned by these claims. The kernel refuses those with less noise than is certified, but only
when they run. A claim that is lower is a bug of the analysis or of the kernel's checker: nothing is charged
or counted for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dpsql.analysis.plan import Plan
from dpsql.kernel.check import Certificate, Change, Keys, NotCertified
from dpsql.kernel.mechanisms import FULL
from dpsql.language import TopK, TopPerPartition

_DECLARED = (Keys.ONE, Keys.DECLARED)


def check_claims(plan: Plan) -> None:
    """Raise `NotCertified` if a claim of a plan is lower than what is certified of its queries."""
    _refuse(lower_claims(plan, plan.compiled.certificate))
    for search in plan.ladders:
        ladder = search.ladder
        check_search(search.compiled.certificate, ladder.bounds, ladder.fine)


def check_search(certificate: Certificate, bounds: Sequence[int], fine: int | None = None) -> None:
    """Raise `NotCertified` if what is claimed of a search is lower than what is certified of its query."""
    _refuse(lower_claims_of_search(certificate, bounds, fine))


def check_numbers(certificate: Certificate, most: int) -> None:
    """Raise `NotCertified` unless a query has one group, to whose numbers one unit adds so much at most."""
    claims = [] if certificate.keys is Keys.ONE else [f"the groups are {certificate.keys.value}, claimed one"]
    _refuse(claims + [text for each in certificate.numbers for text in _beyond(each, 0, most)])


def check_together(certificate: Certificate, most: int) -> None:
    """Raise `NotCertified` unless one unit changes all numbers of one group by so much at most, together."""
    names = {change.column for change in certificate.numbers}
    if not any(each.columns >= names and each.each <= most for each in certificate.together):
        raise NotCertified("the numbers of a measure together")


def _refuse(claims: Iterable[str]) -> None:
    found = [*claims]
    if found:
        raise NotCertified("; ".join(found))


def _beyond(change: Change, low: int, high: int) -> Iterator[str]:
    if change.low < low or change.high > high:
        yield f"{change.column} changes by {change.low} to {change.high}, claimed {low} to {high}"


def lower_claims_of_search(
    certificate: Certificate, bounds: Sequence[int], fine: int | None
) -> Iterator[str]:
    """Yield what is claimed of the cells of a search (`kernel.mechanisms.RungBins`) and is not certified.

    A unit is in one cell, of those that exceed so many of the same bounds. To the score there it adds at most
    `FULL`, and to the other sums what follows from the bounds (`kernel.tree.Scores`).
    """
    if certificate.most_groups != 1 or certificate.keys is not Keys.CELLS:
        yield f"one unit changes {certificate.most_groups} cells, claimed 1"
    signed = certificate.number("n5") is not None
    if certificate.bounds != tuple(bounds) or certificate.fine != (fine if signed else None):
        yield f"{len(certificate.bounds)} bounds are searched, claimed {len(bounds)}"
    numbers = {change.column: change for change in certificate.numbers}
    for name, most in (("n1", 1), ("n2", FULL), ("n5", 1)):
        if name in numbers:
            yield from _beyond(numbers[name], 0, most)


def lower_claims(plan: Plan, certificate: Certificate) -> Iterator[str]:
    """Yield what a plan claims of its numbers and groups and is not certified."""
    offset = int(plan.compiled.cells)
    for place, count in enumerate(plan.counts):
        name = f"n{place + offset}"
        change = certificate.number(name)
        if change is None:
            yield f"{name} is not certified"
            continue
        high = 1 if place == plan.existence else count.bound
        yield from _beyond(change, 0 if count.monotone else -count.bound, high)
        total, certified = plan.total(place), _total(plan, certificate, change)
        if total is not None and (certified is None or certified > total):
            yield f"{name} changes by {certified} in all groups, claimed {total}"
    yield from _lower_claims_of_moments(plan, certificate)
    yield from _lower_claims_of_groups(plan, certificate)


def _lower_claims_of_moments(plan: Plan, certificate: Certificate) -> Iterator[str]:
    """Yield what a plan claims of all numbers with one noise together and is not certified."""
    shares: dict[object, dict[int, str]] = {}
    for place, count in enumerate(plan.counts):
        if count.share is not None and plan.equal[place] == place:
            shares.setdefault(count.share, {})[place] = f"n{place + int(plan.compiled.cells)}"
    for numbers in shares.values():
        place, names = min(numbers), ", ".join(numbers.values())
        if len(numbers) == 1:
            continue
        found = next((each for each in certificate.together if each.columns >= {*numbers.values()}), None)
        if found is None or found.each > plan.counts[place].bound:
            each = "any amount" if found is None else found.each
            yield f"{names} change by {each} together in a group, claimed {plan.counts[place].bound}"
            continue
        total = plan.total(place)
        certified = _total(plan, certificate, Change(names, 0, found.each, found.total))
        if total is not None and (certified is None or certified > total):
            yield f"{names} change by {certified} together in all groups, claimed {total}"


def _lower_claims_of_groups(plan: Plan, certificate: Certificate) -> Iterator[str]:
    """Yield what a plan claims of its groups and is not certified."""
    selection, certified = plan.selection, certificate.most_groups
    most = 1 if plan.one_group else plan.groups_per_unit
    counted = bool(plan.key_types) and not plan.compiled.cells
    if counted and most is not None and (certified is None or certified > most):
        yield f"one unit changes {certified} groups, claimed {most}"
    if plan.partitions is not None and isinstance(selection, TopPerPartition):
        within = certificate.within(frozenset(f"k{i}" for i in selection.keys))
        few = plan.partitions.per_unit < plan.partitions.number  # else they are all that there are
        if few and (within is None or within > plan.partitions.per_unit):
            yield f"one unit is in {within} partitions, claimed {plan.partitions.per_unit}"
    offset = int(plan.compiled.cells)
    if plan.existence is not None and certificate.decides != f"n{plan.existence + offset}":
        yield f"{certificate.decides} decides which groups there are, claimed n{plan.existence + offset}"
    order = plan.compiled.order
    ordered = [] if order is None else [name for name, _ in order.terms]
    # The order of cells is never read.
    cells = [name for name, _ in certificate.cells] if plan.compiled.cells else []
    if ordered and not certificate.ordered_by(frozenset((*ordered, *cells))):
        yield f"two groups may be equal in {', '.join(ordered)}, claimed a public order"
    public = plan.domain_size is not None or not plan.key_types
    if public and not plan.compiled.cells and not plan.sparse and certificate.keys not in _DECLARED:
        yield f"the groups are {certificate.keys.value}, claimed public"
    if not public and plan.existence is None and isinstance(selection, (TopK, TopPerPartition)):
        name, largest = f"n{selection.count + offset}", certificate.largest
        if certificate.decides != name or (largest is not None and largest.column != name):
            yield f"{certificate.decides} selects groups, claimed {name}"


def _total(plan: Plan, certificate: Certificate, change: Change) -> int | None:
    """Return the total of a number as it is certified, also by how many groups there are."""
    each = max(-change.low, change.high)
    found = [] if change.total is None else [change.total]
    if certificate.keys is Keys.ONE:
        found.append(each)
    # A range of whole numbers that is listed sparsely is certified as cells, with public ends.
    public = certificate.keys in (Keys.DECLARED, Keys.SPARSE) or (
        plan.sparse and certificate.keys is Keys.CELLS
    )
    one = certificate.keys is Keys.CELLS and certificate.one_cell
    if (public or one) and plan.domain_size is not None:
        found.append(plan.domain_size * each)  # the groups are public, so is their number
    return min(found, default=None)
