"""The rules of groups: by their unit, of many units, few of each unit; and of which groups there are.

*Of one unit.* GROUP BY of the unit and keys: each group has rows of one unit, so its row is a function of
these. The keys are unique within a unit.

*Of many units.* Rows of a unit are in groups by their keys. What a unit changes of the numbers of a group is
what the rules of nodes say (`unit_numbers`, and here those of few groups): without its rows all others are
the same.

*Few of each unit* (`Bounded`, `Sampled`). The lemmas are in `tree.chosen_rows`. Here is what they assume:
rows of units, of which a column is the unit.

*Which groups there are* (`OnDomain`, `OfDomain`, `Marked`, `Decided`). The lemmas are in `tree.relations`.
Here is what they assume: groups as they are counted, with keys `k0`, .. and numbers `n0`, .. alone, of which
`n0` may be a cell; candidates that are public, of which no two are equal in their values; and that values
which differ are not equal where they are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from dpsql.kernel.check.certificate import (
    NONE,
    Groups,
    Kind,
    Largest,
    Names,
    Number,
    Relation,
    name_of,
    under,
)
from dpsql.kernel.check.derive import Rows, Value, exact
from dpsql.kernel.check.part_sets import projected_columns
from dpsql.kernel.check.periods import reads_within
from dpsql.kernel.check.proof import Proof, has_aggregate, has_window, reads_of, some
from dpsql.kernel.check.row_subqueries import check_row
from dpsql.kernel.tree import (
    Aggregate,
    Bounded,
    Candidates,
    CellsOfDecided,
    Column,
    Decided,
    Expr,
    Marked,
    Numbered,
    OfDomain,
    OnDomain,
    Query,
    Sampled,
    Select,
    plain,
)
from dpsql.kernel.unit_parts import either_parts
from dpsql.lazy_dataclass import replace
from dpsql.types import BOOLEAN


def relation_of_parents(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], group: tuple[Expr, ...]
) -> Relation | None:
    """Return the unit of each value of a column of a declared table: the least one; None for other queries.

    All rows of the table that have a unit are read, so it is the unit to which a row of a child table
    belongs.
    """
    if source.table is None or len(group) != 1 or source.strays or len(names) != 2:
        return None
    table, alias = source.table
    (key,) = group
    if not (isinstance(key, Column) and key.stored and key.table == alias):
        return None
    least = [i for i, item in enumerate(query.items) if isinstance(item.expr, Aggregate)]
    keys = [i for i, item in enumerate(query.items) if item.expr == key]
    if len(least) != 1 or len(keys) != 1:
        return None
    unit = query.items[least[0]].expr
    if not isinstance(unit, Aggregate) or unit.name.upper() != "MIN" or len(unit.arguments) != 1:
        return None
    if unit.arguments[0] not in source.unit or unit.filter is not None:
        return None
    proof.note("units of keys", f"a value of {key.name} of {table} belongs to the least unit of its rows")
    return Relation(
        Kind.PARENTS,
        names,
        frozenset((Column("", names[least[0]]),)),
        unique=frozenset((frozenset((names[keys[0]],)),)),
        table=(table, key.name),
        periods=source.periods,
    )


def relation_of_numbers(
    proof: Proof,
    source: Relation,
    query: Select,
    keys: dict[str, Expr],
    numbers: dict[str, Number],
    *,
    declared: bool,
) -> Relation:
    """Return groups by keys, which `query` reads of rows of units, with their numbers."""
    few = _few(source, keys)
    of = f"groups by {some(len(keys), 'key')}" if keys else "one group"
    proof.note("numbers of groups", f"{some(len(numbers), 'number')} of {of}")
    cells = {}
    for name, expr in keys.items():
        value = proof.value(expr, query)
        if (
            not value.nullable
            and exact(value.type)
            and isinstance(value.low, int)
            and isinstance(value.high, int)
        ):
            cells[name] = (value.low, value.high)
    of_cells = {"n0"} & cells.keys() or cells  # other whole numbers are keys of the groups that have cells
    others = {name_of(e) for name, e in keys.items() if isinstance(e, Column) and name not in of_cells}
    follows = source.closure(others)
    one = bool(cells) and all(reads_of(keys[name]) <= follows for name in of_cells)
    most = min((m for by, m in few if by >= keys.keys()), default=None)
    return Relation(
        Kind.GROUPS,
        (*keys, *numbers),
        unique=frozenset((frozenset(keys),)),
        few=few,
        groups=Groups(tuple(keys), numbers, declared=declared, cells=cells, most=most, one_cell=one),
        parts=source.parts,
    )


def _few(source: Relation, keys: dict[str, Expr]) -> tuple[tuple[Names, int], ...]:
    """Return in how many different values of keys the rows of one unit are."""
    reads = {name: reads_of(expr) for name, expr in keys.items()}
    found: list[tuple[Names, int]] = []
    for by, most in ((NONE, 1), *source.few):
        closed = source.closure(by)
        reached = frozenset(name for name, of in reads.items() if of <= closed)
        if reached or not keys:
            found.append((reached, most))
    return tuple(found)


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
        home=rows.home & shown,
        padded=rows.padded & shown,
        person=frozenset(),
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


def relation_of_units(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], group: tuple[Expr, ...]
) -> Relation:
    """Return the rows of a GROUP BY of the unit."""
    unit, keys = set[str](), set[str]()
    for expr in group:
        check_row(proof, expr, source)
        if has_window(expr):
            proof.refuse("a window among keys", expr)
    for name, item in zip(names, query.items, strict=True):
        check_row(proof, item.expr, source)
        if has_window(item.expr):
            proof.refuse("a window among aggregates", item.expr)
        if item.expr in source.unit:
            unit.add(name)
        elif item.expr in group:
            keys.add(name)
        elif not has_aggregate(item.expr) and not _reads_keys(item.expr, group, source):
            proof.refuse("a column that is no key of its group", item.expr)
    if not unit and source.strays:
        return proof.refuse("groups of a unit without the unit", query)
    proof.note("group by unit", "each group has rows of one unit")
    return _derive_groups(proof, query, source, names, group, unit, keys)


def _reads_keys(expr: Expr, group: tuple[Expr, ...], source: Relation) -> bool:
    """Return whether an expression reads only keys of the group, or the unit."""
    keys = frozenset(name_of(e) for e in group if isinstance(e, Column))
    return reads_of(expr) <= keys


def _derive_groups(
    proof: Proof,
    query: Select,
    source: Relation,
    names: tuple[str, ...],
    group: tuple[Expr, ...],
    unit: set[str],
    keys: set[str],
) -> Relation:
    """Return the rows of groups of units: their keys are unique within a unit."""
    there = {item.expr for item in query.items}
    unique: frozenset[Names] = frozenset()
    if all(expr in there or expr in source.unit for expr in group):
        unique = frozenset((frozenset(keys),))
    depends: list[tuple[Names, Names]] = [(NONE, frozenset(unit))]
    of_keys = [
        (n, reads_within(proof, i.expr, source)) for n, i in zip(names, query.items, strict=True) if n in keys
    ]
    places = {
        name_of(i.expr): n for n, i in zip(names, query.items, strict=True) if isinstance(i.expr, Column)
    }
    key_places = {source_name: name for source_name, name in places.items() if name in keys}
    sets = [NONE, *(a for a, _ in source.depends if a), *source.unique, *(a for a, _ in source.few)]
    few: list[tuple[Names, int]] = []
    for names_ in dict.fromkeys(sets):
        closed = source.closure(names_)
        reached = frozenset(n for n, reads in of_keys if reads <= closed)
        if not names_ or names_ <= places.keys():
            depends.append((frozenset(places[n] for n in names_), reached))
        few += [(reached, most) for a, most in source.few if a == names_ and reached]
    return Relation(
        Kind.OWNED,
        names,
        frozenset(Column("", name) for name in unit),
        parts=source.parts,
        home=projected_columns(source.home, key_places),
        padded=projected_columns(source.padded, key_places),
        periods=source.periods,
        person=frozenset(
            Column("", n)
            for n, i in zip(names, query.items, strict=True)
            if n in keys and i.expr in source.person
        ),
        by_row=not unit,
        strays=source.strays,
        unique=unique,
        depends=tuple((a, b) for a, b in depends if not b <= a),
        few=tuple(few),
        rows_of=source.rows_of,
    )


def _groups_of(proof: Proof, query: Query, keys: int, numbers: int) -> tuple[Relation, Groups, list[Value]]:
    """Return groups with a given number of keys and numbers, and what is known of the keys."""
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
    """Return what is proved of rows of units, each marked by whether its keys are public candidates.

    Checks that the rows are owned by units and that the candidates are public, then derives the rest as for
    the join with the candidates that the node is written as. Refuses other rows.
    """
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
    found, groups, values = _groups_of(proof, node.counts, node.keys + node.outside, node.numbers)
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
    """Return the relation of the groups that are there because a number of theirs is above 0."""
    found, groups, values = _groups_of(proof, node.counts, node.keys, node.numbers)
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
    found, cells, values = _groups_of(proof, node.cells, len(keys), 2)
    decided, columns = proof.query(node.groups, "groups"), proof.rows(node.groups).columns
    groups = decided.groups
    same = all(_apart(proof, columns[key], value) for key, value in zip(keys, values, strict=True))
    if groups is None or groups.largest is not None or "n0" not in cells.keys or len(groups.numbers) != 1:
        return proof.refuse("cells of what are no groups", node)
    if not same:
        return proof.refuse("cells of groups of other keys", node)
    proof.note("cells of groups", "each group that a number decides has its cells")
    made = {"n1": _add_up(cells.numbers["n1"], cells.most), "n2": _add_up(groups.numbers["n0"], groups.most)}
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
        parts=either_parts(found.parts, decided.parts),
    )


def relation_of_part(proof: Proof, node: OfDomain) -> Relation:
    """Return the groups of a domain that have rows."""
    places = [key for part in node.parts for key in part.keys]
    found, groups, values = _groups_of(proof, node.counts, len(places), node.numbers)
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
    unique = frozenset((frozenset(numbers),))
    return Relation(Kind.GROUPS, (*groups.numbers, *numbers), unique=unique, groups=made, parts=found.parts)


def _with_0(ends: tuple[int, int]) -> tuple[int, int]:
    """Return the ends of cells, where a group without cells has the cell 0."""
    return min(ends[0], 0), max(ends[1], 0)


def _add_up(number: Number, most: int | None) -> Number:
    """Return a number that is 0 where it is missing, with what a unit changes in all groups."""
    by_groups = None if most is None else most * max(-number.low, number.high)
    total = min((t for t in (number.total, by_groups) if t is not None), default=None)
    return replace(number, total=total, null=False)
