"""Read sums and means of zeros and ones as the counts that they are.

The rewritten block counts the same rows. Where a sum over no rows would be NULL, its count is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.catalog import Catalog
from dpsql.analysis.compiler import function_name
from dpsql.analysis.parsed import call_arguments
from dpsql.analysis.released.ratios import cut, is_inner_query
from dpsql.language import MARK, copied, keep_title, walked
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, fold
from dpsql.types import BOOLEAN

_NUMBERS = frozenset({*exp.DataType.NUMERIC_TYPES})
_CONDITIONS = (exp.Predicate, exp.And, exp.Or, exp.Not, exp.Boolean)


@dataclass(frozen=True, slots=True)
class _Indicator:
    """An expression that is one number where a condition holds, and else 0 or NULL."""

    number: Fraction
    where: exp.Expr | None
    """The condition; None: it holds everywhere."""
    known: exp.Expr | None
    """Where the expression is not NULL; None: everywhere."""


def as_counts(select: exp.Select, policy: Policy, catalog: Catalog) -> exp.Select:
    """Return a block that releases counts, with its sums and means of zeros and ones written as counts.

    `SUM(CASE WHEN p THEN 1 ELSE 0 END)` is `COUNT(*) FILTER (WHERE p)`, and AVG of it a ratio of two counts,
    which is cut to lie between 0 and 1.
    A block without any is returned as it is.
    """
    reader = _Reader(_boolean_columns(select, policy, catalog))
    if not any(reader.count(node) for node in _calls(select)):
        return select
    changed = copied(select)
    found = [(node, reader.count(node)) for node in _calls(changed)]
    for node, made in found:
        if made is not None:
            meta = next((n.meta for n in node.walk(bfs=False) if "start" in n.meta), {})
            for each in walked(made):
                if function_name(each) == "count":
                    each.meta.update(meta)
            node.replace(keep_title(node, made))
    return changed


def _calls(select: exp.Select) -> list[exp.Expr]:
    """Return the calls in the parts of a block that may hold aggregates, with and without FILTER."""
    parts = [*select.expressions, *(select.args.get(name) for name in ("having", "qualify", "order"))]
    nodes = [node for part in parts if part is not None for node in walked(part, is_inner_query)]
    return [node for node in nodes if isinstance(node, (exp.Anonymous, exp.Filter))]


def _boolean_columns(select: exp.Select, policy: Policy, catalog: Catalog) -> frozenset[str]:
    """Return the folded names of the columns that are BOOLEAN in every table of FROM that has them."""
    first = select.args.get("from_")
    items = [first.this] if first is not None else []
    items += [join.this for join in select.args.get("joins") or ()]
    kinds: dict[str, set[bool]] = {}
    for item in items:
        table = policy.table(item.name) if isinstance(item, exp.Table) and item.name.isascii() else None
        for name, sql_type in catalog.columns(table.name) if table is not None else ():
            kinds.setdefault(fold(name), set()).add(sql_type == BOOLEAN)
    return frozenset(name for name, found in kinds.items() if found == {True})


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the aggregates of a block; `boolean` has the folded names of its BOOLEAN columns."""

    boolean: frozenset[str]

    def count(self, node: exp.Expr) -> exp.Expr | None:
        """Return SUM or AVG of an indicator as an expression over counts; None for other nodes."""
        where = node.expression.this if isinstance(node, exp.Filter) else None
        call = node.this if isinstance(node, exp.Filter) else node
        name = (function_name(call) or "").lower()
        if name not in ("sum", "avg") or isinstance(node.parent, (exp.Window, exp.Filter)):
            return None
        bounds, values = call_arguments(call)
        found = self.indicator(values[0]) if len(values) == 1 else None
        if found is None:
            return None
        number = _number(found.number)
        if name == "sum":
            if bounds and found.number != 1:
                return None
            made = _count(bounds, where, found.where)
            return made if found.number == 1 else exp.Paren(this=exp.Mul(this=number, expression=made))
        if bounds or (found.where is None and found.known is None):
            return None
        part, whole = _count([], where, found.where), _count([], where, found.known)
        if part == whole:
            return None  # without ELSE, the mean leaves out the rows that the condition does not hold for
        zero = exp.Anonymous(this=f"{MARK}nullif", expressions=[whole, exp.Literal.number(0)])
        if found.number != 1:
            part = exp.Mul(this=number, expression=part)
        return cut(exp.Div(this=part, expression=zero), found.number)

    def indicator(self, node: exp.Expr) -> _Indicator | None:
        """Return an expression as an indicator; None for other expressions."""
        node = node.unnest()
        value = _literal(node)
        if value:
            return _Indicator(value, None, None)
        if self.condition(node):
            return _Indicator(Fraction(1), node, _present(node))
        if isinstance(node, exp.Cast) and node.args["to"].this in _NUMBERS and self.condition(node.this):
            return _Indicator(Fraction(1), node.this.unnest(), _present(node.this.unnest()))
        return _case(node)

    def condition(self, node: exp.Expr) -> bool:
        """Return whether an expression is BOOLEAN, as far as its form tells."""
        node = node.unnest()
        if isinstance(node, exp.Column):
            return fold(node.name) in self.boolean
        if isinstance(node, exp.Case):
            results = [branch.args["true"] for branch in node.args["ifs"]]
            results += [default] if (default := node.args.get("default")) is not None else []
            return all(isinstance(r.unnest(), exp.Boolean) for r in results)
        return isinstance(node, _CONDITIONS) and not isinstance(node, exp.SubqueryPredicate)


