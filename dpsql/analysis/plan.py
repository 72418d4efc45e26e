"""The results of the analysis: the compiled counting query, and the plan of a private statement."""

from __future__ import annotations

from dataclasses import field, replace
from fractions import Fraction
from math import gcd, lcm
from typing import TYPE_CHECKING, Literal

from dpsql.analysis.compiled_query import CompiledQuery
from dpsql.analysis.kept_bounds import CutValues, LeftOut
from dpsql.analysis.ladders import Ladder
from dpsql.analysis.relation import Owner
from dpsql.analysis.released.aggregate import ReleasedAggregate
from dpsql.analysis.released.calls import cells_of
from dpsql.analysis.released.cells import CellRows, Quantile
from dpsql.epsilon_division import Layout, Way, lay_out
from dpsql.errors import InternalError
from dpsql.estimates import Formula, RowCount, SumOfRows
from dpsql.kernel.loss import Charge, Filter
from dpsql.language import Options, Query, Selection
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Assumed
from dpsql.types import SqlType

if TYPE_CHECKING:
    import pyarrow as pa


def max_candidates(k: int, options: Options) -> int:
    """Return k-bar: of how many groups, the largest, a mechanism for keys without a declared domain selects.

    It does not depend on which mechanism AUTO chooses.
    """
    return options.candidates or (k if options.mechanism == "TOP_STABLE" else 10 * k)


_WAYS: dict[str | None, Way | None] = {None: None, "BASIC": "basic", "ORDER": "order"}


def wished_way(options: Options) -> Way | None:
    """Return the layout that options ask for, by name or by what only one of them has; None: either."""
    named = options.noise == "GAUSSIAN" or options.mechanism in BY_ORDER
    return _WAYS[options.layout or ("ORDER" if named else None)]


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
        """Whether the compiled query keeps a unit's rows in so many partitions only."""
        return not self.fact and self.per_unit < self.number

    def charged(self, epsilon: Fraction, one: Charge) -> Charge:
        """Return what a selection in every partition costs for an epsilon if each costs so much."""
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
    """Whether a unit is in one group without any bound, since the keys are facts of it (see `unit_facts`)."""
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
    equal: tuple[int, ...] = field(kw_only=True)
    """For each of the counts, the place of the first that is equal to it: equal ones are released once."""

    @property
    def cells(self) -> CellRows | None:
        """The cells whose rows are counted, if the plan releases quantiles; then it has no other numbers."""
        return cells_of(self.counts)

    def total(self, place: int) -> int | None:
        """Return the most by which one unit can change a count in all groups together; None: no bound."""
        count = self.counts[place]
        total = count.total
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
                return self.counts[output.of].step
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
        """Size of the public domain."""
        if self.domain_size is None:
            raise InternalError("these keys have no public domain")
        return self.domain_size

    @property
    def candidates(self) -> int | None:
        """The number of groups that can be shown; None if a key has no domain."""
        each = 1 if self.values is None else self.values.size
        return None if self.domain_size is None else (self.domain_size - self.outside) // each

    @property
    def epsilon(self) -> Fraction:
        """The statement's total epsilon."""
        if self.options.epsilon is None:
            raise InternalError("a plan has an epsilon")
        return self.options.epsilon

    @property
    def price(self) -> Fraction:
        """The epsilon by which its cost is known: its own, or its part of that of a statement of several."""
        return self.epsilon if self.options.price is None else self.options.price

    @property
    def layout(self) -> Layout:
        """How that epsilon is divided: itself, or its cost at the order of the policy's scope.

        Raises `ValueError` if the statement wants the order way and a scope does not have it.
        """
        way = wished_way(self.options)
        if not self.filters:
            if way == "order":
                raise ValueError("the policy's budget has no limit of costs")
            return Layout(self.epsilon)
        return lay_out(self.epsilon, *self.filters, way=way)

    def with_share(self, share: Fraction, **options: object) -> Plan:
        """Return the plan of a part of the statement that has a share of what its layout divides."""
        layout = self.layout
        made = replace(
            self.options,
            epsilon=layout.part(share),
            layout="BASIC" if layout.order is None else "ORDER",
            **options,  # type: ignore[arg-type]  # of any field
        )
        return replace(self, options=made if self.filters else replace(made, layout=self.options.layout))
