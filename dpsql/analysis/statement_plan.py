"""The plan of a private statement, and the comparison of what it claims with what the kernel has certified.

Mechanisms are planned by these claims. The kernel refuses those with less noise than is certified, but only
when they run. A claim that is lower is a bug of the analysis or of the kernel's checker: nothing is charged
or counted for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from fractions import Fraction
from math import gcd, lcm
from typing import TYPE_CHECKING, Literal

from dpsql.analysis.bound_ladders import ConstantCut, CutValues, Ladder, LeftOut
from dpsql.analysis.compiled_query import CompiledQuery
from dpsql.analysis.compiled_relation import Owner
from dpsql.analysis.epsilon_division import Accounting, EpsilonDivision, divide_epsilon
from dpsql.analysis.released.quantiles import CellRows, Quantile
from dpsql.analysis.released.released_calls import find_cells
from dpsql.analysis.released.released_numbers import ReleasedAggregate
from dpsql.analysis.released.unit_values import find_value_step
from dpsql.errors import InternalError
from dpsql.estimates import Formula, RowCount, SumOfRows
from dpsql.kernel.check import Certificate, Change, Keys, NotCertified
from dpsql.kernel.loss import Charge, Filter
from dpsql.kernel.mechanisms import FULL
from dpsql.kernel.unit_parts import NO_PARTS, PartSet, either_parts
from dpsql.language import Options, Query, Selection, TopK, TopPerPartition
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Assumed
from dpsql.types import SqlType

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.analysis.addable_numbers import AddableNumbers


def count_candidates(k: int, options: Options) -> int:
    """Return k-bar: of how many groups, the largest, a mechanism for keys without a declared domain selects.

    It does not depend on which mechanism AUTO chooses.
    """
    return options.candidates or (k if options.mechanism in ("TOP_STABLE", "FIRST_STABLE") else 10 * k)


_ACCOUNTINGS: dict[str | None, Accounting | None] = {None: None, "BASIC": "basic", "ORDER": "order"}


def requested_accounting(options: Options) -> Accounting | None:
    """Return the accounting that a statement's options ask for or require; None if both will do."""
    named = options.noise == "GAUSSIAN" or options.mechanism in BY_ORDER
    return _ACCOUNTINGS[options.layout or ("ORDER" if named else None)]


BY_ORDER = ("GAUSSIAN", "PEELED_TOP_K", "GUMBEL_TOP_K", "SPARSE_VECTOR_BY_ROUNDS")
"""Mechanisms that are for statements whose cost at one order of Renyi divergence is divided."""

OF_NUMBERS = frozenset({"count", "stddev", "low", "high", "left_out", "bound"})
"""Kinds of output columns that show a number, or something of it."""


@dataclass(frozen=True, slots=True)
class Output:
    """One output column: a key, a released number, or what is known of one."""

    name: str
    kind: Literal[
        "key", "count", "quantile", "gap", "stddev", "low", "high", "p_value", "rank", "left_out", "bound"
    ]
    of: int = -1
    """The place of the key, or of the count that is shown."""
    uses: tuple[int, ...] = ()
    """The counts that the formula uses."""
    formula: Formula | None = None
    """How a number follows from several counts; None: it is one of them, in its steps."""
    quantile: Quantile | None = None
    """What a column of the kind `quantile` shows of the cells."""
    at: int = field(default=0, compare=False, repr=False)
    """Its position in the statement's text."""
    values: int | None = None
    """How many values there are, if it is the number of those that units have; else None."""


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitions of a statement, of which all figures are public."""

    number: int
    size: int | None
    """The number of groups in the largest partition; None if the other keys have no domain."""
    fact: bool
    """Whether all rows of a unit are in one partition, since its keys are facts of the unit."""
    per_unit: int
    """In at most how many partitions the compiled query counts a unit."""
    listed: pa.Table | None = field(default=None, repr=False, compare=False)
    """The values of their keys, a column for each; None where all groups are declared, and counted."""

    @property
    def bounded(self) -> bool:
        """Whether the compiled query keeps a unit's rows in a given number of partitions only."""
        return not self.fact and self.per_unit < self.number

    def find_charge(self, epsilon: Fraction, one: Charge) -> Charge:
        """Return what the selections in all partitions cost together for an epsilon, by the cost of each."""
        return Charge(epsilon, self.per_unit * one.delta) if one.epsilon else Charge()


