"""What one unit changes of numbers: of a group (`Weighted`), of all together (`Scores`, `Above`, `Beyond`).

*Of a group.* The claims, and why what is written keeps them, are proved in `tree.counted` and
`tree.bounding`. Here is what they assume: rows of units, of which a number reads columns alone, by the names
`u`, `k0`, .. and `f0`, ..; the ends of values; that a unit has one row where one is counted; and that units
are measured by the same rows that are counted.

*Of all together.* The claims are proved in `tree.bound_searches`. Here is what they assume: one row for each
unit, and of `Scores` the ends of what a unit has, and which bounds there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dpsql.kernel.check.certificate import (
    NONE,
    Groups,
    Kind,
    Names,
    Number,
    Relation,
    Together,
    name_of,
    under,
)
from dpsql.kernel.check.derive import INFINITY, Value, exact, fits
from dpsql.kernel.check.derive import Number as Real
from dpsql.kernel.check.proof import Proof, has_aggregate, has_window, implies, reads_of, some, subqueries
from dpsql.kernel.check.unit_groups import relation_of_numbers
from dpsql.kernel.tree import (
    FULL,
    Above,
    Beyond,
    CappedRows,
    CappedSum,
    Column,
    Counted,
    Derived,
    Expr,
    FewUnits,
    Join,
    KeptValues,
    Marked,
    Moment,
    Query,
    RowSum,
    Scores,
    Select,
    Sums,
    UnitMean,
    Units,
    UnitValue,
    Weighted,
    WeightedRows,
    kept,
    plain,
)
from dpsql.kernel.tree.exact import BEYOND
from dpsql.lazy_dataclass import replace
from dpsql.types import BIGINT, INTEGER

_KEY = frozenset(("n0",))


def _units(proof: Proof, query: Query, part: str) -> Relation:
    """Return the relation of a query that has one row for each unit."""
    units = proof.query(query, part)
    if units.kind is not Kind.OWNED or units.strays or not units.single(NONE) or proof.outer:
        return proof.refuse("numbers of what is not one row for each unit", query)
    return units


def relation_of_scores(proof: Proof, node: Scores) -> Relation:
    """Return the units by how many bounds they exceed, with what one adds in each row."""
    made = plain(node)
    assert isinstance(made, Select)  # noqa: S101  as it is written
    units = _units(proof, node.units, "units")
    a = proof.value(Column("w", "a"), made)
    bounds, largest = node.bounds, BEYOND if node.wide else (1 << 63) - 1
    powers = bounds[bounds[:1] == (0,) :]
    if powers != tuple(1 << j for j in range(len(powers))) or not powers or powers[-1] > largest:
        proof.refuse("bounds that are not the powers of two", node)
    if a.nullable or not exact(a.type) or a.low < 0 or a.high > largest:
        proof.refuse("sizes of units that are not whole numbers from 0 on", node)
    if node.fine is not None and (node.fine < 1 or node.fine & (node.fine - 1)):
        proof.refuse("steps that are not parts of a bound", node)
    top = int(a.high)
    for item in made.items:
        proof.sums_fit(item.expr, made, -max(top, FULL), max(top, FULL))
    size, signed = max(top, bounds[-1]), node.signed and node.sums is Sums.SIGNED
    own, beyond = Number(-size if signed else 0, size), Number(0, size)
    every = (Number(0, 1), Number(0, FULL), own, beyond, Number(0, 1), own)[: node.sums.value - 1]
    numbers = {f"n{i}": number for i, number in enumerate(every, 1)}
    proof.note("scores of bounds", f"a unit is in one of {some(len(bounds) + 1, 'row')}")
    fine = None if node.sums is Sums.NONE else node.fine
    cells = {"n0": (0, len(bounds))}
    groups = Groups(("n0",), numbers, cells=cells, most=1, bounds=bounds, fine=fine)
    return Relation(
        Kind.GROUPS,
        ("n0", *numbers),
        unique=frozenset((_KEY,)),
        few=((_KEY, 1),),
        groups=groups,
        parts=units.parts,
    )


def relation_of_above(proof: Proof, node: Above) -> Relation:
    """Return the relation that holds by how much each unit's number is above each bound."""
    made = plain(node)
    assert isinstance(made, Select)  # noqa: S101  as it is written
    numbers = {item.column: Number(0, 1) for item in made.items}
    return relation_of_numbers(proof, _units(proof, node.units, "units"), made, {}, numbers, declared=True)


def relation_of_beyond(proof: Proof, node: Beyond) -> Relation:
    """Return what values have beyond an interval, and what is left: a unit adds to all together so much."""
    made, most = plain(node), node.most * node.width
    assert isinstance(made, Select)  # noqa: S101  as it is written
    units = _units(proof, node.units, "units")
    if node.most < 1 or node.width < 1:
        proof.refuse("a bound below 1", node)
    for item in made.items:
        proof.sums_fit(item.expr, made, 0, most)
    numbers = {item.column: Number(0, most) for item in made.items}
    found = relation_of_numbers(proof, units, made, {}, numbers, declared=True)
    assert found.groups is not None  # noqa: S101  as it is made
    together = (Together(frozenset(numbers), most, most),)
    proof.note("together", f"a unit changes {len(numbers)} numbers by at most {most:,}")
    return found._replace(groups=replace(found.groups, together=together))


