"""Read sums and means of zeros and ones as the counts that they are; cut ratios to 0 .. 1.

`COUNT(*) FILTER (WHERE p) / COUNT(*)` of noisy counts may lie below 0 or above 1, where no share is. The cut
reads released numbers alone, so it costs nothing, and it only brings the ratio nearer to the truth. It is
written as a CASE, since a ratio that is NULL stays NULL.

The rewritten block counts the same rows. Where a sum over no rows would be NULL, its count is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.compiler import function_name, split_arguments
from dpsql.analysis.schema_catalog import Catalog
from dpsql.language import (
    MARK,
    Options,
    copy_tree,
    find_nodes,
    keep_title,
    list_conjuncts,
    list_from_items,
    make_presence,
    transform_tree,
    walk_tree,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, fold
from dpsql.types import BOOLEAN

_CUT = "cut"
"""The mark of a division around which the cut stands already."""
_COUNTS = {"count": False, "count_if": True, "countif": True}
"""The functions that count rows, and whether their argument is a condition."""
_SUMMED = ("sum", "avg")


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a call counts: the rows, or the different values, that meet all of some conditions."""

    call: tuple[exp.Expr, ...]
    """What tells counts of different things apart: the argument of DISTINCT, and the bounds."""
    conditions: tuple[exp.Expr, ...]


def cut_ratios(select: exp.Select) -> exp.Select:
    """Return a block with its ratios of a part and a whole cut; one without any is returned as it is."""
    divisions = _find_divisions(select)
    counts = _find_aliases(select) if divisions else {}
    if not any(_find_end(_substitute_aliases(node, counts)) is not None for node in divisions):
        return select
    changed = copy_tree(select)
    for node in _find_divisions(changed):
        end = _find_end(_substitute_aliases(node, counts))
        if end is not None:
            node.replace(keep_title(node, cut_ratio(node, end)))
    return changed


def _find_aliases(select: exp.Select) -> dict[str, exp.Expr]:
    """Return the counts of a select list by their folded aliases, without those that a key is called."""
    group = select.args.get("group")
    keys = {fold(each.name) for each in find_nodes(group, exp.Column)} if group is not None else set[str]()
    listed = [item for item in select.expressions if isinstance(item, exp.Alias)]
    return {
        fold(item.alias): item.this
        for item in listed
        if fold(item.alias) not in keys and _read_counted(_strip_casts(item.this)) is not None
    }


def _substitute_aliases(node: exp.Div, counts: Mapping[str, exp.Expr]) -> exp.Div:
    """Return a division with counts in the place of their aliases."""
    if not counts:
        return node

    def named(each: exp.Expr) -> exp.Expr:
        known = isinstance(each, exp.Column) and not each.table
        found = counts.get(fold(each.name)) if known else None
        return each if found is None else copy_tree(found)

    made = transform_tree(node, named)
    return made if isinstance(made, exp.Div) else node


def cut_ratio(ratio: exp.Expr, end: Fraction) -> exp.Expr:
    """Return a ratio cut to lie between 0 and another number."""
    ratio = copy_tree(ratio)
    ratio.meta[_CUT] = True
    zero, other = exp.Literal.number(0), _write_number(end)
    low, high = (zero, other) if end > 0 else (other, zero)
    branches = [
        exp.If(this=exp.LT(this=exp.paren(copy_tree(ratio)), expression=copy_tree(low)), true=copy_tree(low)),
        exp.If(
            this=exp.GT(this=exp.paren(copy_tree(ratio)), expression=copy_tree(high)), true=copy_tree(high)
        ),
    ]
    return exp.Paren(this=exp.Case(ifs=branches, default=exp.paren(copy_tree(ratio))))


def _write_number(number: Fraction) -> exp.Expr:
    """Return a number other than 0 as a literal."""
    whole = number.denominator == 1
    literal = exp.Literal.number(str(abs(number.numerator)) if whole else repr(float(abs(number))))
    return literal if number > 0 else exp.Paren(this=exp.Neg(this=literal))


def _find_divisions(select: exp.Select) -> list[exp.Div]:
    """Return the divisions in the parts of a block that may hold aggregates."""
    return [n for n in _walk_block(select) if isinstance(n, exp.Div) and not n.meta.get(_CUT)]