@dataclass(frozen=True, slots=True)
class ValuesOfGroup:
    """The declared values of what COUNT(DISTINCT ..) is of: the compiled query has a group for each of them.

    They are its last key. So it has `size` groups for each group of the statement, and counts their units.
    """

    text: str
    """The argument as the statement writes it."""
    size: int


@dataclass(frozen=True, slots=True)
class BoundSearch:
    """A bound to be found privately, and the query of the scores of its rungs (`kernel.tree.scores`)."""

    ladder: Ladder
    compiled: CompiledQuery


@dataclass(frozen=True, slots=True)
class Plan:
    """An analysed private statement: the counting query, the selection, and the output columns."""

    query: Query
    compiled: CompiledQuery
    selection: Selection
    options: Options
    """The options, completed with the defaults of the policy and the connection."""
    outputs: tuple[Output, ...]
    counts: tuple[ReleasedAggregate, ...]
    key_types: tuple[SqlType, ...]
    domain_size: int | None
    """The number of groups in the domain, with that of `outside`; None if a key has no domain: then only the
    largest are counted."""
    domain: str
    """The origin of the domain, in words, for EXPLAIN."""
    owner: Owner
    unit: str
    """The name of the privacy unit, for messages."""
    units_at_least: int | None
    """Public lower bound on the units of every private table that is read and has one; None: none has."""
    groups_per_unit: int | None
    """In at most how many groups the compiled query counts a unit; None: that has no bound."""
    groups_kept: int | None = None
    """That number, if the query keeps a unit's rows in so many groups only; None: it keeps all."""
    assumed: tuple[Assumed, ...] = ()
    """What the statement leaves open and is answered with."""
    one_group: bool = False
    """Whether a unit is in one group without any bound, since the keys are facts of it (`row_conditions`)."""
    partitions: Partitions | None = None
    """The partitions of a `TopPerPartition`; None for other selections."""
    ladders: tuple[BoundSearch, ...] = ()
    """The bounds that are found privately before the counts."""
    existence: int | None = None
    """The place of the number of units that decides which groups of undeclared keys are shown; None: none."""
    selected: bool = False
    """Whether SQL over the released rows shows some of them because of their noise: see
    `composition.selected`. The numbers that are released do not depend on it."""
    apart: int = 1
    """How many sets of numbers are measured apart: what intervals of all at once may miss is divided among
    them."""
    filters: tuple[Filter, ...] = ()
    """What the policy's scope and those of the analyst admit; none: epsilon itself is divided."""
    outside: bool = field(default=False, kw_only=True)
    """Whether the last group is that of the rows in no other group, which is shown beside the rows."""
    nobodys: tuple[str, ...] = field(default=(), kw_only=True)
    """The rows that have no unit, in words, of the tables that may have such: they are never counted."""
    null_group: bool = field(default=False, kw_only=True)
    """Whether NULL is a candidate of a key."""
    values: ValuesOfGroup | None = field(default=None, kw_only=True)
    """The values of which those that units have are counted; `domain_size` has a group for each then."""
    left_out: tuple[LeftOut | None, ...] = field(kw_only=True)
    """For each of the counts, what its bound leaves out, as far as a kept ladder knows it."""
    groups_left_out: LeftOut | None = field(default=None, kw_only=True)
    """The bound of a kept ladder on the groups of undeclared keys: how much it cuts is not known."""
    cut_values: tuple[CutValues | None, ...] = field(default=(), kw_only=True)
    """For each of the counts, what bounds cut from the values of which it is."""
    constant_cuts: tuple[ConstantCut, ...] = field(default=(), kw_only=True)
    """The constants that may cut what a unit has, of which nobody knows what they leave out."""
    equal: tuple[int, ...] = field(kw_only=True)
    """For each of the counts, the place of the first that is equal to it: equal ones are released once."""
    clear: bool = field(default=False, kw_only=True)
    """Whether those groups alone are shown of which a count is above 0 for sure (`analysis.count_keys`)."""
    closed: bool = field(default=False, kw_only=True)
    """Whether it reads parts of units alone that count as closed."""
    addable: AddableNumbers | None = field(default=None, kw_only=True, compare=False, repr=False)
    """What its numbers are sums over; None: they do not add up with those of other statements."""

    @property
    def cells(self) -> CellRows | None:
        """The cells whose rows are counted, if the plan releases quantiles; then it has no other numbers."""
        return find_cells(self.counts)

    def l1_over_groups(self, place: int) -> int | None:
        """Return the most by which one unit can change a count in all groups together; None: no bound."""
        count = self.counts[place]
        total = count.l1_over_groups
        found = [] if total is None else [total]
        groups = [m for m in (self.groups_per_unit, self.domain_size) if m is not None]
        if groups:
            found.append(min(groups) * count.bound)
        return min(found, default=None)

    def is_count(self, output: Output) -> bool:
        """Return whether a column is a count, neither a sum of values nor a difference."""
        if isinstance(output.formula, RowCount):
            return True
        count = self.counts[output.of] if output.kind == "count" and output.formula is None else None
        return count is not None and count.argument is None and len(count.parts) == 1

    def step(self, output: Output) -> Fraction:
        """Return the number of which the exact values of a column are multiples; 0 if there is none."""
        if output.kind != "count":
            return Fraction(0)
        match output.formula:
            case None:
                # A number of rows is whole, though the weighted one that is released is not.
                count = self.counts[output.of]
                return Fraction(1) if count.argument is None else find_value_step(count)
            case RowCount():
                return Fraction(1)
            case SumOfRows(low=low, high=high):
                of_low, each = low, (high - low) * self.counts[output.uses[0]].step
                parts = lcm(of_low.denominator, each.denominator)
                return Fraction(gcd(int(of_low * parts), int(each * parts)), parts)
        return Fraction(0)

    @property
    def wide(self) -> bool:
        """Whether the intervals that are shown hold for all numbers at once, since noise selects numbers."""
        return self.selected and self.options.intervals != "SINGLE"

    @property
    def sparse(self) -> bool:
        """Whether only the groups with rows are counted, since the domain has too many others."""
        return self.compiled.sparse is not None

    @property
    def groups(self) -> int:
        """How many groups the public domain of the statement has."""
        if self.domain_size is None:
            raise InternalError("these keys have no public domain")
        return self.domain_size

    @property
    def candidates(self) -> int | None:
        """The number of groups that are shown, or compared; None if that depends on noise, or on the keys."""
        if self.clear:
            return None
        each = 1 if self.values is None else self.values.size
        return None if self.domain_size is None else (self.domain_size - self.outside) // each

    @property
    def unit_parts(self) -> PartSet | None:
        """The parts of units on which any of its queries depends, as the kernel proved; None: all."""
        found: PartSet | None = NO_PARTS
        for each in (self.compiled, *(search.compiled for search in self.ladders)):
            found = either_parts(found, each.certificate.parts)
        return found

    @property
    def epsilon(self) -> Fraction:
        """The epsilon of the whole statement, which its shares add up to."""
        if self.options.epsilon is None:
            raise InternalError("a plan has an epsilon")
        return self.options.epsilon

    @property
    def price(self) -> Fraction:
        """The epsilon by which the plan is priced: its own, or its part of the whole statement's."""
        return self.epsilon if self.options.price is None else self.options.price

    @property
    def epsilon_division(self) -> EpsilonDivision:
        """The way in which the statement's epsilon is divided: itself, or its cost at the policy's order.

        Raises `ValueError` if the statement asks for costs to be divided and a scope has no limit of them.
        """
        accounting = requested_accounting(self.options)
        if not self.filters:
            if accounting == "order":
                raise ValueError("the policy's budget has no limit of costs")
            return EpsilonDivision(self.epsilon)
        return divide_epsilon(self.epsilon, *self.filters, accounting=accounting)

    def with_share(self, share: Fraction, **options: object) -> Plan:
        """Return the plan of a part of the statement that gets this share of the divided amount."""
        layout = self.epsilon_division
        made = replace(
            self.options,
            epsilon=layout.epsilon_of(share),
            layout="BASIC" if layout.order is None else "ORDER",
            **options,  # type: ignore[arg-type]  # of any field
        )
        return replace(self, options=made if self.filters else replace(made, layout=self.options.layout))


