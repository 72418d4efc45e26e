"""Relations of the items of FROM: tables, domains, lists, queries, joins.

*Scan.* A table whose unit is a column u: its rows are those of D, and the rows with u = x are by definition
the rows of the unit x. So it is owned by u. Rows where u is NULL have no unit: they are strays, which no
number counts; a condition u IS NOT NULL leaves them out. Declared unique columns are unique in all rows, so
also in those of a unit. A table each row of which is a unit: every unit has one row, so the empty set is
unique within a unit. Rows of a public table are public.

*Joins of units.* Let a and b be owned by the units x and y, and let x = y be one of the conditions. A row of
the join that has a row of both sides has rows of one unit, and which ones follows from the rows of that unit.
A row of an outer join that has no partner: whether it has one follows from the rows of its own unit, since
only these could be partners. So the join is owned: by x or y where both sides are there, by the side that is
always there, and by COALESCE(x, y) in a FULL JOIN. Rows of other units meet nowhere, so without x = y nothing
is concluded.

*Joins with public rows.* Let b be public. Each row of a has the partners that it has in all data, so the join
is owned by x. A row of b without a partner in a RIGHT or FULL JOIN has no unit, but is there because no row
of any unit matches: it is a stray. Public rows that a SEMI or ANTI JOIN keeps by owned rows are refused: they
have no unit.

*Unique columns.* Two rows of a join of a and b that are equal in S and T, unique in a and in b, have the same
row of a and of b. If the conditions equate all columns of T, unique in b (within a unit), with columns of a,
each row of a has at most one partner: rows are not repeated, and S is unique. Then also all columns of b
follow from the columns of a that the conditions read: whether there is a partner, and which.

*Rows of a table.* A unit has at most as many rows in a relation as in a table (`rows_of`) if each row of the
unit stands for one of the table of the same unit, no two for the same. So do those of a scan, and of a table
whose rows find their unit by a key. Conditions leave rows out; a join with public rows of which each row has
at most one partner repeats none. A projection has the same rows, and DISTINCT or a group of a unit stand for
one of the rows that they are made of. Nothing is concluded of other joins and of set operations.
"""

from __future__ import annotations

import re
from functools import lru_cache

from dpsql.kernel.check.certificate import NONE, Kind, Names, Relation, name_of, under
from dpsql.kernel.check.orders import conjuncts
from dpsql.kernel.check.part_sets import parts_of_join, relation_at_home
from dpsql.kernel.check.periods import equates_person, relation_of_scan, relation_of_standing_join
from dpsql.kernel.check.proof import Proof, equal_columns, equalities, narrow, reads_of, subqueries
from dpsql.kernel.check.row_subqueries import check_row
from dpsql.kernel.facts import ByColumn, ByParent, ByPeriod, ByRow
from dpsql.kernel.tree import (
    Call,
    Column,
    Derived,
    DomainScan,
    Expr,
    Join,
    Node,
    Range,
    Scan,
    Source,
    Unnest,
    Values,
)

_is_word = lru_cache(maxsize=4096)(re.compile("[a-z][a-z0-9_]*").fullmatch)
NOTHING = Relation(Kind.PUBLIC, unique=frozenset((NONE,)))
"""What a query without FROM reads: one row without columns."""


def relation_of_item(proof: Proof, source: Source) -> Relation:
    """Return the relation of an item of FROM that is no join."""
    for name in (getattr(source, "alias", ""), getattr(source, "column", "")):
        check_name(proof, name, source)
    match source:
        case Scan():
            return _scan(proof, source)
        case DomainScan(name):
            if proof.facts.domain(name) is None:
                proof.refuse("a domain that is not declared", source)
            return _relation_of_list("", ("v", "o"))
        case Range():
            if source.step is not None and source.step <= 0:
                proof.refuse("a range that does not go up", source)
            return _relation_of_list(source.alias, (source.column,))
        case Values():
            return _values(proof, source)
        case Derived(query, alias):
            return under(proof.query(query, "source.query"), alias)
    return proof.refuse("an unknown item of FROM", source)


def check_name(proof: Proof, name: str, node: Node) -> None:
    """Refuse a name of the query's own that an engine may read as another one, without case."""
    if name and not _is_word(name):
        proof.refuse("a name that is no word in lower case", node)