def _walk_block(select: exp.Select) -> list[exp.Expr]:
    """Return the nodes of a block's parts that may hold aggregates, without nodes of queries within."""
    parts = [*select.expressions, *(select.args.get(name) for name in ("having", "qualify", "order"))]
    return [node for part in parts if part is not None for node in walk_tree(part, is_inner_query)]


def is_inner_query(node: exp.Expr) -> bool:
    """Return whether a node is a query within a block: its aggregates are not the block's own."""
    return isinstance(node, (exp.Query, exp.Subquery))


def _find_end(node: exp.Div) -> Fraction | None:
    """Return what the ratio is where the part is the whole; None for ratios of other numbers."""
    factor, part = _split_factor(node.this)
    whole = _strip_casts(node.expression)
    if _name(whole) == "nullif" and len(whole.expressions) == 2:
        whole = _strip_casts(whole.expressions[0])
    counted = _read_counted(part)
    if counted is None:
        return None
    if isinstance(whole, exp.Window):
        return factor if _is_total_of(whole, part) else None
    other = _read_counted(whole)
    if other is None or counted.call != other.call or counted == other:
        return None
    return factor if all(_is_implied(each, counted.conditions) for each in other.conditions) else None


def _split_factor(node: exp.Expr) -> tuple[Fraction, exp.Expr]:
    """Return a positive constant factor, 1 if there is none, and what it multiplies."""
    node = _strip_casts(node)
    if isinstance(node, exp.Mul):
        for one, other in ((node.this, node.expression), (node.expression, node.this)):
            number = _strip_casts(one)
            if isinstance(number, exp.Literal) and not number.is_string and Fraction(str(number.this)) > 0:
                factor, inner = _split_factor(other)
                return Fraction(str(number.this)) * factor, inner
    return Fraction(1), node


def _strip_casts(node: exp.Expr) -> exp.Expr:
    """Return an expression without parentheses and conversions to fractional numbers."""
    node = node.unnest()
    while isinstance(node, exp.Cast) and node.args["to"].this in exp.DataType.REAL_TYPES:
        node = node.this.unnest()
    return node


def _read_counted(node: exp.Expr) -> _Counted | None:
    """Return what a COUNT or COUNT_IF call counts: the argument of DISTINCT, and conditions on rows.

    The conditions are those of its FILTER and of COUNT_IF; COUNT(x) without DISTINCT has `x IS NOT NULL`.
    None if the expression is no such call, or has arguments that no count takes.
    """
    where = node.expression.this if isinstance(node, exp.Filter) else None
    call = node.this if isinstance(node, exp.Filter) else node
    condition = _COUNTS.get(_name(call))
    if condition is None or not isinstance(call, exp.Anonymous):
        return None
    bounds, arguments = split_arguments(call)
    if len(arguments) > 1 or (condition and not arguments):
        return None
    conditions = [*list_conjuncts(where)]
    if condition:
        conditions += list_conjuncts(arguments[0])
    elif arguments and isinstance(arguments[0], exp.Distinct):
        return _Counted((arguments[0], *bounds), tuple(conditions))
    elif arguments and not isinstance(arguments[0], exp.Star):
        conditions.append(make_presence(arguments[0]))
    return _Counted(tuple(bounds), tuple(conditions))


def _is_implied(condition: exp.Expr, conditions: tuple[exp.Expr, ...]) -> bool:
    """Return whether a condition is among others, or says that one of them is not NULL."""
    if condition in conditions:
        return True
    inner = condition.this.unnest() if isinstance(condition, exp.Not) else None
    there = isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null)
    return there and inner is not None and inner.this.unnest() in conditions


def _is_total_of(window: exp.Window, part: exp.Expr) -> bool:
    """Return whether a window sums a count over all rows of its partition."""
    call = window.this
    plain = not any(window.args.get(name) for name in ("order", "spec", "alias"))
    summed = _name(call) == "sum" and len(call.expressions) == 1
    return plain and summed and _strip_casts(call.expressions[0]) == part


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


