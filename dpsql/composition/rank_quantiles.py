"""Percentiles as people spell them by ranks over all rows: they are quantiles, and are released as such.

`ROW_NUMBER() OVER (ORDER BY x)` is compared with a share of n, the number of the same rows. Of the rows in
the order of x, the first whose number reaches q n has the value `QUANTILE_DISC(x, q)`:

=============================================  ===================================
written                                        is
=============================================  ===================================
``MIN(CASE WHEN rn < q * n THEN K ELSE x END)``  ``LEAST(K, QUANTILE_DISC(x, q))``
``MIN(x) FILTER (WHERE rn >= q * n)``            ``QUANTILE_DISC(x, q)``
``AVG(x)`` of both rows in the middle            ``QUANTILE_CONT(x, 0.5)``
``MAX(x)`` of the j-th of k NTILEs               ``QUANTILE_DISC(x, j / k)``
rows with ``PERCENT_RANK >= q``                  ``x > QUANTILE_DISC(x, q)``, a constant
rows with ``CUME_DIST >= q``                     ``x >= QUANTILE_DISC(x, q)``, a constant
=============================================  ===================================

The number n must be that of the same rows: the same FROM and WHERE, or a window over them. A row without x
has a rank as well; here those that have one are read, and the answer says so. A mistake could only ask
something else: what is released is proved of the quantiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.aggregate_functions import aggregate_name, is_row_count
from dpsql.analysis.compiler import call_name, read_alone, read_number, read_whole_number
from dpsql.language import (
    Query,
    copy_tree,
    find_nodes,
    keep_title,
    list_conjuncts,
    list_given,
    list_terms,
    make_call,
    make_presence,
    make_select,
    name_query,
    read_clause,
    set_where,
    walk_tree,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

_INNER = frozenset({"expressions", "from_", "joins", "where", "group", "with_", "kind"})
_RANKS = frozenset({"row_number", "percent_rank", "cume_dist", "ntile"})


@dataclass(frozen=True, slots=True)
class _Rank:
    """A rank of the rows of a block by one expression, from the least on."""

    name: str
    by: exp.Expr
    within: tuple[exp.Expr, ...]
    tiles: int = 0


@dataclass(slots=True)
class _RankedRows:
    """A block that ranks its rows, beside the block that reads it."""

    outer: exp.Select
    inner: exp.Select
    alias: str
    ranks: dict[str, _Rank] = field(default_factory=dict)
    counts: dict[str, tuple[exp.Expr, ...]] = field(default_factory=dict)
    """Numbers of all rows, or of each group of these keys."""
    columns: dict[str, exp.Expr] = field(default_factory=dict)
    sizes: exp.Expr | None = None
    """The join that has the numbers of rows."""

    def name_of(self, node: exp.Expr | None) -> str:
        """Return the folded name of a column of the inner block; empty for other nodes."""
        if not isinstance(node, exp.Column) or (node.table and fold(node.table) != fold(self.alias)):
            return ""
        return fold(node.name)

    def value_of(self, rank: _Rank) -> str | None:
        """Return the name of the inner block's column by which a rank orders the rows."""
        return next((name for name, found in self.columns.items() if _same(found, rank.by)), None)


def with_quantiles(query: Query) -> exp.Query:
    """Return a statement with quantiles in the place of ranks that stand for them; its tree is changed."""
    tree: exp.Query = query.tree
    for outer in find_nodes(tree, exp.Select):
        rows = _read(outer, tree)
        if rows is not None and rows.ranks:
            _rewrite(rows)
    return tree