_DECLARED = (Keys.ONE, Keys.DECLARED)


def check_claims(plan: Plan) -> None:
    """Raise `NotCertified` if a claim of a plan is lower than what is certified of its queries."""
    _raise_claims(find_lower_claims(plan, plan.compiled.certificate))
    for search in plan.ladders:
        ladder = search.ladder
        check_search(search.compiled.certificate, ladder.bounds, ladder.fine)


def check_search(certificate: Certificate, bounds: Sequence[int], fine: int | None = None) -> None:
    """Raise `NotCertified` if what is claimed of a search is lower than what is certified of its query."""
    _raise_claims(find_lower_claims_of_search(certificate, bounds, fine))


def check_numbers(certificate: Certificate, most: int) -> None:
    """Raise `NotCertified` unless a query has one group and a unit adds at most `most` to each number."""
    claims = [] if certificate.keys is Keys.ONE else [f"the groups are {certificate.keys.value}, claimed one"]
    _raise_claims(claims + [text for each in certificate.numbers for text in _compare(each, 0, most)])


def check_together(certificate: Certificate, most: int) -> None:
    """Raise `NotCertified` unless a unit changes all numbers of a group by at most `most` in total."""
    names = {change.column for change in certificate.numbers}
    if not any(each.columns >= names and each.each <= most for each in certificate.together):
        raise NotCertified("the numbers of a measure together")