UNIT = Column("s", "u")


class Claim(NamedTuple):
    """What a unit adds: from `low` to `high` in each group, in all groups at most `total`, without signs."""

    low: Real
    high: Real
    total: Real | None = None


def relation_of_weighted(proof: Proof, node: Weighted) -> Relation:
    """Return the groups of a `Weighted`, with their numbers."""
    rows = under(proof.query(node.rows, "rows"), "s")
    if rows.kind is not Kind.OWNED or UNIT not in rows.unit or proof.outer:
        return proof.refuse("numbers of what are no rows of units", node)
    if rows.by_row and not node.by_rows:
        return proof.refuse("rows of units that no column tells apart", node)
    measured = node.rows.rows if isinstance(node.rows, Marked) else node.rows
    if (node.merges or node.shared) and node.alone not in (node.rows, measured):
        proof.refuse("units that are measured by other rows", node)
    if node.keys < 0 or node.fields < 0:
        proof.refuse("groups by what is no column of the rows", node)
    keys: dict[str, Expr] = {f"k{i}": Column("s", f"k{i}") for i in range(node.keys)}
    if not {f"s.{key}" for key in keys} <= {*rows.columns}:
        return proof.refuse("groups by what is no column of the rows", node)
    made = plain(node)
    assert isinstance(made, Select)  # noqa: S101  as it is written
    rule = _Rule(proof, node, rows, made)
    numbers = {
        f"n{i}": rule.number(parts, made.items[node.keys + i].expr) for i, parts in enumerate(node.numbers)
    }
    made_of = relation_of_numbers(proof, rows, rule.reader, keys, numbers, declared=not node.keys)
    groups = made_of.groups
    assert groups is not None  # noqa: S101  as it is made
    groups = replace(groups, together=tuple(rule.together()), rows_of=rows.rows_of)
    return made_of._replace(groups=groups)


