"""The rules of `Bounded` and `Sampled`: of how many groups, or of how many rows, a unit keeps rows.

The lemmas are in `tree.bounded`. Here is what they assume: rows of units, of which a column is the unit.
"""

from __future__ import annotations

from dpsql.kernel.check.counts import relation_of_numbers
from dpsql.kernel.check.proof import Proof, some
from dpsql.kernel.check.relation import Kind, Number, Relation, under
from dpsql.kernel.tree import Bounded, Column, Expr, Query, Sampled, Select, plain

UNIT = Column("", "u")


def _rows(proof: Proof, query: Query, part: str) -> Relation:
    """Return the relation of rows that have the unit as `u`."""
    rows = proof.query(query, part)
    if rows.kind is not Kind.OWNED or rows.by_row or UNIT not in rows.unit or proof.outer:
        return proof.refuse("what units keep of what are no rows of units", query)
    return rows


def relation_of_bounded(proof: Proof, node: Bounded) -> Relation:
    """Return the rows that units keep, in few groups."""
    rows, pairs, made = _rows(proof, node.rows, "rows"), _rows(proof, node.pairs, "pairs"), plain(node)
    by, shown = frozenset(node.by), frozenset(("u", *node.columns))
    if not shown <= {*rows.columns} or pairs.columns != ("u", *node.by) or not pairs.single(by):
        return proof.refuse("groups of units that are not told apart", node)
    if "r" in node.by or len({"u", *node.columns}) <= len(node.columns):  # `r` is the number of a pair
        return proof.refuse("groups of units by columns with names that others have", node)
    assert isinstance(made, Select)  # noqa: S101  as it is written
    kinds = [{proof.value(Column(alias, n), made).type for alias in "yz"} for n in pairs.columns]
    if not by <= {*rows.columns} or any(len(kind) > 1 for kind in kinds) or node.most < 1:
        return proof.refuse("groups of units that are not those of the rows", node)
    proof.note("first groups", f"the rows of a unit are in at most {some(node.most, 'group')}")
    few = (*rows.few, (by, node.most))
    return rows._replace(
        columns=("u", *node.columns),
        unit=frozenset(unit for unit in rows.unit if isinstance(unit, Column) and unit.name in shown),
        strays=False,
        unique=frozenset(names for names in rows.unique if names <= shown),
        depends=tuple((a, b & shown) for a, b in rows.depends if a <= shown),
        few=tuple((a, most) for a, most in few if a <= shown),
        table=None,
    )


def relation_of_sampled(proof: Proof, node: Sampled) -> Relation:
    """Return the cells of the rows that units keep, with their numbers."""
    if node.one:
        return _single_rows(proof, node)
    rows = under(_rows(proof, node.rows, "rows"), "s")
    names = {f"k{i}": f"k{i}" for i in range(node.keys)} | {"n0": "f0"}
    keys: dict[str, Expr] = {shown: Column("s", name) for shown, name in names.items()}
    if not {f"s.{name}" for name in names.values()} <= {*rows.columns} or node.most < 1:
        return proof.refuse("cells that are no columns of the rows", node)
    proof.note("sampled rows", f"of one unit at most {some(node.most, 'row')} count")
    numbers = {"n1": Number(0, node.most, node.most)}
    return relation_of_numbers(proof, rows, node.counted, keys, numbers, declared=False)


def _single_rows(proof: Proof, node: Sampled) -> Relation:
    """Return the cells of rows of which a unit has one in each."""
    made = plain(node)
    assert isinstance(made, Select)  # noqa: S101  as it is written
    rows = under(proof.query(node.single, "rows"), "h")
    keys: dict[str, Expr] = {f"k{i}": Column("h", f"k{i}") for i in range(node.keys)}
    keys["n0"] = Column("h", "f0")
    names = {f"h.k{i}" for i in range(node.keys)} | {"h.f0"}
    if rows.kind is not Kind.OWNED or rows.strays or proof.outer or not rows.single(names):
        proof.refuse("cells in which a unit may have any number of rows", node)
    return relation_of_numbers(proof, rows, made, keys, {"n1": Number(0, 1)}, declared=False)
