"""Counts of rows by cells, of which at most so many of each unit count: all rows, less those that do not.

``SELECT k.., f, SUM(n) FROM (SELECT k.., f, COUNT(f) AS n FROM p GROUP BY k.., f UNION ALL
SELECT k.., f, 0 - COUNT(*) FROM z GROUP BY k.., f) GROUP BY k.., f``, where p has rows of units, and z those
rows of p with f not NULL that a numbering puts beyond C, of the units that have more than C rows in p.

*Lemma.* A unit with at most C rows in p has none in z, and counts with at most C rows. Of another one all
rows with f are numbered 1, 2, .., so all but C of them are in z: C rows or fewer count. In each cell a unit
counts with some of its rows, from 0 to C. Which these are is a function of its own rows.
"""

from __future__ import annotations

from dpsql.kernel.check.proof import (
    Proof,
    conjuncts,
    equalities,
    strip_casts,
    strip_parens,
    whole_number,
)
from dpsql.kernel.check.relation import Groups, Kind, Number, Relation
from dpsql.kernel.check.types_of import exact
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Cast,
    Column,
    Derived,
    Expr,
    IsNull,
    Join,
    Query,
    Select,
    SetOperation,
    Window,
)


def relation_of_sampled_rows(proof: Proof, query: Select) -> Relation | None:
    """Return the cells of such a query; None for other ones."""
    source = query.source
    if not isinstance(source, Derived) or not isinstance(source.query, SetOperation):
        return None
    union = source.query
    every, beyond = union.left, union.right
    if union.word != "UNION ALL" or not isinstance(every, Select) or not isinstance(beyond, Select):
        return None
    if (
        not (isinstance(every.source, Derived) and isinstance(beyond.source, Derived))
        or query.where is not None
    ):
        return None
    if not _is_less(beyond) or proof.outer:
        return None
    names = _counted(every, negative=False)
    if names is None or names != _counted(beyond, negative=True):
        return None
    p = every.source.query
    rows = proof.query(p, "source.left.source.query")
    if (
        rows.kind is not Kind.OWNED
        or rows.by_row
        or rows.strays
        or rows.shared
        or not isinstance(p, Select)
        or rows.merged
    ):
        return None
    if Column("", "u") not in rows.unit:
        return None
    keys, value, number = names
    most = _beyond(beyond.source.query, p, keys, value)
    if most is None:
        return proof.refuse("rows beyond a number that are not those of the query", union)
    made = _summed(query, source.alias, keys, every, number)
    if made is None:
        return None
    shown, cell, total = made
    ends = proof.value(every.items[len(keys)].expr, every)
    if not exact(ends.type) or not isinstance(ends.low, int) or not isinstance(ends.high, int):
        return proof.refuse("cells that are no whole numbers", union)
    proof.note("sampled rows", f"{most} rows of one unit count")
    return Relation(
        Kind.GROUPS,
        tuple(_names(query)),
        unique=frozenset((frozenset((*shown, cell)),)),
        few=_few(rows, keys, shown),
        groups=Groups(
            (*shown, cell), {total: Number(0, most, most)}, cells={cell: (ends.low, ends.high)}, empty=True
        ),
    )


def _few(rows: Relation, keys: list[str], shown: list[str]) -> tuple[tuple[frozenset[str], int], ...]:
    new = dict(zip(keys, shown, strict=True))
    found = []
    for by, most in ((frozenset[str](), 1), *rows.few):
        reached = frozenset(new[n] for n in rows.closure(by) if n in new)
        if reached:
            found.append((reached, most))
    return tuple(found)


def _names(query: Select) -> list[str]:
    return [item.name or (item.expr.name if isinstance(item.expr, Column) else "") for item in query.items]


def _is_less(query: Select) -> bool:
    return query.where is None and _is_plain(query)


def _is_plain(query: Select) -> bool:
    """Return whether a query has all its rows, each as often as it is, and columns of different names."""
    names = {name.lower() for name in _names(query)}
    return (
        not query.distinct
        and query.limit is None
        and not query.order
        and len(names) == len(query.items)
        and "" not in names
    )


def _counted(query: Select, *, negative: bool) -> tuple[list[str], str, str] | None:
    """Return the keys, the value and the number of SELECT k.., f, COUNT(..) FROM h GROUP BY k.., f."""
    if not isinstance(query.source, Derived) or not _is_less(query) or len(query.items) < 2:
        return None
    columns = [item.expr for item in query.items[:-1]]
    if tuple(columns) != query.group or not all(isinstance(c, Column) for c in columns):
        return None
    read = [c.name for c in columns if isinstance(c, Column)]
    number = strip_parens(query.items[-1].expr)
    if negative:
        if not (isinstance(number, Binary) and number.operator == "-" and whole_number(number.left) == 0):
            return None
        number = strip_parens(number.right)
        if number != Aggregate("COUNT"):
            return None
    elif number != Aggregate("COUNT", (columns[-1],)):
        return None
    return read[:-1], read[-1], _names(query)[-1]


def _summed(
    query: Select, alias: str, keys: list[str], every: Select, number: str
) -> tuple[list[str], str, str] | None:
    """Return the names of keys, cell and total of SELECT k.., f, SUM(n) FROM l GROUP BY k.., f."""
    below = _names(every)
    if len(query.items) != len(below) or not _is_plain(query):
        return None
    columns = tuple(Column(alias, name) for name in below[:-1])
    if tuple(item.expr for item in query.items[:-1]) != columns or query.group != columns:
        return None
    total = query.items[-1].expr
    if not (isinstance(total, Cast) and total.type.name == "BIGINT"):
        return None
    if total.operand != Aggregate("SUM", (Column(alias, number),)):
        return None
    names = _names(query)
    return names[: len(keys)], names[len(keys)], names[-1]