def _scan(proof: Proof, scan: Scan) -> Relation:
    table = proof.facts.table(scan.table)
    if table is None:
        return proof.refuse("a table that is not declared", scan)
    alias = scan.alias
    columns = tuple(f"{alias}.{name}" for name, _ in table.columns)
    unique = frozenset(frozenset(f"{alias}.{name}" for name in names) for names in table.unique)
    here = (table.name, alias)
    match table.unit:
        case None:
            return Relation(Kind.PUBLIC, columns, unique=unique)
        case ByRow():
            proof.note("scan of row units", f"each row of {table.name} is one {table.kind}")
            made = Relation(Kind.OWNED, columns, by_row=True, unique=frozenset((NONE,)), table=here)
            return relation_at_home(proof, made, *here)
        case ByColumn(column):
            unit = Column(alias, column, stored=True)
            proof.note("scan", f"a row of {table.name} belongs to the {table.kind} in {column}")
            facts = ((NONE, frozenset((f"{alias}.{column}",))),)
            made = Relation(
                Kind.OWNED,
                columns,
                frozenset((unit,)),
                strays=True,
                unique=unique,
                depends=facts,
                table=here,
                rows_of=table.name,
            )
            return relation_at_home(proof, made, *here)
        case ByPeriod():
            made = Relation(Kind.OWNED, columns, strays=True, unique=unique, table=here)
            return relation_of_scan(proof, made, table, alias)
        case ByParent():
            return Relation(Kind.CHILDREN, columns, unique=unique, table=here)
    return proof.refuse("an unknown kind of unit", scan)


def _relation_of_list(alias: str, names: tuple[str, ...]) -> Relation:
    """Return the relation of public rows whose columns are read with the alias or without one."""
    bare = tuple(f".{name}" for name in names)
    columns = tuple(f"{alias}.{name}" for name in names) if alias else ()
    both = [(frozenset((a,)), frozenset((b,))) for a, b in zip(bare, columns or bare, strict=True)]
    return Relation(Kind.PUBLIC, (*columns, *bare), depends=(*both, *((b, a) for a, b in both)))


def _values(proof: Proof, source: Values) -> Relation:
    """Return the relation of the listed rows of VALUES."""
    if any(subqueries(cell) for row in source.rows for cell in row):
        proof.refuse("a subquery in a list of rows", source)
    for name in source.columns:
        check_name(proof, name, source)
    if len(set(source.columns)) < len(source.columns):
        proof.refuse("two columns of one name", source)
    return _relation_of_list(source.alias, source.columns)


MIRRORED = {"INNER": "INNER", "CROSS": "CROSS", "LEFT": "RIGHT", "RIGHT": "LEFT", "FULL": "FULL"}

MOST_SETS = 64
"""So many unique sets of columns are kept of a join."""


def relation_of(proof: Proof, source: Source | None) -> Relation:
    """Return the relation of an item of FROM."""
    if source is None:
        return NOTHING
    if not isinstance(source, Join):
        return relation_of_item(proof, source)
    proof.path.append("left")
    left = relation_of(proof, source.left)
    proof.path[-1] = "right"
    kind = source.kind or "INNER"
    if isinstance(source.right, Unnest):
        made = _unnest(proof, left, source.right, source)
        proof.path.pop()
        return made
    right = relation_of(proof, source.right)
    proof.path.pop()
    if isinstance(source.right, Join):
        proof.refuse("a join on the right of a join", source)
    if kind not in MIRRORED and kind not in ("SEMI", "ANTI"):
        proof.refuse("an unknown kind of join", source)
    return _relation_of_join(proof, left, kind, right, source)


def _unnest(proof: Proof, left: Relation, right: Unnest, join: Join) -> Relation:
    """Return the rows of a relation, each once for each element of a list: what is unique is lost."""
    if join.kind not in ("CROSS", "", "INNER") or join.on is not None:
        proof.refuse("an outer join with the elements of a list", join)
    check_name(proof, right.alias, right)
    if left.kind not in (Kind.PUBLIC, Kind.TIED, Kind.OWNED):
        proof.refuse("elements of a list beside groups", join)
    tied = check_row(proof, right.items, left) and left.kind is Kind.PUBLIC
    columns = (*left.columns, f"{right.alias}.c0")
    proof.note("elements of a list", "each row is repeated for the elements of its list")
    kind = Kind.TIED if tied else left.kind
    return left._replace(kind=kind, columns=columns, unique=frozenset(), table=None, rows_of=None)