def _case(node: exp.Expr) -> _Indicator | None:
    """Return CASE or IF among 0, NULL and one other number as an indicator."""
    if (function_name(node) or "").lower() == "if" and len(node.expressions) in (2, 3):
        test, yes, *rest = (copied(argument) for argument in node.expressions)
        node = exp.Case(ifs=[exp.If(this=test, true=yes)], default=rest[0] if rest else None)
    if not isinstance(node, exp.Case):
        return None
    branches = node.args["ifs"]
    results = [branch.args["true"].unnest() for branch in branches]
    results.append((node.args.get("default") or exp.Null()).unnest())
    absent = [isinstance(result, exp.Null) for result in results]
    values = [Fraction(0) if gone else _literal(r) for r, gone in zip(results, absent, strict=True)]
    numbers = {value for value in values if value}
    if None in values or len(numbers) != 1:
        return None
    where = _choice(node, [bool(value) for value in values])
    if node.args.get("this") is None and len(branches) == 1:
        where = branches[0].this
        if not values[0]:  # NOT would be NULL, where the condition is, and leave the row out
            where = exp.Not(this=exp.Is(this=exp.paren(copied(where)), expression=exp.true()))
    known = None
    if any(absent):
        alike = all(gone or value for gone, value in zip(absent, values, strict=True))
        known = where if alike else _choice(node, [not gone for gone in absent])
    return _Indicator(numbers.pop(), where, known)


def _choice(node: exp.Case, holds: list[bool]) -> exp.Expr:
    """Return a CASE with truth values as its results."""
    made = copied(node)
    for branch, value in zip(made.args["ifs"], holds, strict=False):
        branch.set("true", exp.Boolean(this=value))
    made.set("default", exp.Boolean(this=holds[-1]))
    return made


def _present(node: exp.Expr) -> exp.Expr | None:
    """Return the condition that a truth value is there; None if it always is."""
    if isinstance(node, (exp.Boolean, exp.Is)):
        return None
    return exp.Not(this=exp.Is(this=exp.paren(copied(node)), expression=exp.Null()))


def _literal(node: exp.Expr) -> Fraction | None:
    """Return the value of a number that the analyst typed; None for other nodes."""
    if isinstance(node, exp.Neg):
        value = _literal(node.this.unnest())
        return None if value is None else -value
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        return Fraction(str(node.this))
    except ValueError:
        return None


def _number(value: Fraction) -> exp.Expr:
    """Return a number as a literal."""
    whole = value.denominator == 1
    literal = exp.Literal.number(str(abs(value.numerator)) if whole else repr(float(abs(value))))
    return literal if value > 0 else exp.Paren(this=exp.Neg(this=literal))


def _count(bounds: Sequence[exp.Expr], *conditions: exp.Expr | None) -> exp.Expr:
    """Return COUNT(*) of the rows that meet all conditions."""
    call = exp.Anonymous(this=f"{MARK}count", expressions=[exp.Star(), *(copied(b) for b in bounds)])
    there = [c for c in conditions if c is not None]
    if not there:
        return call
    parts = [exp.paren(copied(c)) if len(there) > 1 else copied(c) for c in there]
    joined = parts[0] if len(parts) == 1 else exp.And(this=parts[0], expression=parts[1])
    return exp.Filter(this=call, expression=exp.Where(this=joined))