def _beyond(query: Query, p: Select, keys: list[str], value: str) -> int | None:
    """Return C if a query has the rows of `p` with a value that are numbered beyond C, of units with more."""
    if (
        not isinstance(query, Select)
        or not isinstance(query.source, Derived)
        or query.group
        or not _is_plain(query)
    ):
        return None
    kept = [*keys, value]
    numbered = query.source.query
    alias = query.source.alias
    conditions = conjuncts(query.where)
    if len(conditions) != 1 or not isinstance(conditions[0], Binary) or conditions[0].operator != ">":
        return None
    rank, most = conditions[0].left, whole_number(conditions[0].right)
    if most is None or most < 1 or not isinstance(rank, Column) or rank.table != alias:
        return None
    if not _passes(query, alias, ["u", *kept]) or not isinstance(numbered, Select):
        return None
    chain = _numbering(numbered, rank.name, kept)
    while chain is not None and isinstance(chain, Select) and not isinstance(chain.source, Join):
        chain = _numbering(chain, None, kept)
    if not isinstance(chain, Select) or not isinstance(chain.source, Join):
        return None
    return most if _of_large_units(chain, p, kept, value, most) else None


def _passes(query: Select, alias: str, names: list[str]) -> bool:
    """Return whether a query has columns of an item of FROM under their own names."""
    there = {
        item.name or (item.expr.name if isinstance(item.expr, Column) else ""): item.expr
        for item in query.items
    }
    return all(there.get(name) == Column(alias, name) for name in names)


def _numbering(query: Select, rank: str | None, kept: list[str]) -> Query | None:
    """Return the rows that a query numbers within their unit (and, without `rank`, within equal values)."""
    if not isinstance(query.source, Derived) or query.where is not None or query.group:
        return None
    alias = query.source.alias
    if not _is_plain(query) or not _passes(query, alias, ["u", *kept]):
        return None
    for item in query.items:
        window = strip_parens(item.expr)
        if not isinstance(window, Window):
            continue
        function = window.function
        if not (isinstance(function, Call) and function.name.upper() == "ROW_NUMBER"):
            return None
        if Column(alias, "u") not in window.partition:
            return None
        if rank is not None and item.name == rank and window.partition != (Column(alias, "u"),):
            return None
    if rank is not None and not any(
        item.name == rank and isinstance(strip_parens(item.expr), Window) for item in query.items
    ):
        return None
    return query.source.query


def _of_large_units(query: Select, p: Select, kept: list[str], value: str, most: int) -> bool:
    """Return whether a query has the rows of `p` with a value, of units with more than `most` in `p`."""
    join = query.source
    if not isinstance(join, Join) or join.kind not in ("", "INNER") or query.where is not None or query.group:
        return False
    a, b = join.left, join.right
    if not (isinstance(a, Derived) and isinstance(b, Derived)) or not _is_plain(query):
        return False
    if not _passes(query, a.alias, ["u", *kept]):
        return False
    pairs = [*equalities(conjuncts(join.on))]
    if len(conjuncts(join.on)) != 1 or (Column(a.alias, "u"), Column(b.alias, "u"), False) not in pairs:
        return False
    return _with_value(a.query, p, value) and _large(b.query, p, most)


def _with_value(query: Query, p: Select, value: str) -> bool:
    """Return whether a query is `p` with the further condition that the value is not NULL."""
    if not isinstance(query, Select) or (query.items, query.source) != (p.items, p.source):
        return False
    rest = conjuncts(query.where)
    for condition in conjuncts(p.where):
        if condition not in rest:
            return False
        rest.remove(condition)
    places = dict(zip(_names(p), (item.expr for item in p.items), strict=True))
    there = IsNull(places.get(value, Column("", "")), negated=True)
    return rest == [there] and _is_plain(p) and _is_plain(query) and not query.group and not p.group


def _large(query: Query, p: Select, most: int) -> bool:
    """Return whether a query has the units with more than `most` rows in `p`, each once."""
    if (
        not isinstance(query, Select)
        or not isinstance(query.source, Derived)
        or query.group
        or not _is_plain(query)
        or _names(query) != ["u"]
    ):
        return False
    alias, inner = query.source.alias, query.source.query
    if [item.expr for item in query.items] != [Column(alias, "u")] or not isinstance(inner, Select):
        return False
    if not (isinstance(inner.source, Derived) and inner.source.query == p and inner.where is None):
        return False
    below = inner.source.alias
    if inner.group != (Column(below, "u"),) or len(inner.items) != 2 or not _is_plain(inner):
        return False
    unit, number = inner.items
    if (
        _names(inner)[0] != "u"
        or unit.expr != Column(below, "u")
        or strip_casts(number.expr) != Aggregate("COUNT")
    ):
        return False
    conditions = conjuncts(query.where)
    return len(conditions) == 1 and conditions[0] == Binary(
        ">", Column(alias, number.name), _constant_of(conditions[0], most)
    )


def _constant_of(condition: Expr, most: int) -> Expr:
    """Return the right side of a condition if it is that number."""
    if isinstance(condition, Binary) and whole_number(condition.right) == most:
        return condition.right
    return Column("", "")