def _relation_of_join(proof: Proof, a: Relation, kind: str, b: Relation, join: Join) -> Relation:
    conditions = conjuncts(join.on)
    if b.kind is Kind.PARENTS or a.kind is Kind.CHILDREN:
        return _children(proof, a, kind, b, conditions, join)
    if not (a.outside or a.kind is Kind.OWNED) or not (b.outside or b.kind is Kind.OWNED):
        proof.refuse("a join of rows without a unit", join)
    owned = a if a.kind is Kind.OWNED and (a.periods or b.kind is not Kind.OWNED or not b.periods) else b
    scope = owned._replace(columns=a.columns + b.columns)
    if a.periods == b.periods:  # else what a condition asks is asked for rows with periods
        scope = scope._replace(unit=a.unit | b.unit, person=a.person | b.person)
    tied = join.on is not None and check_row(proof, join.on, scope)
    if a.outside and b.outside:
        tied |= Kind.TIED in (a.kind, b.kind)
        return _pairs(proof, a, kind, b, conditions)._replace(kind=Kind.TIED if tied else Kind.PUBLIC)
    if a.outside:
        if kind in ("SEMI", "ANTI"):
            proof.refuse("public rows that private ones keep or leave out", join)
        return _join_public(proof, b, MIRRORED[kind], a, conditions)
    if b.outside:
        return _join_public(proof, a, kind, b, conditions)
    return _join_units(proof, a, kind, b, conditions, join)


def _join_public(proof: Proof, a: Relation, kind: str, b: Relation, conditions: list[Expr]) -> Relation:
    """Return the join of owned rows with public ones; of rows with a unit, a RIGHT JOIN is an INNER one."""
    made = _pairs(proof, a, {"RIGHT": "INNER", "FULL": "LEFT"}.get(kind, kind), b, conditions)
    strays = a.strays or kind in ("RIGHT", "FULL")
    proof.note("join with public rows", f"each row keeps its unit in the {kind} JOIN with public rows")
    repeated = kind not in ("SEMI", "ANTI") and not _has_one_partner(proof, a, b, conditions)
    of = None if repeated else a.rows_of
    made = made._replace(kind=Kind.OWNED, unit=a.unit, by_row=a.by_row, strays=strays, rows_of=of)
    made = made._replace(periods=a.periods, person=a.person)
    return parts_of_join(proof, a, kind, None, conditions, made)


def _join_units(
    proof: Proof, a: Relation, kind: str, b: Relation, conditions: list[Expr], join: Join
) -> Relation:
    if a.by_row or b.by_row:
        proof.refuse("a join of rows that are units of their own", join)
    if a.periods != b.periods:
        return _join_standing(proof, a, kind, b, conditions, join)
    same = any(
        not null and x in a.unit and y in b.unit and proof.keeps(x, y) and proof.keeps(y, x)
        for x, y, null in equalities(conditions)
    )
    if not same:
        proof.refuse("a join of private rows without equal units", join)
    whole = kind in ("FULL", "LEFT", "RIGHT") and all(
        _equates_units(c, a, b) or (kind != "FULL" and _is_one_of_unit(c, a, b)) for c in conditions
    )
    made = _pairs(proof, a, "UNITS" if whole else kind, b, conditions)
    proof.note("join of units", f"the conditions of the {kind} JOIN have the units of both sides equal")
    strays = (a.strays and kind not in ("INNER", "RIGHT")) or (b.strays and kind in ("RIGHT", "FULL"))
    person = a.person if kind in ("LEFT", "SEMI", "ANTI") else b.person if kind == "RIGHT" else frozenset()
    match kind:
        case "INNER" | "CROSS":
            unit, person = a.unit | b.unit, a.person | b.person
        case "LEFT" | "SEMI" | "ANTI":
            unit = a.unit
        case "RIGHT":
            unit = b.unit
        case _:
            unit = frozenset(
                Call(name, (x, y)) for x in a.unit for y in b.unit for name in ("COALESCE", "coalesce")
            )
    made = made._replace(kind=Kind.OWNED, unit=unit, strays=strays, periods=a.periods, person=person)
    return parts_of_join(proof, a, kind, b, conditions, made)


def _join_standing(
    proof: Proof, a: Relation, kind: str, b: Relation, conditions: list[Expr], join: Join
) -> Relation:
    """Return the join of rows of periods with standing rows, by the rule of `periods`."""
    own, standing = (a, b) if a.periods else (b, a)
    whole = kind in ("LEFT", "RIGHT") and all(
        equates_person(proof, equalities([c]), own, standing) or _is_one_of_unit(c, a, b) for c in conditions
    )
    made = _pairs(proof, a, "UNITS" if whole else kind, b, conditions)
    return relation_of_standing_join(proof, (a, b), join, [*equalities(conditions)], conditions, made)


def _equates_units(condition: Expr, a: Relation, b: Relation) -> bool:
    """Return whether a condition equates units of both sides, and nothing else."""
    pairs = equalities([condition])
    return any(not null and narrow(x) in a.unit and narrow(y) in b.unit for x, y, null in pairs)


def _is_one_of_unit(condition: Expr, a: Relation, b: Relation) -> bool:
    """Return whether a condition holds for all pairs of rows of a unit, or for none of them."""
    return not subqueries(condition) and reads_of(condition) <= a.closure(NONE) | b.closure(NONE)


