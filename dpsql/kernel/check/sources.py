"""Relations of the items of FROM but joins: declared tables, domains, lists, and queries.

Scan. A table whose unit is a column u: its rows are those of D, and the rows with u = x are by definition the
rows of the unit x. So it is owned by u. Rows where u is NULL have no unit: they are strays, which no number
counts; a condition u IS NOT NULL leaves them out. Declared unique columns are unique in all rows, so also in
those of a unit. A table each row of which is a unit: every unit has one row, so the empty set is unique
within a unit. Rows of a public table are public.
"""

from __future__ import annotations

import re
from functools import lru_cache

from dpsql.kernel.check.proof import Proof, subqueries
from dpsql.kernel.check.relation import NONE, Kind, Relation, under
from dpsql.kernel.facts import ByColumn, ByParent, ByRow
from dpsql.kernel.tree import (
    Column,
    Derived,
    DomainScan,
    Node,
    Range,
    Scan,
    Source,
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
            return _listed("", ("v", "o"))
        case Range():
            if source.step is not None and source.step <= 0:
                proof.refuse("a range that does not go up", source)
            return _listed(source.alias, (source.column,))
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
            return Relation(Kind.OWNED, columns, by_row=True, unique=frozenset((NONE,)), table=here)
        case ByColumn(column):
            unit = Column(alias, column, stored=True)
            proof.note("scan", f"a row of {table.name} belongs to the {table.kind} in {column}")
            facts = ((NONE, frozenset((f"{alias}.{column}",))),)
            return Relation(
                Kind.OWNED,
                columns,
                frozenset((unit,)),
                strays=True,
                unique=unique,
                depends=facts,
                table=here,
            )
        case ByParent():
            return Relation(Kind.CHILDREN, columns, unique=unique, table=here)
    return proof.refuse("an unknown kind of unit", scan)


def _listed(alias: str, names: tuple[str, ...]) -> Relation:
    """Return the relation of public rows whose columns are read with the alias or without one."""
    bare = tuple(f".{name}" for name in names)
    columns = tuple(f"{alias}.{name}" for name in names) if alias else ()
    both = [(frozenset((a,)), frozenset((b,))) for a, b in zip(bare, columns or bare, strict=True)]
    return Relation(Kind.PUBLIC, (*columns, *bare), depends=(*both, *((b, a) for a, b in both)))


def _values(proof: Proof, source: Values) -> Relation:
    """Return the relation of listed rows."""
    for row in source.rows:
        for cell in row:
            if subqueries(cell):
                proof.refuse("a subquery in a list of rows", source)
    for name in source.columns:
        check_name(proof, name, source)
    if len(set(source.columns)) < len(source.columns):
        proof.refuse("two columns of one name", source)
    return _listed(source.alias, source.columns)