def _read(outer: exp.Select, tree: exp.Query) -> _RankedRows | None:
    """Return the block in FROM that ranks rows; None if there is none, or others read it too."""
    item, joins = read_clause(outer, "from_"), outer.args.get("joins") or []
    inner = read_alone(item, tree)
    if item is None or inner is None or len(joins) > 1 or item.args.get("joins"):
        return None
    if list_given(inner) - _INNER:
        return None
    rows = _RankedRows(outer, inner, item.alias_or_name)
    for each in inner.expressions:
        name, node = fold(each.alias_or_name), each.unalias()
        if isinstance(node, exp.Window):
            if (rank := _read_rank(node)) is not None:
                rows.ranks[name] = rank
            elif is_row_count(node.this) and not (list_given(node) - {"this", "partition_by", "over"}):
                rows.counts[name] = tuple(node.args.get("partition_by") or ())
        elif isinstance(node, exp.Subquery) and _counts_same(node.this, inner, ()):
            rows.counts[name] = ()
        elif name and not isinstance(node, exp.Star):
            rows.columns[name] = node
    if joins:
        sizes = _read_sizes(rows, joins[0], tree)
        if sizes is None:
            return None
        rows.counts |= sizes
        rows.sizes = joins[0]
    return rows


def _read_rank(window: exp.Window) -> _Rank | None:
    name, order = call_name(window.this), window.args.get("order")
    terms = [] if order is None else order.expressions
    if name not in _RANKS or len(terms) != 1 or terms[0].args.get("desc"):
        return None
    if list_given(window) - {"this", "partition_by", "order", "over"}:
        return None
    tiles = read_whole_number(window.this.expressions[0]) if name == "ntile" else 0
    if tiles is None:
        return None
    return _Rank(name, terms[0].this, tuple(window.args.get("partition_by") or ()), tiles)


def _counts_same(node: exp.Expr, rows: exp.Select, keys: Sequence[exp.Expr]) -> bool:
    """Return whether a query counts the rows of a block, all or for each value of keys."""
    if not isinstance(node, exp.Select) or list_given(node) - {
        "expressions",
        "from_",
        "joins",
        "where",
        "group",
    }:
        return False
    if rows.args.get("group") is not None:
        return False
    counts = [item for item in node.expressions if is_row_count(item.unalias())]
    others = [item.unalias() for item in node.expressions if item not in counts]
    same = all(node.args.get(name) == rows.args.get(name) for name in ("from_", "where"))
    same &= (node.args.get("joins") or []) == (rows.args.get("joins") or [])
    told = (
        {key.sql() for key in keys}
        == {key.sql() for key in list_terms(node)}
        == {key.sql() for key in others}
    )
    return len(counts) == 1 and same and told


def _read_sizes(rows: _RankedRows, join: exp.Expr, tree: exp.Query) -> dict[str, tuple[exp.Expr, ...]] | None:
    """Return the numbers of rows of each group that a block is joined with, by their names."""
    made = read_alone(join.this, tree)
    within = next((rank.within for rank in rows.ranks.values() if rank.within), ())
    if made is None or join.args.get("side") or not within or not _counts_same(made, rows.inner, within):
        return None
    names = {fold(item.alias_or_name): item.unalias() for item in made.expressions}
    using = [fold(each.name) for each in join.args.get("using") or ()]
    equal = []
    for part in list_conjuncts(join.args.get("on")):
        if not isinstance(part, exp.EQ) or not all(
            isinstance(side, exp.Column) for side in (part.this, part.expression)
        ):
            return None
        equal.append(fold(part.this.name))
        if fold(part.this.name) != fold(part.expression.name):
            return None
    joined = {*using, *equal}
    keys = {name for name, node in names.items() if not is_row_count(node)}
    if joined != keys or not keys <= rows.columns.keys():
        return None
    return {name: within for name, node in names.items() if is_row_count(node)}