def _pairs(proof: Proof, a: Relation, kind: str, b: Relation, conditions: list[Expr]) -> Relation:
    """Return what is known of the columns of a join within a unit, beside its unit.

    UNITS is a FULL, LEFT or RIGHT JOIN whose only conditions equate units: all rows of a unit have both
    sides, or all have only one of them. So within a unit it is an INNER JOIN, or one side alone with the
    other NULL. So is a LEFT or RIGHT JOIN with further conditions that are the same for all of its rows.
    """
    if kind in ("SEMI", "ANTI"):
        return a._replace(table=None)
    columns = a.columns + b.columns
    if {c.partition(".")[0] for c in a.columns if c[0] != "."} & {c.partition(".")[0] for c in b.columns}:
        proof.refuse("two items of FROM with one alias")
    left, right = frozenset(a.columns), frozenset(b.columns)
    one_b = _has_one_partner(proof, a, b, conditions)
    one_a = _has_one_partner(proof, b, a, conditions)
    unique: set[Names] = set()
    depends: list[tuple[Names, Names]] = []
    if kind != "FULL":
        unique = {s | t for s in a.unique for t in b.unique}
    if kind in ("INNER", "CROSS", "LEFT", "UNITS"):
        depends += (*a.depends, *((names, left) for names in a.unique))
        if one_b:
            unique |= a.unique
            depends.append((_columns_read(conditions) & left, right))
    if kind in ("INNER", "CROSS", "RIGHT", "UNITS"):
        depends += (*b.depends, *((names, right) for names in b.unique))
        if one_a:
            unique |= b.unique
            depends.append((_columns_read(conditions) & right, left))
    if kind in ("INNER", "CROSS"):
        depends += equal_columns(proof, conditions)
    few = (a.few if kind in ("INNER", "CROSS", "LEFT", "UNITS") else ()) + (
        b.few if kind in ("INNER", "CROSS", "RIGHT", "UNITS") else ()
    )
    kept = sorted(unique, key=lambda names: (len(names), sorted(names)))[:MOST_SETS]
    return Relation(a.kind, columns, unique=frozenset(kept), depends=tuple(depends), few=few)


def _columns_read(conditions: list[Expr]) -> Names:
    return frozenset().union(*(reads_of(condition) for condition in conditions)) if conditions else NONE


def _has_one_partner(proof: Proof, a: Relation, b: Relation, conditions: list[Expr]) -> bool:
    """Return whether the conditions let each row of `a` have at most one partner in `b`, within a unit."""
    mine = frozenset(a.columns)
    fixed = {
        name_of(y)
        for x, y, _ in equalities(conditions)
        if isinstance(y, Column) and reads_of(x) <= mine and proof.keeps(y, x)
    }
    return b.single(fixed & set(b.columns))


def _children(
    proof: Proof, a: Relation, kind: str, b: Relation, conditions: list[Expr], join: Join
) -> Relation:
    """Return the rows of a table with the unit of their parents.

    Proof: `b` has for each key k of the parent table the unit u(k) of its rows: the least one, should they
    have several. By definition a row with the key k belongs to u(k). Rows whose key no row of the parent has
    belong to nobody, and are left out. So the rows of the join with u = x are the rows of the unit x, and the
    keys of `b` are unique, so that no row is repeated.
    """
    table = proof.facts.table(a.table[0]) if a.table is not None else None
    if a.kind is not Kind.CHILDREN or table is None or not isinstance(table.unit, ByParent):
        return proof.refuse("units of keys joined with other rows", join)
    unit, alias = table.unit, a.table[1] if a.table is not None else ""
    if b.kind is not Kind.PARENTS or b.table != (unit.table, unit.key) or kind != "INNER":
        return proof.refuse("rows of a table without the unit of their parent", join)
    key = Column(alias, unit.column, stored=True)
    if not any(
        x == key
        and isinstance(y, Column)
        and frozenset((name_of(y),)) in b.unique
        and proof.keeps(y, x)
        and not null
        for x, y, null in equalities(conditions)
    ):
        return proof.refuse("rows joined with parents by other columns", join)
    if len(conditions) != 1:
        return proof.refuse("a condition beside that of the parent's key", join)
    proof.note("unit of the parent", f"a row of {table.name} belongs to the unit of {unit.table}.{unit.key}")
    names = frozenset(name_of(u) for u in b.unit if isinstance(u, Column))
    return Relation(
        Kind.OWNED,
        a.columns + b.columns,
        b.unit,
        unique=a.unique,
        depends=((NONE, names), *equal_columns(proof, conditions)),
        table=a.table,
        rows_of=table.name,
        periods=b.periods,
    )