class _Rule:
    """The rule of one node: its rows, what it is written as, and the SELECT that reads the rows as `s`."""

    def __init__(self, proof: Proof, node: Weighted, rows: Relation, made: Select) -> None:
        self.proof, self.node, self.rows, self.made = proof, node, rows, made
        self.reader = _reader(made)
        self.single = rows.single(f"s.k{i}" for i in range(node.keys))
        self.one_row = rows.single(NONE)
        self.by_rows = node.by_rows

    def number(self, parts: tuple[Counted, ...], written: Expr) -> Number:
        """Return what a unit changes of the first part minus the others."""
        first, *others = (self._claim(part) for part in parts)
        low, high, total = first
        for other in others:
            low, high = low - other.high, high - other.low
            total = None if total is None or other.total is None else total + other.total
        most = max(end for claim in (first, *others) for end in (-claim.low, claim.high))
        self.proof.sums_fit(written, self.made, -most, most)
        return Number(int(low), int(high), None if total is None else int(total))

    def _claim(self, part: Counted) -> Claim:
        """Return the claim of a part, if what it assumes holds; 0 lies within it."""
        names = frozenset(name_of(x) for x in part.row if isinstance(x, Column) and x.table == "s")
        # Of other names `s` has columns that others' rows decide: the values that are kept are `v0`, ..
        own = {"s.u", *(f"s.k{i}" for i in range(self.node.keys))}
        own |= {f"s.f{i}" for i in range(self.node.fields)}
        if not names <= own & {*self.rows.columns} or not all(
            isinstance(x, Column) and x.table == "s" for x in part.row
        ):
            self.proof.refuse("a number of what are no columns of the rows", part)
        if self.by_rows and self.rows.strays and not isinstance(part, (Units, KeptValues)):
            self.proof.refuse("a sum of rows without a unit", part)
        low, high, total = self._claim_by_kind(part, names)
        if INFINITY in (-low, high):
            self.proof.refuse("a sum of values without bounds", part)
        least, greatest = int(min(low // 1, 0)), int(max(-(-high // 1), 0))
        self.proof.note(_NOTES[type(part)], f"a unit adds from {least:,} to {greatest:,} in each group")
        return Claim(least, greatest, total)

    def _claim_by_kind(self, part: Counted, names: Names) -> Claim:
        match part:
            case FewUnits(_, _, most):
                return Claim(0, 1, self._check_bound(most, part))
            case Units(_, single):
                if self.by_rows and (single or self.rows.by_row):
                    self._check_single(self.single and single, part)
                return Claim(0, 1)
            case CappedRows(_, most):
                return Claim(0, self._check_bound(most, part))
            case KeptValues(_, most, cut):
                if not cut or self.rows.by_row:
                    self._check_single(self.single and not cut, part)
                return Claim(0, self._check_bound(most, part) if cut else 1)
            case WeightedRows(_, most):
                return Claim(0, self._check_bound(most, part), most)
            case UnitValue():
                return self._claim_of_value(part, names)
            case UnitMean(_, _, width, fine, scale, place):
                self._check_scale(part, scale)
                if place not in (0, 1):
                    self.proof.refuse("neither averages nor what they lack", part)
                if self.by_rows:
                    self._check_single(self.single, part)
                return Claim(0, self._check_bound(width, part) * self._check_bound(fine, part))
            case CappedSum(_, most):
                return self._claim_of_sum(part, self._check_bound(most, part))
            case RowSum(_, most):
                x = self._whole(part)
                times = self._times(part, most)
                ends = times * min(x.low, 0), times * max(x.high, 0)
                return Claim(*ends, max(-ends[0], ends[1]))
            case Moment(_, most):
                return self._claim_of_moment(part, self._times(part, most))
        return self.proof.refuse("an unknown kind of number", part)

    def _check_bound(self, most: int, part: Counted) -> int:
        return most if most >= 1 else self.proof.refuse("a bound below 1", part)

    def _check_single(self, single: bool, part: Counted) -> None:
        if not single:
            self.proof.refuse("a number of rows of which a unit may have any number", part)

    def _alone(self, part: RowSum | Moment | CappedSum) -> bool:
        """Return whether the only row of each unit is counted; it must be the only one."""
        if self.by_rows:
            self._check_single(self.one_row, part)
        return self.by_rows

    def _times(self, part: RowSum | Moment, most: int) -> int:
        """Return how often what a row has counts for a unit, in parts of a step."""
        if self._alone(part):
            return 1 if part.fine == 1 else self.proof.refuse("a single row in parts of a step", part)
        return self._check_bound(most, part) * self._check_bound(part.fine, part)

    def _x(self, part: Counted) -> Value:
        return self.proof.value(part.row[0], self.reader)

    def _whole(self, part: Counted) -> Value:
        x = self._x(part)
        return x if exact(x.type) else self.proof.refuse("a sum of what is no whole number", part)

    def _claim_of_value(self, part: UnitValue, names: Names) -> Claim:
        value, select = part.value, self.made
        if self.by_rows and part.alone is not None:
            self._check_single(self.single, part)
            value = part.alone
        elif reads_of(value):
            self.proof.refuse("a value of a unit that reads more than its sums", part)
        if not reads_of(value) <= names or subqueries(value) or has_window(value) or has_aggregate(value):
            self.proof.refuse("a value of a unit that reads more than its row", part)
        found = self.proof.value(value if self.by_rows else self.node.value_of(part), select)
        return Claim(found.low, found.high)

    def _check_scale(self, part: Counted, scale: int) -> Value:
        """Return the values of a part, if they have a given number of decimals, or are whole numbers."""
        x = self._x(part)
        if scale != (x.type.scale if x.type.name == "DECIMAL" else 0 if exact(x.type) else -1):
            self.proof.refuse("a sum in steps that are not those of its values", part)
        return x

    def _claim_of_sum(self, part: CappedSum, most: int) -> Claim:
        x = self._check_scale(part, part.scale)
        if part.size_of_step < 1 or (part.type == INTEGER and not fits(x, BIGINT)):
            self.proof.refuse("a sum in steps that are not those of its values", part)
        self._alone(part)
        return Claim(-most if x.low < 0 else 0, most if x.high > 0 else 0, most)

    def _claim_of_moment(self, part: Moment, times: int) -> Claim:
        x, top = self._whole(part), times * part.whole
        known = 0 <= part.degree <= 2 and 0 <= part.place <= part.degree + part.nulls
        within = x.low > x.high or (x.low >= 0 and x.high <= part.width)  # nothing is within no ends
        counted = kept(UNIT, part.row[1:])
        if part.row[1:] and not implies(part.row[0], counted, self.reader, self.rows.unit):
            within = False
        if not (known and within):
            self.proof.refuse("moments of values that do not lie within them", part)
        return Claim(0, top, top)

    def together(self) -> Iterator[Together]:
        """Yield numbers that differ in their place alone, each place once: all together add what one may."""
        found: dict[Counted, dict[int, str]] = {}
        for i, (part, *others) in enumerate(self.node.numbers):
            if isinstance(part, (Moment, UnitMean)) and not others:
                found.setdefault(replace(part, place=0), {}).setdefault(part.place, f"n{i}")
        for part, of in found.items():
            if len(of) > 1:
                _, most, total = self._claim(part)
                self.proof.note("together", f"a unit changes {len(of)} numbers by at most {int(most):,}")
                yield Together(frozenset(of.values()), int(most), None if total is None else int(total))


_NOTES: dict[type[Counted], str] = {
    Units: "units",
    FewUnits: "first groups",
    CappedRows: "capped rows",
    KeptValues: "kept values",
    WeightedRows: "telescoped rows",
    UnitValue: "value of a unit",
    UnitMean: "mean",
    CappedSum: "capped sum",
    RowSum: "row share",
    Moment: "moments",
}


def _reader(query: Select) -> Select:
    """Return the SELECT that reads the rows as `s`."""
    source = query.source.left if isinstance(query.source, Join) else query.source
    assert isinstance(source, Derived)  # noqa: S101  as it is written
    if source.alias == "s":
        return query
    assert isinstance(source.query, Select)  # noqa: S101
    return _reader(source.query)
