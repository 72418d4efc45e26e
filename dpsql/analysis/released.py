"""Compile the counts of a statement: of units, or of rows if each unit has a bounded number in a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.expressions import check_arguments, function_name, predicate
from dpsql.analysis.typed import Typed, UnitRole
from dpsql.tree import Call

if TYPE_CHECKING:
    from dpsql.analysis.compiler import StatementCompiler
    from dpsql.analysis.relation import From

__all__ = ["Count", "Part", "compile_count", "is_count", "is_count_call"]


MAX_CLAMP = 1_000_000


@dataclass(frozen=True, slots=True)
class Part:
    """One COUNT of the statement.

    `condition` is the compiled condition on the rows that count, or None. `rows` says that rows are counted,
    which is allowed only if a unit has at most one row in a group, or `clamp` bounds their number.
    """

    condition: str | None
    rows: bool
    clamp: int | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """A released count: one COUNT, or the difference of two."""

    parts: tuple[Part, ...]

    @property
    def bound(self) -> int:
        """The sensitivity: the most by which one unit can change the count."""
        return max(p.clamp or 1 for p in self.parts)

    @property
    def monotone(self) -> bool:
        """Whether adding a unit never decreases the count of any group."""
        return len(self.parts) == 1


def is_count_call(node: exp.Expr) -> bool:
    """Return whether a node is COUNT or COUNT_IF, with or without FILTER."""
    inner = node.this if isinstance(node, exp.Filter) else node
    return (function_name(inner) or "").lower() in ("count", "count_if", "countif")


def is_count(node: exp.Expr) -> bool:
    """Return whether a node is a count or the difference of two."""
    if isinstance(node, exp.Paren):
        return is_count(node.this)
    if isinstance(node, exp.Sub):
        return is_count(node.this) and is_count(node.expression)
    return is_count_call(node)


def compile_count(compiler: StatementCompiler, node: exp.Expr, source: From, single: bool) -> Count:
    """Compile a count; `single` says that each unit has at most one row in a group."""
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.Sub):
        return Count((_part(compiler, node, source, single),))
    left = compile_count(compiler, node.this, source, single)
    right = compile_count(compiler, node.expression, source, single)
    if len(left.parts) != 1 or len(right.parts) != 1:
        raise compiler.source.refuse("a difference is of two counts", node, "COUNT(..) - COUNT(..)")
    return Count((*left.parts, *right.parts))


def _part(compiler: StatementCompiler, node: exp.Expr, source: From, single: bool) -> Part:
    conditions: list[str] = []
    if isinstance(node, exp.Filter):
        check_arguments(compiler.source, node, frozenset({"this", "expression"}))
        conditions.append(predicate(compiler, node.expression.this, source.scope).guarded)
        node = node.this
    while isinstance(node, exp.Paren):
        node = node.this
    check_arguments(compiler.source, node, frozenset({"this", "expressions"}))
    name = (function_name(node) or "").lower()
    clamp, arguments = _clamp(compiler, node, source)
    if name in ("count_if", "countif"):
        if len(arguments) != 1:
            raise compiler.source.refuse("COUNT_IF takes one condition", node)
        conditions.append(predicate(compiler, arguments[0], source.scope).guarded)
    elif arguments and isinstance(arguments[0], exp.Distinct):
        if len(arguments) != 1 or clamp is not None:
            raise compiler.source.refuse("COUNT(DISTINCT ...) takes only the privacy unit", node)
        return _units(compiler, node, arguments[0], source, conditions, single)
    elif arguments and not isinstance(arguments[0], exp.Star):
        if len(arguments) != 1:
            raise compiler.source.refuse("COUNT takes one argument", node)
        conditions.append(f"({compiler.expression(arguments[0], source.scope).guarded} IS NOT NULL)")
    condition = _joined(conditions)
    if source.owner is not None and source.owner.row:
        return Part(condition, rows=True)
    if clamp is not None:
        return Part(condition, rows=True, clamp=clamp)
    if not single:
        unit = _unit_name(source)
        raise compiler.source.refuse(
            f"one {unit} can have many rows here, so a count of rows could change by many",
            node,
            f"COUNT(DISTINCT {unit}) counts privacy units",
        )
    return Part(condition, rows=True)


def _clamp(compiler: StatementCompiler, node: exp.Expr, source: From) -> tuple[int | None, list[exp.Expr]]:
    """Return the c of contribution_bounds_per_group => (0, c), or None, and the other arguments."""
    named = [a for a in node.expressions if isinstance(a, exp.Kwarg)]
    arguments = [a for a in node.expressions if not isinstance(a, exp.Kwarg)]
    if not named:
        return None, arguments
    hint = "COUNT(*, contribution_bounds_per_group => (0, 5))"
    pair = named[0].expression
    values = pair.expressions if isinstance(pair, exp.Tuple) else []
    bounds = [int(v.this) for v in values if isinstance(v, exp.Literal) and str(v.this).isdecimal()]
    known = named[0].name.lower() == "contribution_bounds_per_group"
    if len(named) > 1 or not known or len(bounds) != 2 or len(values) != 2 or bounds[0] != 0:
        raise compiler.source.refuse("a count's bounds are (0, c)", named[0], hint)
    if not 1 <= bounds[1] <= MAX_CLAMP:
        raise compiler.source.refuse(f"the bound must be between 1 and {MAX_CLAMP:,}", named[0], hint)
    if source.owner is not None and source.owner.row:
        raise compiler.source.refuse("each row is a privacy unit: its bound is 1 already", named[0])
    return bounds[1], arguments


def _joined(conditions: list[str]) -> str | None:
    return " AND ".join(conditions) if conditions else None


def _unit_name(source: From) -> str:
    for origin in source.scope.origins:
        for name, column in zip(origin.names, origin.columns, strict=True):
            if column.unit is not UnitRole.NONE:
                return name
    return "unit"


def _units(
    compiler: StatementCompiler,
    node: exp.Expr,
    distinct: exp.Distinct,
    source: From,
    conditions: list[str],
    single: bool,
) -> Part:
    check_arguments(compiler.source, distinct, frozenset({"expressions"}))
    if len(distinct.expressions) != 1:
        raise compiler.source.refuse("COUNT(DISTINCT ...) takes only the privacy unit", node)
    inner = distinct.expressions[0]
    condition, inner = _filtered(inner)
    if condition is not None:
        conditions.append(predicate(compiler, condition, source.scope).guarded)
    value = _unit(compiler, inner, source)
    if value is None:
        unit = _unit_name(source)
        raise compiler.source.refuse(
            "this counts something other than the privacy unit",
            inner,
            f"COUNT(DISTINCT {unit}) counts privacy units",
        )
    if value.unit is UnitRole.NULLABLE:
        conditions.append(f"({value.sql} IS NOT NULL)")
    # If a unit has one row in a group, counting rows is the same and many times faster than DISTINCT.
    return Part(_joined(conditions), rows=single)


def _filtered(node: exp.Expr) -> tuple[exp.Expr | None, exp.Expr]:
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


def _unit(compiler: StatementCompiler, node: exp.Expr, source: From) -> Typed | None:
    """Return the expression if it is the unit: its column, or COALESCE of both sides of a FULL JOIN."""
    while isinstance(node, exp.Paren):
        node = node.this
    if source.owner is None or source.owner.row:
        return None
    if isinstance(node, exp.Column):
        value = source.scope.resolve(node)
        return value if value.unit is not UnitRole.NONE else None
    if (function_name(node) or "").lower() == "coalesce":
        parts = [compiler.expression(a, source.scope) for a in node.expressions]
        if all(p.unit is not UnitRole.NONE for p in parts):
            merged = Call("COALESCE", tuple(p.node for p in parts))
            return Typed(merged, parts[0].type, unit=UnitRole.NULLABLE)
    return None