def _rewrite(rows: _RankedRows) -> None:
    """Put quantiles in the place of what is computed of ranks, if nothing else is computed of them."""
    outer = rows.outer
    made = list[tuple[exp.Expr, exp.Expr]]()
    for item in outer.expressions:
        for node in walk_tree(item, lambda n: aggregate_name(n) is not None):
            quantile = _read_aggregate(rows, node)
            if quantile is not None:
                made.append((node, quantile))
    conditions = list_conjuncts(read_clause(outer))
    kept, chosen = list[exp.Expr](), list[exp.Expr]()
    for condition in conditions:
        constant = _read_condition(rows, condition)
        middle = None if constant is not None else _read_middle(rows, condition)
        if constant is not None:
            chosen.append(constant)
        elif middle is not None and not made:
            made += middle
        else:
            kept.append(condition)
    replaced = {id(node) for node, _ in made} | {id(c) for c in conditions if c not in kept}
    hidden = rows.ranks.keys() | rows.counts.keys()
    left = [
        node
        for name, part in outer.args.items()
        if name not in ("from_", "joins", "with_")
        for node in _walk(part, replaced)
    ]
    if not (made or chosen) or any(rows.name_of(node) in hidden for node in left):
        return
    values = {rows.value_of(rank) for rank in rows.ranks.values()}
    rows.inner.set("expressions", [e for e in rows.inner.expressions if fold(e.alias_or_name) not in hidden])
    for node, quantile in made:
        node.replace(keep_title(node, quantile))
    if rows.sizes is not None:
        outer.set("joins", None)
        kept += map(make_presence, list_terms(outer))
    set_where(outer, *kept, *chosen)
    named = " and ".join(sorted(value for value in values if value))
    if not all(_is_there(rows, value) for value in values if value):
        outer.meta["note"] = f"percentiles are of the rows that have {named}"


def _walk(part: object, without: set[int]) -> Iterator[exp.Expr]:
    for root in part if isinstance(part, list) else [part]:
        if isinstance(root, exp.Expr):
            for node in walk_tree(root, lambda n: id(n) in without):
                if id(node) not in without:
                    yield node


def _is_there(rows: _RankedRows, value: str) -> bool:
    """Return whether WHERE of the ranked rows says that a value is not NULL."""
    by = rows.columns[value]
    kinds = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ, exp.Between)
    for part in list_conjuncts(read_clause(rows.inner)):
        if isinstance(part, kinds) and _same(part.this, by):
            return True
        if (
            isinstance(part, exp.Not)
            and isinstance(part.this.unnest(), exp.Is)
            and _same(part.this.unnest().this, by)
        ):
            return True
    return False


def _same(one: exp.Expr, other: exp.Expr) -> bool:
    return one == other or one.sql() == other.sql()


def _quantile(rows: _RankedRows, value: str, q: Fraction, name: str = "QUANTILE_DISC") -> exp.Expr:
    column = exp.column(value, table=rows.alias or None)
    return make_call(name, column, exp.Literal.number(_decimal(q)))


def _decimal(q: Fraction) -> str:
    return repr(float(q))


def _read_aggregate(rows: _RankedRows, node: exp.Expr) -> exp.Expr | None:
    """Return the quantile that an aggregate over ranked rows is; None for others."""
    condition = None
    call = node
    if isinstance(node, exp.Filter):
        call, condition = node.this, node.expression.this
    name, arguments = aggregate_name(call), getattr(call, "expressions", [])
    if name not in ("min", "max") or len(arguments) != 1:
        return None
    value, least = arguments[0].unnest(), None
    if (
        isinstance(value, exp.Case)
        and condition is None
        and value.this is None
        and len(value.args["ifs"]) == 1
    ):
        branch, default = value.args["ifs"][0], value.args.get("default")
        condition, value = branch.this, branch.args["true"]
        if default is not None and not isinstance(default, exp.Null):
            condition, least, value = exp.Not(this=condition), value, default
    if condition is None:
        return None
    column = rows.name_of(value)
    share = _read_tile(rows, condition, column) if name == "max" else _read_share(rows, condition, column)
    if share is None or (name == "max" and least is not None):
        return None
    made = _quantile(rows, column, share)
    return made if least is None else make_call("LEAST", copy_tree(least), made)


def _read_share(rows: _RankedRows, condition: exp.Expr, column: str) -> Fraction | None:
    """Return q of a condition `rn >= q * n`, or of NOT `rn < q * n`, of ranks by a column."""
    node, negated = condition.unnest(), False
    if isinstance(node, exp.Not):
        node, negated = node.this.unnest(), True
    if not isinstance(node, exp.LT if negated else exp.GTE):
        return None
    rank, product = rows.ranks.get(rows.name_of(node.this)), node.expression.unnest()
    if (
        rank is None
        or rank.name != "row_number"
        or rows.value_of(rank) != column
        or not isinstance(product, exp.Mul)
    ):
        return None
    for share, number in ((product.this, product.expression), (product.expression, product.this)):
        q, within = read_number(share), rows.counts.get(rows.name_of(number))
        if q is not None and within is not None and 0 < q < 1 and _is_grouped(rows, rank, within):
            return q
    return None


