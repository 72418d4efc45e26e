"""Domains of many groups: one noise for all of their counts; those of which only groups with rows count.

A domain is the product of the candidates of its keys. A group is named by its position: the number whose
digits are the places of its keys in their candidates, the last ones the least significant. So the counting
query needs no row for an empty group, and the keys of any group follow from its position. A range of integers
is not even listed: the place of a value is its distance from the first one.

The counting query depends on that choice: it counts a unit in all of its groups, or in some of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import field
from fractions import Fraction
from math import prod

from dpsql.analysis.counting_query import CountingQuery, ProjectedRows
from dpsql.analysis.public_domains import Candidates, read_range
from dpsql.analysis.released.released_numbers import ReleasedAggregate
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.typed_expression import KeyDomain
from dpsql.estimates import split_measuring
from dpsql.estimates.box_law import box_variance, cube_variance, own_variance
from dpsql.kernel.mechanisms.measure import pads
from dpsql.kernel.tree import (
    Call,
    Column,
    Derived,
    Expr,
    Item,
    Numbered,
    OfDomain,
    OrderTerm,
    Query,
    Select,
    Window,
    items,
)
from dpsql.language import AboveThreshold, AllGroups, Options, Selection, TopK
from dpsql.lazy_dataclass import dataclass
from dpsql.types import SqlType

MAX_SPARSE = 10**12
"""The most groups of a domain of which only those that are not empty are counted."""


@dataclass(frozen=True, slots=True)
class DomainPart:
    """The candidates of some keys: a list with a number for each, or a range of integers."""

    keys: tuple[int, ...]
    """The places of the keys in GROUP BY."""
    types: tuple[SqlType, ...]
    size: int
    first: int
    """The number of the first candidate; those of the others follow without a gap."""
    query: Query | None
    """The candidates in columns `v0`, .., with their numbers in `p`; None: the keys are the numbers."""
    descending: bool = False
    """Whether the last candidate has the first place."""
    null: int | None = None
    """The number of NULL where the keys are the numbers; None: NULL is none of them, or is in the query."""
    nullable: bool = False
    """Whether NULL may be in the query."""

    @property
    def numbered(self) -> Numbered:
        """The candidates of the part as a node of the kernel's tree."""
        first = self.first + (self.null == self.first)
        ends = first, first + self.size - 1 - (self.null is not None)
        return Numbered(self.keys, self.query, self.nullable, ends, self.null)