def read_as_counts(select: exp.Select, policy: Policy, catalog: Catalog, options: Options) -> exp.Select:
    """Return a block that releases counts, with its sums and means of zeros and ones written as counts.

    `SUM(CASE WHEN p THEN 1 ELSE 0 END)` is `COUNT(*) FILTER (WHERE p)`, and AVG of it a ratio of two counts,
    which is cut to lie between 0 and 1. Where a constant bounds the rows of a unit, AVG stays one of numbers:
    two counts would each be cut for itself, and a row would weigh differently in the part and in the whole.
    A block without any is returned as it is.
    """
    calls = _find_calls(select)
    if not calls:
        return select
    constant = _has_constant_rows(select, policy, options)
    reader = _Reader(_find_boolean_columns(select, policy, catalog), constant)
    if not any(reader.read_count(node) for node in calls):
        return select
    changed = copy_tree(select)
    found = [(node, reader.read_count(node)) for node in _find_calls(changed)]
    for node, made in found:
        if made is not None:
            meta = next((n.meta for n in node.walk(bfs=False) if "start" in n.meta), {})
            for each in walk_tree(made):
                if function_name(each) == "count":
                    each.meta.update(meta)
            node.replace(keep_title(node, made))
    return changed


def _has_constant_rows(select: exp.Select, policy: Policy, options: Options) -> bool:
    """Return whether the statement or the policy says how many rows of a unit count."""
    if options.max_rows_contributed is not None:
        return True
    tables = [policy.table(each.name) for each in find_nodes(select, exp.Table) if each.name.isascii()]
    private = [table for table in tables if table is not None and not table.public]
    return any(policy.most(table, "rows_per_unit") is not None for table in private)


def _find_calls(select: exp.Select) -> list[exp.Expr]:
    """Return the sums and means in the parts of a block that may hold aggregates, with and without FILTER."""
    return [n for n in _walk_block(select) if _name(n.this if isinstance(n, exp.Filter) else n) in _SUMMED]


def _name(node: exp.Expr) -> str:
    """Return the name of a call in lower case; "" for other nodes."""
    return (function_name(node) or "").lower()