def _read_tile(rows: _RankedRows, condition: exp.Expr, column: str) -> Fraction | None:
    """Return j / k of a condition `tile = j` of NTILE(k) by a column."""
    node = condition.unnest()
    rank = rows.ranks.get(rows.name_of(node.this)) if isinstance(node, exp.EQ) else None
    place = read_whole_number(node.args.get("expression"))
    if rank is None or place is None or rank.name != "ntile" or rows.value_of(rank) != column:
        return None
    if not 1 <= place < rank.tiles or not _is_grouped(rows, rank, rank.within):
        return None
    return Fraction(place, rank.tiles)


def _is_grouped(rows: _RankedRows, rank: _Rank, within: Sequence[exp.Expr]) -> bool:
    """Return whether ranks and numbers are those of each group of the outer block."""
    keys = {rows.name_of(key) for key in list_terms(rows.outer)}
    names = {name for name, node in rows.columns.items() if any(_same(node, key) for key in rank.within)}
    texts = {key.sql() for key in rank.within} == {key.sql() for key in within}
    return texts and keys == names and len(names) == len(rank.within)


def _read_condition(rows: _RankedRows, condition: exp.Expr) -> exp.Expr | None:
    """Return the comparison with a released quantile that a condition on a relative rank is."""
    node = condition.unnest()
    rank = rows.ranks.get(rows.name_of(node.args.get("this")))
    q = read_number(node.expression) if isinstance(node, (exp.GTE, exp.GT)) else None
    if (
        rank is None
        or rank.within
        or q is None
        or not 0 < q < 1
        or rank.name not in ("percent_rank", "cume_dist")
    ):
        return None
    value = rows.value_of(rank)
    if value is None or rows.inner.args.get("group") is not None:
        return None
    source = copy_tree(rows.inner)
    source.set("expressions", [exp.alias_(copy_tree(rows.columns[value]), "x", quoted=True)])
    source.meta["select"] = -1
    x = exp.column("x", table="s", quoted=True)
    quantile = make_call("QUANTILE_DISC", x, exp.Literal.number(_decimal(q)))
    select = make_select([quantile], name_query(source, "s"))
    kind = exp.GT if rank.name == "percent_rank" else exp.GTE
    return kind(this=exp.column(value, table=rows.alias or None), expression=exp.Subquery(this=select))


def _read_middle(rows: _RankedRows, condition: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]] | None:
    """Return the medians that averages of the rows in the middle are, if a condition keeps these rows."""
    node = condition.unnest()
    rank = rows.ranks.get(rows.name_of(node.args.get("this")))
    value = None if rank is None else rows.value_of(rank)
    if rank is None or value is None or rank.name != "row_number" or not isinstance(node, exp.In):
        return None
    places = set[str]()
    for each in node.expressions:
        half = each.expressions[0].unnest() if len(each.expressions) == 1 else None
        plus = half.this.unnest() if isinstance(half, exp.Div) else None
        number = rows.name_of(plus.this) if isinstance(plus, exp.Add) else ""
        two = None if not isinstance(half, exp.Div) else read_number(half.expression)
        one = None if not isinstance(plus, exp.Add) else read_number(plus.expression)
        if two != 2 or one != 1 or not _is_grouped(rows, rank, rows.counts.get(number, (exp.Null(),))):
            return None
        places.add(call_name(each))
    if places - {"floor", "ceil", "ceiling"} or len(places) != 2:
        return None
    made = list[tuple[exp.Expr, exp.Expr]]()
    for item in rows.outer.expressions:
        for call in walk_tree(item, lambda n: aggregate_name(n) is not None):
            if aggregate_name(call) is None:
                continue
            arguments = getattr(call, "expressions", [])
            if aggregate_name(call) != "avg" or len(arguments) != 1 or rows.name_of(arguments[0]) != value:
                return None
            made.append((call, _quantile(rows, value, Fraction(1, 2), "QUANTILE_CONT")))
    return made or None
