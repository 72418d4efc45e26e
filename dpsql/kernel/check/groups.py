"""The rules of the nodes that say which groups a query has: all of a domain, or some that have rows.

The lemmas are in `tree.groups`. Here is what they assume: groups as they are counted, with keys `k0`, .. and
numbers `n0`, .. alone, of which `n0` may be a cell; candidates that are public, of which no two are equal in
their values; and that values which differ are not equal where they are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from dpsql.kernel.check.derive import Rows
from dpsql.kernel.check.proof import Proof
from dpsql.kernel.check.relation import Groups, Kind, Largest, Number, Relation
from dpsql.kernel.check.types_of import Value, exact
from dpsql.kernel.tree import (
    Candidates,
    CellsOfDecided,
    Decided,
    Marked,
    Numbered,
    OfDomain,
    OnDomain,
    Query,
    plain,
)
from dpsql.types import BOOLEAN


def _counted(proof: Proof, query: Query, keys: int, numbers: int) -> tuple[Relation, Groups, list[Value]]:
    """Return groups with so many keys and numbers, and what is known of the keys."""
    found = proof.query(query, "counts")
    groups, own = found.groups, [f"k{i}" for i in range(keys)]
    if groups is None or proof.outer or groups.decides is not None:
        return proof.refuse("groups of what are no groups as they are counted", query)
    cell = {*groups.keys} - {*own}
    if {*found.columns} != {*own, *(f"n{i}" for i in range(numbers))} or not cell <= {"n0"} & {*groups.cells}:
        return proof.refuse("groups of what are no groups as they are counted", query)
    return found, groups, [proof.rows(query).columns[name] for name in own]


def _candidates(proof: Proof, part: Candidates | Numbered, query: Query, keys: Sequence[Value]) -> Rows:
    """Return what is known of the candidates of some keys, if each is there once, and is told apart."""
    if proof.query(query, "domains").kind is not Kind.PUBLIC:
        proof.refuse("candidates that are not public", query)
    rows, columns = proof.rows(query), part.columns("")
    if not any(unique <= {v.name for v in columns.values()} for unique in proof.unique(query)):
        proof.refuse("a domain that may have a group twice", query)
    for key, v in columns.items():
        if v.name not in rows.columns or not _apart(proof, rows.columns[v.name], keys[key]):
            proof.refuse("a domain of values that are not those of the key", query)
    return rows


def relation_of_marked(proof: Proof, node: Marked) -> Relation:
    """Return rows with the key that marks them: what is known of a join with public rows."""
    rows, columns = proof.query(node.rows, "rows"), proof.rows(node.rows).columns
    if rows.kind is not Kind.OWNED or proof.outer:
        return proof.refuse("a mark of what are no rows of units", node)
    for part in node.domains:
        if isinstance(part, Candidates):
            _candidates(proof, part, part.query, [columns[f"k{i}"] for i in range(node.keys)])
    return proof.query(plain(node), "lowered")


def _apart(proof: Proof, one: Value, other: Value) -> bool:
    return proof.keeps_type(one, other) and proof.keeps_type(other, one)


def relation_of_on_domain(proof: Proof, node: OnDomain) -> Relation:
    """Return every group of a domain, or the cells of each."""
    keys = [f"k{i}" for i in range(node.keys)]
    found, groups, values = _counted(proof, node.counts, node.keys + node.outside, node.numbers)
    sets: list[list[tuple[str, ...]]] = [[(f"o{node.keys}",)]] if node.outside else []
    for each in node.domains:
        rows = _candidates(proof, each, each.query, values)
        sets.append([tuple(f"k{key}" for key in each.keys)])
        if each.ordered and node.places and frozenset("o") in rows.unique:
            sets[-1].append((f"o{each.keys[0]}",))
    cells = {name: _with_0(groups.cells[name]) for name in groups.keys if name == "n0"}
    if node.outside and (cells or not _apart(proof, Value(BOOLEAN), values[-1])):
        proof.refuse("a domain that is not joined on all keys", node)
    proof.note("declared groups", "every group of the domain is there, and each once")
    numbers = {name: replace(number, null=False) for name, number in groups.numbers.items()}
    own = (*keys, *cells)
    return found._replace(
        columns=tuple(proof.rows(node).columns),
        unique=frozenset(frozenset(sum(chosen, (*cells,))) for chosen in product(*sets)),
        few=tuple((by & {*own}, most) for by, most in found.few),
        groups=replace(
            groups, keys=own, numbers=numbers, declared=not cells, public=True, cells=cells, every=True
        ),
    )


def relation_of_decided(proof: Proof, node: Decided) -> Relation:
    """Return the groups that a number decides."""
    found, groups, values = _counted(proof, node.counts, node.keys, node.numbers)
    if len(groups.keys) > node.keys or groups.numbers[f"n{node.place}"].low < 0:
        return proof.refuse("a number that can be negative decides which groups there are", node)
    for each in node.domains:
        _candidates(proof, each, each.query, values)
    largest = None
    if node.most is not None:
        proof.note("largest groups", f"of all groups {node.most:,} are left, the largest by a number")
        largest = Largest(f"n{node.place}", node.most, frozenset(f"k{key}" for key in node.by))
    return found._replace(groups=replace(groups, decides=f"n{node.place}", largest=largest, cells={}))


def relation_of_cells(proof: Proof, node: CellsOfDecided) -> Relation:
    """Return groups that a number decides, each with its cells.

    Adding a unit changes the numbers of a group as before, and those of a cell as in `cells`. The total of
    the number of a group takes it once.
    """
    keys = [f"k{i}" for i in range(node.groups.keys)]
    found, cells, values = _counted(proof, node.cells, len(keys), 2)
    groups, columns = proof.query(node.groups, "groups").groups, proof.rows(node.groups).columns
    same = all(_apart(proof, columns[key], value) for key, value in zip(keys, values, strict=True))
    if groups is None or groups.largest is not None or "n0" not in cells.keys or len(groups.numbers) != 1:
        return proof.refuse("cells of what are no groups", node)
    if not same:
        return proof.refuse("cells of groups of other keys", node)
    proof.note("cells of groups", "each group that a number decides has its cells")
    made = {"n1": _in_all(cells.numbers["n1"], cells.most), "n2": _in_all(groups.numbers["n0"], groups.most)}
    return Relation(
        Kind.GROUPS,
        (*found.columns, "n2"),
        unique=frozenset((frozenset((*keys, "n0")),)),
        groups=Groups(
            (*keys, "n0"),
            made,
            decides="n2",
            cells={"n0": _with_0(cells.cells["n0"])},
            one_cell=cells.one_cell,
        ),
    )


def relation_of_part(proof: Proof, node: OfDomain) -> Relation:
    """Return the groups of a domain that have rows."""
    places = [key for part in node.parts for key in part.keys]
    _, groups, values = _counted(proof, node.counts, len(places), node.numbers)
    for part in node.parts:
        if part.query is not None:
            if frozenset("p") not in _candidates(proof, part, part.query, values).unique:
                proof.refuse("candidates of which two may have one number", part)
            continue
        inside = part.null is not None and part.ends[0] <= part.null <= part.ends[1]
        if inside or not exact(values[part.keys[0]].type):
            proof.refuse("candidates of which two may have one number", part)
    if len(groups.keys) > len(places):
        proof.refuse("cells of a domain of which some groups are there", node)
    numbers = tuple(f"o{i}" for i in range(len(node.parts)))
    made = replace(groups, keys=numbers, cells={}, public=True)
    return Relation(
        Kind.GROUPS, (*groups.numbers, *numbers), unique=frozenset((frozenset(numbers),)), groups=made
    )


def _with_0(ends: tuple[int, int]) -> tuple[int, int]:
    """Return the ends of cells, where a group without cells has the cell 0."""
    return min(ends[0], 0), max(ends[1], 0)


def _in_all(number: Number, most: int | None) -> Number:
    """Return a number that is 0 where it is missing, with what a unit changes in all groups."""
    by_groups = None if most is None else most * max(-number.low, number.high)
    total = min((t for t in (number.total, by_groups) if t is not None), default=None)
    return replace(number, total=total, null=False)
