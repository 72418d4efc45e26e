"""Counts: of units, or of rows if each unit has a bounded number of them in a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.bound_ladders import ROWS, Contribution, Ladder
from dpsql.analysis.casts import make_canonical
from dpsql.analysis.compiled_relation import From
from dpsql.analysis.compiler import check_arguments, function_name, read_whole_number, split_arguments
from dpsql.analysis.grids import parts_of_step
from dpsql.analysis.released import (
    HIGHEST_ROWS,
    bound_rows,
    bound_values,
    find_unit_column,
    is_auto,
    make_rows_ladder,
    name_unit,
    write_argument,
    write_bound,
)
from dpsql.analysis.released.few_groups import GROUPS, CountedKeys, compile_few_groups
from dpsql.analysis.released.first_rows import FIRST, SumOfFirst, compile_first_rows
from dpsql.analysis.released.released_numbers import AggregateCall, ReleasedAggregate, UnitNumber
from dpsql.analysis.total_forms import widen_integer
from dpsql.analysis.typed_expression import UNSTORABLE, Typed, UnitRole
from dpsql.errors import Fix, with_article
from dpsql.kernel import tree
from dpsql.kernel.tree import Call, Counted, Expr, FewUnits, IsNull, KeptValues, Paren, conjunction, kept
from dpsql.kernel.tree.exact import whole
from dpsql.language import Options, Selection, TopPerPartition
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import MOST_ROWS, Assumed, fold
from dpsql.types import BOOLEAN, NULL

GUESS = 20
"""The bound that a rewrite proposes."""
_BOUND = "contribution_bounds_per_group"
_BOUNDED = f"COUNT(*, {_BOUND} => (0, {GUESS}))"


@dataclass(frozen=True, slots=True, eq=False)
class Units(UnitNumber):
    """The number of units with a row in the group; `row` is empty or the condition on the rows."""

    @property
    def unit_change(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the number."""
        return 0, 1

    def build_counted(self, *row: Expr) -> Counted:
        """Return what the counting query counts, of the columns of a row."""
        return tree.Units(row, False)


@dataclass(frozen=True, slots=True, eq=False)
class SingleRows(Units):
    """The number of rows, of which each unit has at most one in a group: the same, without DISTINCT."""

    def build_counted(self, *row: Expr) -> Counted:
        """Return what the counting query counts, of the columns of a row."""
        return tree.Units(row, True)