def _raise_claims(claims: Iterable[str]) -> None:
    found = [*claims]
    if found:
        raise NotCertified("; ".join(found))


def _compare(change: Change, low: int, high: int) -> Iterator[str]:
    if change.low < low or change.high > high:
        yield f"{change.column} changes by {change.low} to {change.high}, claimed {low} to {high}"


def find_lower_claims_of_search(
    certificate: Certificate, bounds: Sequence[int], fine: int | None
) -> Iterator[str]:
    """Yield what is claimed of the cells of a search (`kernel.mechanisms.RungBins`) and is not certified.

    A unit is in one cell, of those that exceed so many of the same bounds. To the score there it adds at most
    `FULL`, and to the other sums what follows from the bounds (`kernel.tree.Scores`).
    """
    if certificate.most_groups != 1 or certificate.keys is not Keys.CELLS:
        yield f"one unit changes {certificate.most_groups} cells, claimed 1"
    if certificate.bounds != tuple(bounds) or certificate.fine not in (None, fine):
        yield f"{len(certificate.bounds)} bounds are searched, claimed {len(bounds)}"
    numbers = {change.column: change for change in certificate.numbers}
    for name, most in (("n1", 1), ("n2", FULL), ("n5", 1)):
        if name in numbers:
            yield from _compare(numbers[name], 0, most)


def find_lower_claims(plan: Plan, certificate: Certificate) -> Iterator[str]:
    """Yield what a plan claims of its numbers and groups and is not certified."""
    offset = int(plan.compiled.cells)
    for place, count in enumerate(plan.counts):
        name = f"n{place + offset}"
        change = certificate.number(name)
        if change is None:
            yield f"{name} is not certified"
            continue
        high = 1 if place == plan.existence else count.bound
        yield from _compare(change, 0 if count.monotone else -count.bound, high)
        total, certified = plan.l1_over_groups(place), _find_certified_total(plan, certificate, change)
        if total is not None and (certified is None or certified > total):
            yield f"{name} changes by {certified} in all groups, claimed {total}"
    yield from _find_lower_claims_of_moments(plan, certificate)
    yield from _find_lower_claims_of_groups(plan, certificate)


def _find_lower_claims_of_moments(plan: Plan, certificate: Certificate) -> Iterator[str]:
    """Yield what a plan claims of all numbers with one noise together and is not certified."""
    shares: dict[object, dict[int, str]] = {}
    for place, count in enumerate(plan.counts):
        if count.noise_group is not None and plan.equal[place] == place:
            shares.setdefault(count.noise_group, {})[place] = f"n{place + int(plan.compiled.cells)}"
    for numbers in shares.values():
        place, names = min(numbers), ", ".join(numbers.values())
        if len(numbers) == 1:
            continue
        found = next((each for each in certificate.together if each.columns >= {*numbers.values()}), None)
        if found is None or found.each > plan.counts[place].bound:
            each = "any amount" if found is None else found.each
            yield f"{names} change by {each} together in a group, claimed {plan.counts[place].bound}"
            continue
        total = plan.l1_over_groups(place)
        certified = _find_certified_total(plan, certificate, Change(names, 0, found.each, found.total))
        if total is not None and (certified is None or certified > total):
            yield f"{names} change by {certified} together in all groups, claimed {total}"


def _find_lower_claims_of_groups(plan: Plan, certificate: Certificate) -> Iterator[str]:
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


def _find_certified_total(plan: Plan, certificate: Certificate, change: Change) -> int | None:
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