def _find_boolean_columns(select: exp.Select, policy: Policy, catalog: Catalog) -> frozenset[str]:
    """Return the folded names of the columns that are BOOLEAN in every table of FROM that has them."""
    kinds: dict[str, set[bool]] = {}
    for item in list_from_items(select):
        table = policy.table(item.name) if isinstance(item, exp.Table) and item.name.isascii() else None
        for name, sql_type in catalog.columns(table.name) if table is not None else ():
            kinds.setdefault(fold(name), set()).add(sql_type == BOOLEAN)
    return frozenset(name for name, found in kinds.items() if found == {True})


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the aggregates of a block; `boolean` has the folded names of its BOOLEAN columns."""

    boolean: frozenset[str]
    constant: bool
    """Whether a constant bounds the rows of a unit."""

    def read_count(self, node: exp.Expr) -> exp.Expr | None:
        """Return SUM or AVG of an indicator as an expression over counts; None for other nodes.

        Where a constant bounds the rows of a unit, an AVG is that of a CASE among 0 and one other number.
        """
        where = node.expression.this if isinstance(node, exp.Filter) else None
        call = node.this if isinstance(node, exp.Filter) else node
        name = _name(call)
        if isinstance(node.parent, (exp.Window, exp.Filter)):
            return None
        bounds, values = split_arguments(call)
        found = self.read_indicator(values[0]) if len(values) == 1 else None
        if found is None:
            return None
        number = _write_number(found.number)
        if name == "sum":
            if bounds and found.number != 1:
                return None
            made = _make_count(bounds, where, found.where)
            return made if found.number == 1 else exp.Paren(this=exp.Mul(this=number, expression=made))
        if bounds or (found.where is None and found.known is None):
            return None
        if self.constant:
            return _write_average(node, values[0], found)
        part, whole = _make_count([], where, found.where), _make_count([], where, found.known)
        if part == whole:
            return None  # without ELSE, the mean leaves out the rows that the condition does not hold for
        zero = exp.Anonymous(this=f"{MARK}nullif", expressions=[whole, exp.Literal.number(0)])
        if found.number != 1:
            part = exp.Mul(this=number, expression=part)
        return cut_ratio(exp.Div(this=part, expression=zero), found.number)

    def read_indicator(self, node: exp.Expr) -> _Indicator | None:
        """Return an expression as an indicator; None for other expressions."""
        node = node.unnest()
        value = _read_number(node)
        if value:
            return _Indicator(value, None, None)
        if self.is_condition(node):
            return _Indicator(Fraction(1), node, _make_presence(node))
        if isinstance(node, exp.Cast) and node.args["to"].this in _NUMBERS and self.is_condition(node.this):
            return _Indicator(Fraction(1), node.this.unnest(), _make_presence(node.this.unnest()))
        return _read_case(node)

    def is_condition(self, node: exp.Expr) -> bool:
        """Return whether an expression is BOOLEAN, as far as its form tells."""
        node = node.unnest()
        if isinstance(node, exp.Column):
            return fold(node.name) in self.boolean
        if isinstance(node, exp.Case):
            results = [branch.args["true"] for branch in node.args["ifs"]]
            results += [default] if (default := node.args.get("default")) is not None else []
            return all(isinstance(r.unnest(), exp.Boolean) for r in results)
        return isinstance(node, _CONDITIONS) and not isinstance(node, exp.SubqueryPredicate)


def _write_average(node: exp.Expr, value: exp.Expr, found: _Indicator) -> exp.Expr | None:
    """Return an AVG of an indicator as one of a CASE; None if it is one among numbers already."""
    if found.where is None or _read_case(value.unnest()) is not None:
        return None
    zero, number = exp.Literal.number(0), _write_number(found.number)
    branches = [exp.If(this=copy_tree(found.where), true=number)]
    if found.known is not None:
        branches.append(exp.If(this=copy_tree(found.known), true=copy_tree(zero)))
    made = copy_tree(node)
    call = made.this if isinstance(made, exp.Filter) else made
    call.set("expressions", [exp.Case(ifs=branches, default=None if found.known is not None else zero)])
    return made


def _read_case(node: exp.Expr) -> _Indicator | None:
    """Return CASE or IF among 0, NULL and one other number as an indicator."""
    if (function_name(node) or "").lower() == "if" and len(node.expressions) in (2, 3):
        test, yes, *rest = (copy_tree(argument) for argument in node.expressions)
        node = exp.Case(ifs=[exp.If(this=test, true=yes)], default=rest[0] if rest else None)
    if not isinstance(node, exp.Case):
        return None
    branches = node.args["ifs"]
    results = [branch.args["true"].unnest() for branch in branches]
    results.append((node.args.get("default") or exp.Null()).unnest())
    absent = [isinstance(result, exp.Null) for result in results]
    values = [Fraction(0) if gone else _read_number(r) for r, gone in zip(results, absent, strict=True)]
    numbers = {value for value in values if value}
    if None in values or len(numbers) != 1:
        return None
    where = _make_choice(node, [bool(value) for value in values])
    if node.args.get("this") is None and len(branches) == 1:
        where = branches[0].this
        if not values[0]:  # NOT would be NULL, where the condition is, and leave the row out
            where = exp.Not(this=exp.Is(this=exp.paren(copy_tree(where)), expression=exp.true()))
    known = None
    if any(absent):
        alike = all(gone or value for gone, value in zip(absent, values, strict=True))
        known = where if alike else _make_choice(node, [not gone for gone in absent])
    return _Indicator(numbers.pop(), where, known)


def _make_choice(node: exp.Case, holds: list[bool]) -> exp.Expr:
    """Return a CASE with truth values as its results."""
    made = copy_tree(node)
    for branch, value in zip(made.args["ifs"], holds, strict=False):
        branch.set("true", exp.Boolean(this=value))
    made.set("default", exp.Boolean(this=holds[-1]))
    return made


def _make_presence(node: exp.Expr) -> exp.Expr | None:
    """Return the condition that a truth value is there; None if it always is."""
    if isinstance(node, (exp.Boolean, exp.Is)):
        return None
    return make_presence(exp.paren(node))


def _read_number(node: exp.Expr) -> Fraction | None:
    """Return the value of a number that the analyst typed; None for other nodes."""
    if isinstance(node, exp.Neg):
        value = _read_number(node.this.unnest())
        return None if value is None else -value
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        return Fraction(str(node.this))
    except ValueError:
        return None


def _make_count(bounds: Sequence[exp.Expr], *conditions: exp.Expr | None) -> exp.Expr:
    """Return COUNT(*) of the rows that meet all conditions."""
    call = exp.Anonymous(this=f"{MARK}count", expressions=[exp.Star(), *(copy_tree(b) for b in bounds)])
    there = [c for c in conditions if c is not None]
    if not there:
        return call
    parts = [exp.paren(copy_tree(c)) if len(there) > 1 else copy_tree(c) for c in there]
    joined = parts[0] if len(parts) == 1 else exp.And(this=parts[0], expression=parts[1])
    return exp.Filter(this=call, expression=exp.Where(this=joined))
