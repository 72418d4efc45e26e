"""Prove from the tree of a counting query, and from the facts of the owner, how much one unit changes it.

`certify` is the only way to a `Certificate`. What no rule proves is refused with `NotCertified`.

==================  ===============================================================================
``certificate``     what is known of the rows of a query, and what is concluded
``proof``           one proof while it is made: the facts, the steps, the relations proved
``derive``          the rule of each node; ``values`` what is known of the values of a query
``arithmetic``      ends of numbers; ``functions`` functions and lists; ``aggregates`` with windows
``sources``         relations of items of FROM; ``queries`` those of SELECT and set operations;
                    ``row_subqueries`` what an expression of a row may ask
``unit_groups``     rules of groups; ``unit_numbers`` what one unit changes of their numbers; ``few_rows``
                    rows without a unit, of which one unit changes few
``part_sets``       which parts of units rows belong to; ``periods`` units of one period each
``orders``          which rows an order leaves tied
``totality``        that a query never fails, and has one result; ``words`` that its text is its tree
==================  ===============================================================================
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import date

from dpsql.kernel.check.certificate import (
    _SEAL,
    NONE,
    Certificate,
    Change,
    Groups,
    Keys,
    Kind,
    Most,
    Names,
    NotCertified,
    Relation,
    Step,
    Together,
)
from dpsql.kernel.check.derive import fits, natural, whole
from dpsql.kernel.check.proof import Proof, Proved
from dpsql.kernel.check.queries import relation_of_query
from dpsql.kernel.check.totality import Known, check_total
from dpsql.kernel.check.words import has_known_words
from dpsql.kernel.facts import ByPeriod, Facts, fold
from dpsql.kernel.tree import (
    Between,
    Binary,
    Cast,
    Column,
    Constant,
    InList,
    Node,
    Paren,
    Query,
    Select,
    list_tables,
    parts,
    replace_nodes,
)


class Proofs:
    """What was proved of the queries in counting queries of one statement, each once.

    A query is known by its identity, and stays as long as this: what was proved of it holds wherever it
    stands, as long as the facts are the same. Others are proved anew.
    """

    __slots__ = ("facts", "folded", "folds", "relations", "total", "words", "written")

    def __init__(self) -> None:
        self.facts: Facts | None = None

    def begin(self, facts: Facts) -> None:
        """Keep what was proved from these facts, and of no others."""
        if self.facts != facts:
            self.facts, self.total = facts, Known({}, {})
            self.folds = False
            """Whether the name of a stored column is not in lower case."""
            self.written: list[Query] = []
            self.words: set[int] = set()
            """The nodes of the queries that were written, by their identity: their words are known."""
            self.folded: dict[int, tuple[Node, Node]] = {}
            self.relations: dict[int, Proved] = {}


def certify(query: Query, facts: Facts, proofs: Proofs | None = None) -> Certificate:
    """Return what is proved of a counting query; `NotCertified` if that is not enough to count it.

    `proofs` gets what is proved of the queries in it, and has that of others.
    """
    known = proofs or Proofs()
    known.begin(facts)
    _read_words(query, known)
    # A column is known by its name in lower case.
    folded = replace_nodes(query, _fold_name, known.folded) if known.folds else query
    proof = Proof(facts, check_total(folded, facts, known.total), relation_of_query, known=known.relations)
    tables = [table for name in list_tables(query) if (table := facts.table(name)) is not None]
    if len({table.kind for table in tables if not table.public}) > 1:
        proof.refuse("units of different kinds", query)
    periods = any(isinstance(table.unit, ByPeriod) for table in tables)
    return _conclude(proof, relation_of_query(proof, folded), query, folded, periods=periods)


def renew(made: Certificate, query: Query, facts: Facts) -> Certificate | None:
    """Return the certificate of a query that is like a certified one, from the same facts; else None.

    They may differ in texts, days, times and whole numbers that are compared in WHERE.

    *Lemma.* Let such constants of one kind stand for each other in two queries, each always for the same one,
    and let all else be equal. Then the proof of one is that of the other, step by step, since no rule reads
    the value of such a constant. Of WHERE the rules read which columns are there, which have one value, which
    units are equal, and of which parts of units a row may be: but here units are in no parts. A comparison is
    total by the types of its sides, and a constant of one kind has one type. WHERE narrows no interval. Parts
    of a query that are to be equal are equal in both queries, or in none.
    """
    if facts.home is not None or made.periods:
        return None
    there = set[tuple[Node, Node]]()
    waiting: list[tuple[object, object, bool]] = [(made.query, query, False)]
    while waiting:
        one, two, where = waiting.pop()
        if isinstance(one, tuple) and isinstance(two, tuple) and len(one) == len(two):
            waiting += [(a, b, where) for a, b in zip(one, two, strict=True)]
        elif type(one) is not type(two) or not isinstance(one, Node) or not isinstance(two, Node):
            if type(one) is not type(two) or one != two or (type(one) is float and repr(one) != repr(two)):
                return None
        elif where and (kind := _kind_of_constant(one)) is not None and kind == _kind_of_constant(two):
            there.add((one, two))
        else:
            compares = isinstance(one, Binary) and one.operator in _COMPARISONS
            where = where and (compares or isinstance(one, (Paren, Between, InList)))
            for name in one.__match_args__:
                a, b = getattr(one, name), getattr(two, name)
                if a is not b or isinstance(a, (Node, tuple)):
                    waiting.append((a, b, where or (name == "where" and isinstance(one, Select))))
    each = [len({pair[side] for pair in there}) for side in (0, 1)]
    return replace(made, query=query, seal=_SEAL) if each == [len(there)] * 2 else None


_COMPARISONS = frozenset(("AND", "=", "<>", "<", "<=", ">", ">="))


def _kind_of_constant(node: Node) -> tuple[object, ...] | None:
    """Return what the type of a constant follows from, whatever its value is; None of other nodes."""
    match node:
        case Cast(Constant(int() as value), kind) if type(value) is int and fits(whole(natural(value)), kind):
            return (kind, natural(value), node.safe, node.bounded) if 0 <= value < 1 << 63 else None
        case Constant(int() as value, kind) if type(value) is int:
            return (kind, natural(value)) if 0 <= value < 1 << 63 else None
        case Constant(str() | date() as value, kind):
            return kind, type(value)
    return None


def _fold_name(node: Node) -> Node:
    """Return a stored column with its name in lower case: names are compared without case."""
    if isinstance(node, Column) and node.stored and node.name != fold(node.name):
        return Column(node.table, fold(node.name), stored=True)
    return node


def _read_words(query: Query, known: Proofs) -> None:
    """Refuse words that are none of those of SQL; each node is read once, wherever it stands."""
    seen, waiting = {id(query)}, list[Node]((query,))
    for node in waiting:
        if not has_known_words(node):
            raise NotCertified("a word that is none of those of SQL", node)
        known.folds |= _fold_name(node) is not node
        for part in parts(node):
            place = id(part)
            if place not in seen and place not in known.words:
                seen.add(place)
                waiting.append(part)
    known.words |= seen
    known.written.append(query)


def _conclude(proof: Proof, found: Relation, written: Query, query: Query, *, periods: bool) -> Certificate:
    """Return the certificate of a query as it was written, of which a relation was proved."""
    groups = found.groups
    if found.kind is not Kind.GROUPS or groups is None:
        return proof.refuse("a query that counts no groups", query)
    if any(number.null for number in groups.numbers.values()):
        proof.refuse("a number that can be NULL", query)
    if not found.unique:
        proof.refuse("groups that no columns tell apart", query)
    large = proof.find_overflow()
    if large is not None:
        proof.refuse("a sum that can overflow", large)
    most = groups.most
    numbers = []
    for name, number in groups.numbers.items():
        total = number.total
        if most is not None:
            whole = most * max(-number.low, number.high)
            total = whole if total is None else min(total, whole)
        numbers.append(Change(name, number.low, number.high, total))
    largest = groups.largest
    return Certificate(
        query=written,
        numbers=tuple(numbers),
        keys=_kind_of_keys(proof, query, found.unique, groups),
        columns=groups.keys,
        distinct=tuple(found.unique),
        most_groups=most,
        decides=groups.decides,
        largest=None if largest is None else Most(largest.number, largest.most, largest.within),
        grouped_by=found.few,
        cells=tuple(groups.cells.items()),
        one_cell=groups.one_cell,
        every_group=groups.declared or groups.every,
        together=tuple(_bound_total(each, most) for each in groups.together),
        bounds=groups.bounds,
        fine=groups.fine,
        derivation=proof.derivation(),
        seal=_SEAL,
        rows_of=groups.rows_of,
        parts=found.parts,
        periods=periods,
    )


def _bound_total(changes: Together, most: int | None) -> Together:
    """Return changes of several numbers in all groups together, for a unit in at most some groups."""
    if most is None:
        return changes
    total = most * changes.each
    return replace(changes, total=total if changes.total is None else min(changes.total, total))


def _kind_of_keys(proof: Proof, query: Query, unique: Collection[Names], groups: Groups) -> Keys:
    if groups.declared:
        return Keys.ONE if NONE in unique else Keys.DECLARED
    if groups.decides is not None:
        return Keys.UNKNOWN
    if not groups.public and not groups.cells.keys() >= {*groups.keys}:
        return proof.refuse("groups of private keys, whatever their numbers are", query)
    return Keys.CELLS if groups.cells else Keys.SPARSE
