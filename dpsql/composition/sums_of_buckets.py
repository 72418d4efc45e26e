"""Write sums by buckets of the summed value relative to the sizes of the buckets: `SUM(x / w) * w`.

One bound on a unit's total serves all groups. Where these are buckets of x, one of small values has as much
noise as one of large values. Here w is about the root of the largest value of a bucket, and the noise of a
bucket w times that of SUM(x / w). Of one row a unit, the last bucket has the noise of before, each other one
less. Where units have rows in all buckets, relative noise is least with w as the root of a bucket's sum. As w
is a function of the key, and never 0, the product is the sum whatever w is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.compiler import call_name, read_item, split_arguments
from dpsql.composition.block_columns import is_measure, nodes
from dpsql.language import LARGEST, TITLE, Query, copy_tree, fill_form, find_nodes, keep_title
from dpsql.lazy_dataclass import dataclass

_COMPARISONS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ)
_MOST_BUCKETS = 100
_LEAST_RATIO = 8
"""How many times the largest end of a bucket is the least: of nearer ones the noise is much the same."""


@dataclass(frozen=True, slots=True)
class _Buckets:
    """A key whose groups are ranges of one value."""

    place: int
    """The place of the key."""
    key: exp.Expr
    value: exp.Expr
    roots: dict[exp.Expr, float]
    """w by the values of the key, which are constants."""
    last: exp.Expr
    """The value of the key behind ELSE, or of the largest end."""

    @property
    def largest(self) -> tuple[object, ...]:
        """The values of the key for the largest values of the other."""
        return (str(self.last.this) if self.last.args["is_string"] else self.last.to_py(),)

    def write_root(self) -> exp.Expr:
        """Return w as a function of the key."""
        whens = "".join(f" WHEN k = v{at} THEN {root:.17g}" for at, root in enumerate(self.roots.values()))
        labels = {f"v{at}": label for at, label in enumerate(self.roots)}
        form = f"CASE{whens} ELSE {max(self.roots.values()):.17g} END"
        return fill_form(form, {"k": self.key, **labels})


def find_sums_of_buckets(query: Query) -> dict[int, _Buckets]:
    """Return the buckets of each call of SUM of the value that makes groups, by its `id`."""
    tree = query.tree
    if not isinstance(tree, exp.Select) or tree.args.get("group") is None:
        return {}
    sums = [call for call in find_nodes(tree, exp.Anonymous) if _is_sum(call, tree)]
    found: dict[int, _Buckets] = {}
    for place, key in enumerate(_list_keys(tree) if sums else ()):
        buckets = _read_buckets(place, key)
        for call in sums:
            if buckets is not None and split_arguments(call)[1][0].unnest() == buckets.value:
                found[id(call)] = buckets
    return found


def write_relative_sums(query: Query, searched: Sequence[exp.Expr]) -> Query | None:
    """Return a block with sums by buckets relative to w; None if it has none.

    `searched` are the calls of SUM whose bounds would be found by search.
    """
    whole = replace(query, tree=copy_tree(query.tree))
    every = find_sums_of_buckets(whole)
    calls = [c for c in find_nodes(whole.tree, exp.Anonymous) if id(c) in every and c in searched]
    for call in calls:
        buckets, some = every[id(call)], call.parent if isinstance(call.parent, exp.Filter) else None
        form = "(SUM(x / w) * w)" if some is None else "(SUM(x / w) FILTER (WHERE c) * w)"
        bound = {"x": split_arguments(call)[1][0], "w": buckets.write_root()}
        made = fill_form(form, bound | ({} if some is None else {"c": some.expression.this}))
        least, most = min(buckets.roots.values()), max(buckets.roots.values())
        written = f"{buckets.value.sql('duckdb')} / ({least:g} to {most:g} by bucket)"
        find_nodes(made, exp.Div)[0].meta[TITLE] = written
        position = {k: v for k, v in call.meta.items() if k in ("start", "end", "line", "col")}
        find_nodes(made, exp.Anonymous)[0].meta.update(
            position, **{TITLE: f"SUM({written})", LARGEST: (buckets.place, buckets.largest)}
        )
        for filtered in find_nodes(made, exp.Filter):
            filtered.meta[TITLE] = f"SUM({written})"
        (some or call).replace(keep_title(some or call, made))
    return whole if calls else None


def _is_sum(call: exp.Expr, select: exp.Select) -> bool:
    bounds, arguments = split_arguments(call)
    around = call.parent.parent if isinstance(call.parent, exp.Filter) else call.parent
    name = call_name(call)
    plain = name == "sum" and len(arguments) == 1 and not bounds and not isinstance(around, exp.Window)
    return plain and call.find_ancestor(exp.Select) is select


def _list_keys(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the expressions that a block groups by; items of the list for their places, aliases and ALL."""
    group, items = select.args["group"], select.expressions
    if group.args.get("all"):
        yield from (item.unalias() for item in items if not any(map(is_measure, nodes(item.unalias()))))
    yield from (read_item(select, key) for key in group.expressions)


def _read_buckets(place: int, key: exp.Expr) -> _Buckets | None:
    """Read a key that is CASE with conditions on one value, and with constants behind THEN and ELSE."""
    case = key.unnest()
    if not isinstance(case, exp.Case) or case.this is not None or len(case.args["ifs"]) > _MOST_BUCKETS:
        return None
    value: exp.Expr | None = None
    ends: dict[exp.Expr, float] = {}
    for branch in case.args["ifs"]:
        condition, label = _read_condition(branch.this), branch.args["true"].unnest()
        if condition is None or value not in (None, condition[0]):
            return None
        value, end = condition  # the same value
        ends[label] = max(ends.get(label, 0.0), end)
    above = [end for end in ends.values() if end > 0]
    last, default = max(ends, key=lambda label: ends[label]), case.args.get("default")
    if default is not None and above:  # it is below the others, where the last one is above a constant
        lower = case.args["ifs"][-1].this.find(exp.GT, exp.GTE) is not None
        ends.setdefault(default.unnest(), min(above) if lower else max(above))
        last = last if lower else default.unnest()
    known = all(isinstance(label, exp.Literal) for label in ends)
    if value is None or not known or not above or max(above) < _LEAST_RATIO * min(above):
        return None
    roots = {label: float(f"{math.sqrt(end or min(above)):.2g}") for label, end in ends.items()}
    return _Buckets(place, key, value, roots, last)


def _read_condition(node: exp.Expr) -> tuple[exp.Expr, float] | None:
    """Return the value that a condition compares with constants, and the largest of these."""
    if isinstance(node, (exp.Paren, exp.Not)):
        return _read_condition(node.this)
    if isinstance(node, exp.Connector):
        left, right = _read_condition(node.this), _read_condition(node.expression)
        if left is None or right is None or left[0] != right[0]:
            return None
        return left[0], max(left[1], right[1])
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return node.this.unnest(), 0.0
    sides = [node.this, *(node.args[end] for end in ("low", "high"))] if isinstance(node, exp.Between) else []
    if isinstance(node, _COMPARISONS):
        sides = [node.this, node.expression]
    values = [each.unnest() for each in sides if _read_number(each) is None]
    numbers = [abs(number) for each in sides if (number := _read_number(each)) is not None]
    return (values[0], max(numbers)) if len(values) == 1 and numbers else None


def _read_number(node: exp.Expr) -> float | None:
    bare = node.unnest()
    if isinstance(bare, exp.Neg):
        inner = _read_number(bare.this)
        return None if inner is None else -inner
    return float(bare.name) if isinstance(bare, exp.Literal) and not bare.is_string else None