@dataclass(frozen=True, slots=True)
class SparseDomain:
    """A product of candidates; the counting query has the numbers of part i in column `o{i}`.

    The first parts are the most significant, so that positions are a public order of the groups.
    """

    parts: tuple[DomainPart, ...]

    @property
    def size(self) -> int:
        """The number of groups in the domain, counted or not."""
        return prod(part.size for part in self.parts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that hold the number of a group's candidate in each part."""
        return tuple(f"o{i}" for i in range(len(self.parts)))


def count_values(catalog: Catalog, domain: KeyDomain) -> int:
    """Return the number of values of a domain, NULL among them."""
    every = read_range(domain.query)
    return catalog.count(domain.sql) if every is None else every.stop - every.start + domain.null


def count_groups(catalog: Catalog, domains: Sequence[Candidates]) -> int:
    """Return how many groups the candidates of all keys make: the product of their numbers."""
    return math.prod(count_values(catalog, each.domain) for each in domains)


def is_selection_of_few(selection: Selection) -> bool:
    """Return whether a selection shows so few groups that the empty ones need not be counted."""
    return isinstance(selection, TopK) or (
        isinstance(selection, AboveThreshold) and selection.limit is not None
    )


def number_domain(
    catalog: Catalog,
    domains: Sequence[Candidates],
    types: Sequence[SqlType],
    order: Sequence[tuple[int, bool]],
) -> SparseDomain | None:
    """Return the domain of keys of these types, numbered; None if no numbers have the order of some keys.

    `order` has the places of the keys that order the groups by their values, and whether descending. Keys
    behind them have the order of their domain, or of their values if it has none.
    """
    of = {each.keys: each for each in domains}
    by = dict(reversed(order))  # a key that comes again orders no more
    if any((key,) not in of for key in by):
        return None
    first = [key for key, _ in dict.fromkeys((key, by[key]) for key, _ in order)]
    parts = [_number_part(catalog, of[key,], types, by_value=True, descending=by[key]) for key in first]
    parts += [_number_part(catalog, each, types) for each in domains if not set(each.keys) & set(first)]
    return SparseDomain(tuple(parts))


def _number_part(
    catalog: Catalog,
    each: Candidates,
    kinds: Sequence[SqlType],
    *,
    by_value: bool = False,
    descending: bool = False,
) -> DomainPart:
    types, query = tuple(kinds[key] for key in each.keys), each.domain.query
    every = read_range(query)
    if every is not None:
        size = every.stop - every.start
        if not each.domain.null:
            return DomainPart(each.keys, types, size, every.start, None, descending)
        # NULL is the last, in either direction.
        null = every.start - 1 if descending else every.stop
        return DomainPart(each.keys, types, size + 1, min(null, every.start), None, descending, null)
    size, values = catalog.count(each.domain.sql), [*each.listed.columns("d").values()]
    number: Expr = Column("d", "o")
    if by_value and descending:
        terms = tuple(OrderTerm(e, "DESC", "LAST") for e in values)
        listed = (*items("v", values), Item(Window(Call("ROW_NUMBER", ()), order=terms), "p"))
        made = Select(listed, Derived(query, "d"))
        return DomainPart(each.keys, types, size, 1, made, nullable=each.domain.null)
    ordered = each.domain.ordered and not by_value
    first: int | None = None
    if ordered and not each.domain.null:  # the place of NULL is none of those that follow without a gap
        first = _find_first(catalog, each.domain.sql, size)
    if first is None:
        order = tuple(OrderTerm(e) for e in ([number] if ordered else values))
        number, first = Window(Call("ROW_NUMBER", ()), order=order), 1
    listed = (*items("v", values), Item(number, "p"))
    made = Select(listed, Derived(query, "d"))
    return DomainPart(each.keys, types, size, first, made, descending, nullable=each.domain.null)


def _find_first(catalog: Catalog, sql: str, size: int) -> int | None:
    """Return the least number of an ordered domain if its numbers have no gap."""
    ends = [catalog.evaluate(f"(SELECT {end}(o) FROM ({sql}) AS d)") for end in ("MIN", "MAX")]
    if not all(isinstance(end, int) for end in ends):
        return None
    first, last = (int(str(end)) for end in ends)
    return first if last - first + 1 == size else None


def count_sparse_groups(rows: ProjectedRows, domain: SparseDomain) -> CountingQuery:
    """Count the groups of the domain that have rows; each row has the numbers of its keys' candidates."""
    parts = tuple(part.numbered for part in domain.parts)
    return CountingQuery(OfDomain(rows.count_by_group(), len(rows.released), parts))


_SEEN = 0.25
"""The least standard deviation of noise that matters, in counts."""


@dataclass(frozen=True, slots=True)
class CommonNoise:
    """Counts that one draw of noise measures, and the differences of two of them, which are free."""

    measured: tuple[int, ...]
    """Places among the counts of the plan."""
    monotone: bool
    """Whether a unit moves all measured counts in one direction: box noise, else cube noise."""
    stddevs: tuple[float, ...]
    """Of each count that is asked for, at epsilon 1."""
    differences: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The place of a difference -> the places of the measured counts that it is of."""


def choose_common_noise(
    counts: Sequence[ReleasedAggregate], wanted: Iterable[int], groups: int
) -> CommonNoise:
    """Return how box or cube noise measures some counts of all groups, the one with less noise.

    Cube noise measures differences of counts as they are. If their operands are counts of the plan, too, box
    noise measures those, and the difference of two noisy counts is free. An operand that the plan does not
    have is not counted.
    """
    places = tuple(wanted)
    size = len(places) * groups
    bounds = [counts[p].bound for p in places]
    if all(counts[p].monotone for p in places):
        return CommonNoise(places, True, _scale_stddevs(bounds, box_variance(size, pads(size))))
    cube = CommonNoise(places, False, _scale_stddevs(bounds, cube_variance(size)))
    operands = {p: _find_operands(counts, p) for p in places if not counts[p].monotone}
    if not all(operands.values()):
        return cube
    differences = {p: (pair[0], pair[1]) for p, pair in operands.items()}
    of = {counts[p]: p for p in places if p not in differences}
    for pair in differences.values():
        for p in pair:
            of.setdefault(counts[p], p)
    differences = {p: (of[counts[a]], of[counts[b]]) for p, (a, b) in differences.items()}
    size = len(of) * groups
    own, apart = box_variance(size, pads(size)), 2 * own_variance(size + pads(size))
    free = [counts[p].bound * math.sqrt(apart if p in differences else own) for p in places]
    box = CommonNoise(tuple(of.values()), True, tuple(free), differences)
    return min(box, cube, key=lambda way: max(way.stddevs))


def _scale_stddevs(bounds: Iterable[int], variance: float) -> tuple[float, ...]:
    return tuple(c * math.sqrt(variance) for c in bounds)


def _find_operands(counts: Sequence[ReleasedAggregate], place: int) -> tuple[int, ...]:
    """Return the places of both counts of a difference; none unless the plan has both, with one bound."""
    found = [
        i
        for part in counts[place].parts
        for i in [next((i for i, c in enumerate(counts) if c.parts == (part,)), None)]
        if i is not None
    ]
    same = len({counts[i].bound for i in found}) == 1
    return tuple(found) if len(found) == len(counts[place].parts) == 2 and same else ()


def is_selection_of_all(selection: Selection) -> bool:
    """Return whether a selection shows all groups, or all that reach a threshold."""
    above = isinstance(selection, AboveThreshold) and selection.limit is None
    return above or isinstance(selection, AllGroups)


def choose_groups_kept(
    selection: Selection,
    options: Options,
    counts: Sequence[ReleasedAggregate],
    groups: int | None,
    most: int | None,
) -> int | None:
    """Return in how many groups a unit is counted so that Laplace noise suffices; None: in all of its groups.

    `most` is the bound on them that the statement or the policy gives. AUTO takes it where that gives less
    noise, by public figures alone.
    """
    if not is_selection_of_all(selection) or groups is None or not counts or most is None or most >= groups:
        return None
    if all(count.l1_over_groups is not None for count in counts):
        return None
    if options.base_hits is not None or options.threshold_share is not None:
        return None
    asked = options.mechanism or "AUTO"
    if asked != "AUTO" or options.intervals == "SIMULTANEOUS":
        return most if asked == "LAPLACE" else None
    distinct = {count: place for place, count in enumerate(counts)}
    totals = [min(t for t in (most * c.bound, c.l1_over_groups) if t is not None) for c in distinct]
    return most if is_laplace_less(counts, list(distinct.values()), totals, groups) else None


def is_noise_seen(counts: Sequence[ReleasedAggregate], options: Options, groups: int | None) -> bool:
    """Return whether Laplace noise for units in a number of groups is large enough to show in a count.

    Below a quarter of a count a smaller bound on the groups would make answers worse, never better. Half of
    epsilon may go elsewhere.
    """
    if groups is None or options.epsilon is None or options.mechanism not in (None, "AUTO"):
        return True
    totals = [
        groups * c.bound if c.l1_over_groups is None else min(groups * c.bound, c.l1_over_groups)
        for c in counts
    ]
    # The noise of a sum is compared with what one unit may add to it.
    parts = [
        Fraction(t, c.bound) if c.noise_group is not None else t * c.step
        for t, c in zip(totals, counts, strict=True)
    ]
    return math.sqrt(2) * float(sum(parts)) > float(options.epsilon) / 2 * _SEEN


def is_laplace_less(
    counts: Sequence[ReleasedAggregate], places: Sequence[int], totals: Sequence[int], groups: int
) -> bool:
    """Return whether Laplace noise on each count has no more noise than one noise for all of them.

    `totals` are the most by which one unit changes each count in all groups together. Compared are the
    geometric means of the standard deviations of a group's counts.
    """
    one = choose_common_noise(counts, places, groups)
    return _geometric_mean(_laplace_stddevs(totals)) <= _geometric_mean(one.stddevs) * (1 + 1e-9)


def divide_by_noise(
    counts: Sequence[ReleasedAggregate], places: Sequence[int], totals: Sequence[int], groups: int
) -> list[list[int]]:
    """Return the counts that are measured together: all, or by the noise that suits each, box or Laplace.

    A box has the same noise in each group for what a unit changes in all of them; Laplace noise is less for
    what it changes by a bounded sum. `totals` are as in `is_laplace_less`. Each of two parts has half of
    epsilon.
    """
    whole = [list(places)]
    moves = dict(zip(places, totals, strict=True))
    if groups == 1 or not all(counts[p].monotone for p in places):
        return whole
    each = [p for p, total in moves.items() if is_laplace_less(counts, [p], [total], groups)]
    boxed = [p for p in places if p not in each]
    if not each or not boxed:
        return whole
    apart = [*choose_common_noise(counts, boxed, groups).stddevs, *_laplace_stddevs([moves[p] for p in each])]
    together = (choose_common_noise(counts, places, groups).stddevs, _laplace_stddevs(totals))
    return [boxed, each] if 2 * _geometric_mean(apart) < min(map(_geometric_mean, together)) else whole


def _laplace_stddevs(totals: Sequence[int]) -> tuple[float, ...]:
    """Return the standard deviations at epsilon 1 of counts that a unit moves by so much in all groups."""
    shares = split_measuring(Fraction(1), totals)
    return tuple(math.sqrt(2) * total / share for total, share in zip(totals, shares, strict=True))


def _geometric_mean(stddevs: Iterable[float]) -> float:
    logs = [math.log(float(each)) for each in stddevs]
    return math.exp(sum(logs) / len(logs))