@dataclass(frozen=True, slots=True, eq=False)
class BoundedRows(Units):
    """The number of rows, of which at most `most` are counted for each unit and group."""

    most: int

    @property
    def unit_change(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the number."""
        return 0, self.most

    def build_counted(self, *row: Expr) -> Counted:
        """Return what the counting query counts, of the columns of a row."""
        return tree.CappedRows(row, self.most, False)


@dataclass(frozen=True, slots=True, eq=False)
class OwnedValues(BoundedRows):
    """The number of different values, each of one unit; `most` of a unit and group are counted.

    A unit adds the number of its own values, cut at `most`. That also holds if, against what the policy
    declares, two units have one value: it is then counted for each of them.
    """

    def build_counted(self, *row: Expr) -> Counted:
        """Return what the counting query counts, of the columns of a row."""
        return tree.CappedRows(row, self.most, True)


@dataclass(frozen=True, slots=True)
class EachValue:
    """The argument of COUNT(DISTINCT ..) where the units that have each of its values are counted instead."""

    value: Typed
    chosen: tuple[Expr, ...]
    """The condition on the rows, if there is one."""
    text: str
    """The argument as the statement writes it."""

    def units(self, *, single: bool) -> Units:
        """Return the number of units with the value of a group: NULL is no value."""
        there: Expr = IsNull(self.value.guarded_node, negated=True)
        found = conjunction([*self.chosen, Paren(there)])
        return (SingleRows if single else Units)(() if found is None else (found,))


@dataclass(frozen=True, slots=True, eq=False)
class DistinctValues(UnitNumber):
    """The number of different values in a group, of which each unit keeps at most `most`.

    It is the size of a union of sets, of which a unit owns one. Which values a unit keeps depends on its own
    rows alone, so the sets of other units stay what they are when a unit is added. The union then grows by
    at most the size of the added set, and never shrinks. Choosing values by how rare they are among all
    units would not do: an added unit would change what the others keep.
    """

    most: int
    kept: bool = True
    """Whether the values of a unit are cut; else each unit has at most one row in a group."""
    declared: int | None = None
    """How many values are declared, which the released number does not exceed; None: nobody says it."""
    each: EachValue | None = None
    """What the units of each value are counted by. There is no bound on a unit then, and this number itself
    is not released."""

    @property
    def unit_change(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the number."""
        return 0, self.most

    def build_counted(self, *row: Expr) -> Counted:
        """Return what the counting query counts, of the columns of a row."""
        return KeptValues(row, self.most, self.kept)


@dataclass(frozen=True, slots=True, eq=False)
class WeightedRows(BoundedRows):
    """The number of rows, of which at most `most` are counted for each unit in all groups together.

    Rows beyond are weighted down, not dropped: a unit with r rows in a group and a > C rows in all, C being
    `most`, counts C r/a there on average, in whole numbers. In parts of a row, `fine` of which are one, each
    of its rows counts C/a, rounded towards zero: it is the `RowSum` of 1, with the same bound.
    """

    fine: int = 1

    @property
    def step(self) -> Fraction:
        """The size of one step of the number, in rows."""
        return Fraction(1, self.fine)

    @property
    def unit_change(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the number."""
        return 0, self.most * self.fine

    @property
    def l1_over_groups(self) -> int | None:
        """The most by which adding a unit can change the numbers of all groups together."""
        return self.most * self.fine

    @property
    def fields(self) -> tuple[Expr, ...]:
        """The condition on the rows; what a row adds if it counts by its share."""
        return self.row if self.fine == 1 else (kept(whole(1), self.row),)

    def build_counted(self, *row: Expr) -> Counted:
        """Return what the counting query counts, of the columns of `fields`."""
        if self.fine == 1:
            return tree.WeightedRows(row, self.most)
        return tree.RowSum(row, self.most, self.fine, False)


_MOST_PARTS = 1 << 24
"""In how many parts a row is divided at most: then 2^36 rows of a group fit into 2^60."""


def weigh_by_shares(
    counts: Sequence[ReleasedAggregate], selection: Selection, options: Options
) -> list[ReleasedAggregate]:
    """Return the numbers of declared groups, with counts of rows to which each row adds its share.

    They stay as they are if a count is of anything else, or has another bound: counts are measured together,
    in equal steps; and if a count is compared with a threshold, or has whole noise. A row counts for less
    than a part too little, one of 2^24 or of 2^32/C.
    """
    best = selection.best if isinstance(selection, TopPerPartition) else selection
    if getattr(best, "threshold", None) is not None or options.noise == "GEOMETRIC":
        return [*counts]
    parts = [part for count in counts if count.noise_group is None for part in count.parts]
    bounds = {part.most for part in parts if isinstance(part, WeightedRows)}
    if len(bounds) != 1 or not all(isinstance(part, WeightedRows) for part in parts):
        return [*counts]
    fine = min(parts_of_step(*bounds), _MOST_PARTS)

    def share(part: UnitNumber) -> UnitNumber:
        return replace(part, fine=fine) if isinstance(part, WeightedRows) else part

    return [replace(count, parts=tuple(map(share, count.parts))) for count in counts]


@dataclass(frozen=True, slots=True, eq=False)
class UnitsOfFew(Units):
    """The number of units with a row in the group, each counted in `most` groups, chosen by a hash."""

    most: int

    @property
    def l1_over_groups(self) -> int | None:
        """The most by which adding a unit can change the numbers of all groups together."""
        return self.most

    def build_counted(self, *row: Expr) -> Counted:
        """Return what the counting query counts, of the columns of a row."""
        return FewUnits(row, False, self.most)


def compile_count_if(call: AggregateCall) -> UnitNumber:
    """Compile a call of COUNT_IF to a count of the rows that satisfy its condition."""
    bound, arguments = _read_bound(call)
    if len(arguments) != 1:
        raise call.refuse("COUNT_IF takes one condition", call.node)
    call.where(arguments[0])
    return _count_rows(call, bound)


def compile_count(call: AggregateCall) -> UnitNumber:
    """Compile COUNT(*), of rows or of their groups, COUNT(x), COUNT(DISTINCT unit) or COUNT(DISTINCT x)."""
    groups = call.node.meta.get(GROUPS)
    if isinstance(groups, CountedKeys):
        return compile_few_groups(call, groups)
    if isinstance(first := call.node.meta.get(FIRST), SumOfFirst):
        return compile_first_rows(call, first)
    bound, arguments = _read_bound(call)
    if arguments and isinstance(arguments[0], exp.Distinct):
        distinct = arguments[0]
        check_arguments(call.compiler.source, distinct, frozenset({"expressions"}))
        if len(arguments) != 1 or len(distinct.expressions) != 1:
            raise call.refuse("COUNT(DISTINCT ...) takes one expression", call.node)
        return _count_units(call, distinct.expressions[0]) or _count_values(
            call, distinct.expressions[0], bound
        )
    if len(arguments) > 1:
        raise call.refuse("COUNT takes one argument", call.node)
    if arguments and not isinstance(arguments[0], exp.Star):
        counted = call.expression(arguments[0])
        if counted.type == NULL:
            call.compiler.assume(Assumed("COUNT(NULL) counts no row: COUNT(*) counts all"))
        if counted.type == BOOLEAN:
            call.compiler.assume(
                Assumed("COUNT(condition) counts rows where it is FALSE, too: COUNT_IF does not")
            )
        # Of a whole table, a column that is never NULL is in every row; texts may be too long to be read.
        every = counted.is_column and not counted.nulls and counted.type.name not in ("VARCHAR", "BLOB")
        if not every or call.compiler.whole is None:
            there = IsNull(widen_integer(counted).guarded_node, negated=True)
            call.conditions.append(Paren(there))
    return _count_rows(call, bound)


def compile_approx_count_distinct(call: AggregateCall) -> UnitNumber:
    """Compile APPROX_COUNT_DISTINCT, whose answer is noisy anyway, as COUNT(DISTINCT ...)."""
    bound, arguments = _read_bound(call)
    if len(arguments) != 1 or isinstance(arguments[0], (exp.Distinct, exp.Star)):
        raise call.refuse("APPROX_COUNT_DISTINCT takes one expression", call.node)
    return _count_units(call, arguments[0]) or _count_values(call, arguments[0], bound)


def _count_rows(call: AggregateCall, bound: int | None) -> UnitNumber:
    if bound == 0:
        return WeightedRows(call.condition(), call.compiler.bound(make_rows_ladder(call)))
    if bound is not None:
        return BoundedRows(call.condition(), bound)
    if call.single or call.by_row:
        return SingleRows(call.condition())
    most = call.compiler.max_rows
    if call.whole is not None and (kept := call.whole.bound(ROWS)) is not None:
        call.measure, most = ROWS, most or kept
    most = most or bound_rows(call.compiler, call.source)
    if most is None and call.compiler.policy.defaults.auto_bounds:
        most = call.compiler.bound(make_rows_ladder(call))
    if most is None:
        raise call.refuse(
            f"{with_article(name_unit(call.source))} can have many rows here: say how many may count",
            call.node,
            *_hint_rows(call),
        )
    return WeightedRows(call.condition(), most)


def _hint_rows(call: AggregateCall) -> tuple[str, Fix | None]:
    """Return the hint and the fix that bound the rows; it counts units where the statement does not yet."""
    (bounded, fix), units = _hint_bound(call), _write_unit_count(call.source)
    text = call.compiler.source.text.replace(" ", "").lower()
    if units is None or units.replace(" ", "").lower() in text:
        return bounded, fix
    return f"{bounded}, or {units} for units", fix


def _read_bound(call: AggregateCall) -> tuple[int | None, list[exp.Expr]]:
    """Return the c of contribution_bounds_per_group => (0, c), or None, and the other arguments.

    It is 0 where the bound is to be found privately.
    """
    named, arguments = split_arguments(call.node)
    if not named:
        return None, arguments
    if is_auto(named) and not call.by_row and call.compiler.policy.defaults.auto_bounds:
        return 0, arguments
    pair = named[0].expression
    values = pair.expressions if isinstance(pair, exp.Tuple) else []
    bounds = [number for v in values if (number := read_whole_number(v)) is not None]
    known = named[0].name.lower() == _BOUND
    if len(named) > 1 or not known or len(bounds) != 2 or len(values) != 2 or bounds[0] != 0:
        raise call.refuse("a count's bounds are (0, c)", named[0], _BOUNDED)
    if not 1 <= bounds[1] <= MOST_ROWS:
        raise call.refuse(f"the bound must be between 1 and {MOST_ROWS:,}", named[0], _BOUNDED)
    if call.by_row:
        raise call.refuse("each row is a privacy unit: its bound is 1 already", named[0])
    return bounds[1], arguments


def _write_unit_count(source: From) -> str | None:
    """Return the call that counts units; None if the column that holds the unit is not visible."""
    found = find_unit_column(source)
    if found is None:
        return None
    alias, name = found
    merged = source.scope.merged.get(fold(name))
    if merged is not None and not merged.unit.held:
        name = f"{alias}.{name}"
    return f"COUNT(DISTINCT {name})"


def _count_units(call: AggregateCall, counted: exp.Expr) -> UnitNumber | None:
    """Compile the count of different units; None if something else is counted. A bound changes nothing."""
    condition, inner = _split_condition(counted)
    value = _read_unit(call, inner)
    if value is None:
        return None
    if condition is not None:
        call.where(condition)
    if value.unit is UnitRole.NULLABLE:
        call.conditions.append(Paren(IsNull(value.node, negated=True)))
    # If a unit has one row in a group, counting rows is the same and many times faster than DISTINCT.
    return SingleRows(call.condition()) if call.single else Units(call.condition())


def _count_values(call: AggregateCall, counted: exp.Expr, bound: int | None) -> UnitNumber:
    """Compile the count of different values of something else than the unit."""
    value = make_canonical(call.expression(counted))
    if value.type.name in UNSTORABLE:
        raise call.refuse(f"different values of type {value.type} are not counted", counted)
    node = value.guarded_node
    chosen = call.condition()
    row = kept(node, chosen)
    if value.unit is UnitRole.PERSON:  # a unit is of one person
        return DistinctValues((row,), 1, kept=not (call.single or call.by_row))
    size = None if value.domain is None else call.compiler.catalog.count(value.domain.without_null().sql)
    if size is not None and not value.link and value.is_column and value.type != BOOLEAN:
        of = f"different values of {write_argument(counted)}"
        call.compiler.assume(Assumed(of, f"at most {size:,}, those declared", "policy"))
    alone = call.single or call.by_row
    if size and bound is None and not value.link and _may_count_units(call, value):
        each = EachValue(value, chosen, write_argument(counted))
        return DistinctValues((row,), 1, kept=not alone, declared=size, each=each)
    if alone:
        return DistinctValues((row,), 1, kept=False, declared=size)
    if bound is None:
        bound = bound_values(call.compiler, call.source, declared=size)
    if bound is None and call.compiler.policy.defaults.auto_bounds:
        bound = call.compiler.bound(_make_values_ladder(row, size))
    if bound is None:
        raise call.refuse(
            f"one {name_unit(call.source)} can have many different values of this in a group",
            call.node,
            *_hint_bound(call),
        )
    return OwnedValues((row,), bound) if value.link else DistinctValues((row,), bound, declared=size)


def _make_values_ladder(row: Expr, declared: int | None) -> Ladder:
    """Return the bounds on how many different values of a unit count in a group."""
    most = 1 << HIGHEST_ROWS if declared is None else max(declared, 1)
    top = min(HIGHEST_ROWS, (most - 1).bit_length())
    ends = most <= 1 << top and declared is not None
    return Ladder(Contribution.VALUES, row, 0, Fraction(1), top, by_row=False, ends=ends)


def _may_count_units(call: AggregateCall, value: Typed) -> bool:
    """Return whether the units of each value may be counted: of values of private rows, not public ones."""
    public = any(name.split(".")[0] in call.compiler.public_items for name in value.reads)
    return call.compiler.each_value and not public


def _hint_bound(call: AggregateCall) -> tuple[str, Fix | None]:
    """Return the hint and the fix that give a count's call a bound on each unit, as an example."""
    return write_bound(call, _BOUND, f"(0, {GUESS})", str(GUESS))


def _split_condition(node: exp.Expr) -> tuple[exp.Expr | None, exp.Expr]:
    """Split CASE WHEN p THEN unit END, or IF(p, unit, NULL), into the condition p and the unit."""
    if isinstance(node, exp.Case) and node.args.get("this") is None and len(node.args["ifs"]) == 1:
        default = node.args.get("default")
        if default is None or isinstance(default, exp.Null):
            branch = node.args["ifs"][0]
            return branch.this, branch.args["true"]
    if (function_name(node) or "").lower() == "if" and len(node.expressions) in (2, 3):
        rest = node.expressions[2:]
        if not rest or isinstance(rest[0], exp.Null):
            return node.expressions[0], node.expressions[1]
    return None, node


def _read_unit(call: AggregateCall, node: exp.Expr) -> Typed | None:
    """Return the expression if it is the unit: its column, or COALESCE of both sides of a FULL JOIN."""
    node = node.unnest()
    if call.source.owner is None or call.by_row:
        return None
    if isinstance(node, exp.Column):
        value = call.source.scope.resolve(node)
        return value if value.unit.held else None
    if (function_name(node) or "").lower() == "coalesce":
        parts = [call.expression(a) for a in node.expressions]
        if all(p.unit.held for p in parts):
            merged = Call("COALESCE", tuple(p.node for p in parts))
            return Typed(merged, parts[0].type, unit=UnitRole.NULLABLE)
    return None
