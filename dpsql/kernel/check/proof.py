"""One proof while it is made: the facts, the steps so far, the relations proved, and what conditions imply.

``COUNT(CASE WHEN c THEN u END)`` counts the rows where c holds, and ``COUNT(x)`` those where x is not NULL.
If x is computed so that it is NULL wherever e is, and c says that e is not NULL, then x is there only where
c holds. Both are followed through queries that pass them on to the query that computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import NamedTuple, NoReturn

from dpsql.kernel.check.certificate import NONE, Names, NotCertified, Relation, Step, name_of
from dpsql.kernel.check.derive import ROWS, Number, Rows, Scope, Value, common, exact, fits, unwrap, whole
from dpsql.kernel.check.orders import conjuncts
from dpsql.kernel.check.totality import Checked
from dpsql.kernel.check.values import value_of
from dpsql.kernel.facts import Facts
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Case,
    Cast,
    Column,
    Constant,
    Cut,
    Derived,
    Expr,
    InQuery,
    IsNull,
    Join,
    Node,
    Paren,
    Query,
    Select,
    Source,
    Steps,
    Try,
    Unscaled,
    Window,
    parts,
    plain,
    walk,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.types import SqlType


class Proved(NamedTuple):
    """What was proved of a query that is in no expression, and by which steps: its own, and whole proofs."""

    query: Query
    relation: Relation
    steps: list[Step | tuple[str, Proved]]
    fitting: list[tuple[Scope, Node]]


@dataclass(slots=True)
class Proof:
    """The state of a proof: what is known of a query so far, and by which steps it was concluded."""

    facts: Facts
    """What the owner declares."""
    values: Checked
    """The types and intervals of all expressions of the query."""
    prove: Callable[[Proof, Query], Relation]
    """Derives the relation of a query."""
    outer: list[Relation] = field(default_factory=list)
    """The relations of the queries around a subquery, the outermost first."""
    selects: list[Select] = field(default_factory=list)
    """The SELECTs around the node that is looked at, the outermost first."""
    path: list[str] = field(default_factory=list)
    """The names of the parts of the tree that lead to the node."""
    known: dict[int, Proved] = field(default_factory=dict)
    """By the identity of the query: an equal one may have columns of other types."""
    steps: list[Step | tuple[str, Proved]] = field(default_factory=list)
    fitting: list[tuple[Scope, Node]] = field(default_factory=list)
    """Sums that do not overflow, since a unit adds little to each."""

    def sums_fit(self, expr: Expr, select: Select, low: Number, high: Number) -> None:
        """Record that all sums in an expression are of values between two ends, so that none overflows.

        They are of one row a unit.
        """
        scope = self.values.scope_of(select)
        if max(-low, high) * ROWS < 1 << 127 and any(scope is each for each, _ in self.values.large):
            sums = (e for e in nodes_of_row(expr) if isinstance(e, Aggregate) and e.name == "SUM")
            self.fitting += [(scope, each) for each in sums]

    def find_overflow(self) -> Node | None:
        """Return a sum of which nothing shows that it does not overflow; None if there is none."""
        for scope, node in self.values.large:
            if not any(scope is other and node == found for other, found in self.fitting):
                return node
        return None

    def refuse(self, rule: str, node: Node | None = None) -> NoReturn:
        """Stop the proof: no rule derives what is needed."""
        raise NotCertified(rule, node)

    def note(self, rule: str, concludes: str) -> None:
        """Record a step of the proof, at the node that is looked at."""
        self.steps.append(Step(rule, concludes, ".".join(self.path)))

    def query(self, query: Query, part: str) -> Relation:
        """Return the relation of a query that is a part of the node that is looked at."""
        self.path.append(part)
        if self.outer:
            made = self.prove(self, query)
        else:
            known = self.known.get(id(query))
            if known is None:
                known = self.known[id(query)] = self._prove_alone(query)
            self.steps.append((".".join(self.path), known))
            self.fitting += known.fitting
            made = known.relation
        self.path.pop()
        return made

    def _prove_alone(self, query: Query) -> Proved:
        """Prove the relation of a query that is in no expression: it is the same at all places."""
        around = self.path, self.steps, self.fitting
        self.path, self.steps, self.fitting = [], [], []
        made = Proved(query, self.prove(self, query), self.steps, self.fitting)
        self.path, self.steps, self.fitting = around
        return made

    def derivation(self) -> tuple[Step, ...]:
        """Return the steps of the proof, those of each query where it stands first."""
        found, seen = list[Step](), set[int]()

        def add(steps: list[Step | tuple[str, Proved]], path: str) -> None:
            for step in steps:
                if isinstance(step, Step):
                    at = f"{path}.{step.path}" if path and step.path else path or step.path
                    found.append(Step(step.rule, step.concludes, at))
                elif id(step[1]) not in seen:
                    seen.add(id(step[1]))
                    add(step[1].steps, f"{path}.{step[0]}" if path else step[0])

        add(self.steps, "")
        return tuple(found)

    def keeps(self, expr: Expr, other: Expr) -> bool:
        """Return whether different values of an expression differ where it is compared with another one."""
        if expr == other:
            return True
        return self.keeps_type(self._type_of(expr), self._type_of(other))

    def keeps_type(self, one: Value, other: Value) -> bool:
        """Return whether different values of `one` stay different where they are compared with `other`."""
        kind = one.type if one.type is other.type else common(one, other)
        return kind is not None and _injective(one.type, kind)

    def rows(self, query: Query) -> Rows:
        """Return what is known of all rows of a query, of every unit and of none."""
        return self.values.found[id(plain(query))]

    def _type_of(self, expr: Expr) -> Value:
        """Return the type of an expression; that of a column is written in it, and the walk compared it."""
        if isinstance(expr, Column) and expr.type is not None:
            return Value(expr.type)
        return self.value(expr, self.selects[-1])

    def unique(self, query: Query) -> frozenset[Names]:
        """Return the sets of columns that are unique in the result of a query, of several rows or one."""
        rows = self.rows(query)
        named = frozenset(s for s in rows.unique if all(name[0] != "#" for name in s))
        return named | {NONE} if rows.single else named

    def value(self, expr: Expr, select: Select) -> Value:
        """Return the type and the interval of an expression of a SELECT."""
        return value_of(expr, self.values.scope_of(select))


def some(number: int, noun: str) -> str:
    """Write a number as all numbers of a proof are, with its noun.

    >>> some(1, "group"), some(1200, "row")
    ('1 group', '1,200 rows')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _injective(one: SqlType, other: SqlType) -> bool:
    """Return whether a conversion between types has a different value for each."""
    if one == other or one.name == "NULL" or (exact(one) and (exact(other) or other.name == "DECIMAL")):
        return True
    pair = (one.name, other.name)
    kept = pair in (("ENUM", "VARCHAR"), ("DATE", "TIMESTAMP"))
    return kept or (other.name == "DOUBLE" and one.integer and one.bits <= 32)


def is_null(expr: Expr) -> bool:
    """Return whether an expression is the constant NULL."""
    while isinstance(expr, (Paren, Cast)):
        expr = expr.inner if isinstance(expr, Paren) else expr.operand
    return isinstance(expr, Constant) and expr.value is None


EQUAL = frozenset({"=", "IS NOT DISTINCT FROM"})


def equalities(conditions: list[Expr]) -> Iterator[tuple[Expr, Expr, bool]]:
    """Return what conditions equate, both ways, and whether NULL equals NULL there."""
    for condition in conditions:
        if isinstance(condition, Binary) and condition.operator in EQUAL:
            null = condition.operator != "="
            left, right = unwrap(condition.left), unwrap(condition.right)
            yield left, right, null
            yield right, left, null


def nodes_of_row(expr: Expr) -> Iterator[Expr]:
    """Return the expressions of which an expression is made, without those in its subqueries."""
    waiting: list[Node] = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Expr):
            yield node
        waiting += [part for part in parts(node) if not isinstance(part, (Query, Source))]


class Traits(NamedTuple):
    """Which traits the nodes of an expression have, without those of its subqueries."""

    aggregates: bool
    """Whether it aggregates rows, beside in windows."""
    windows: bool
    subqueries: bool
    reads: Names
    """The columns that it reads, also in subqueries."""
    bare: Names
    """The columns that it reads without the name of an item of FROM, beside in subqueries."""


def traits(expr: Expr) -> Traits:
    """Return which kinds of nodes an expression has; each node keeps its own, made from its parts."""
    found: Traits | None = getattr(expr, "_traits", None)
    if found is None:
        found = _find_traits(expr)
        object.__setattr__(expr, "_traits", found)
    return found


def _find_traits(expr: Expr) -> Traits:
    if isinstance(expr, Column):
        own = frozenset((name_of(expr),))
        return Traits(False, False, False, own, NONE if expr.table else own)
    aggregates = windows = subqueries = False
    reads = bare = NONE
    waiting = parts(expr)
    for part in waiting:
        if isinstance(part, Expr):
            below = traits(part)
            aggregates |= below.aggregates
            windows |= below.windows
            subqueries |= below.subqueries
            if below.reads:
                reads = reads | below.reads if reads else below.reads
                bare = bare | below.bare if bare else below.bare
        elif isinstance(part, Query):
            subqueries = True
            reads |= {name_of(node) for node in walk(part) if isinstance(node, Column)}
        else:
            waiting += parts(part)
    if isinstance(expr, Window):
        return Traits(False, True, subqueries, reads, bare)
    return Traits(aggregates or isinstance(expr, Aggregate), windows, subqueries, reads, bare)


def has_aggregate(expr: Expr) -> bool:
    """Return whether an expression aggregates the rows of its query, beside in windows."""
    return traits(expr).aggregates


def has_window(expr: Expr) -> bool:
    """Return whether an expression has a window function, beside those in subqueries."""
    return traits(expr).windows


def subqueries(expr: Expr) -> list[tuple[Expr, Query]]:
    """Return the subqueries of an expression, but not those in them, with the nodes that have them."""
    found: list[tuple[Expr, Query]] = []
    waiting: list[Node] = [expr] if traits(expr).subqueries else []
    while waiting:
        node = waiting.pop()
        for part in parts(node):
            if not isinstance(part, Query):
                waiting.append(part)
            elif isinstance(node, Expr):
                found.append((node, part))
            else:
                raise NotCertified("a query in what is no expression", node)
    return found


def reads_of(expr: Expr) -> Names:
    """Return all columns that an expression reads, also in subqueries."""
    return traits(expr).reads


def operand_in(expr: Expr) -> Expr | None:
    """Return what is looked up in a subquery by IN; None for other expressions."""
    return unwrap(expr.operand) if isinstance(expr, InQuery) else None


_STRICT = frozenset(("+", "-", "*", "//", "%", "=", "<>", "<", "<=", ">", ">="))


def implies(x: Expr, y: Expr, query: Select, unit: frozenset[Expr]) -> bool:
    """Return whether x being not NULL proves y not NULL, in each row of a unit that a query reads."""
    case = unwrap(y)
    if x == y:
        return True
    if not isinstance(case, Case) or len(case.branches) != 1 or case.default is not None:
        return False
    condition, value = case.branches[0]
    if value not in unit:
        return False
    known = [*_definitions(unwrap(condition), query)]
    return any(
        all(_follows(made, each) for each in conjuncts(said))
        for made, here in _definitions(unwrap(x), query)
        for said, where in known
        if where is here
    )


def _follows(made: Expr, condition: Expr) -> bool:
    """Return whether a condition holds wherever a value is not NULL."""
    made = unwrap(made)
    if isinstance(made, Case) and len(made.branches) == 1 and made.default is None:
        guard, value = made.branches[0]
        if any(each == condition for each in conjuncts(guard)):
            return True
        return _follows(value, condition)
    return isinstance(condition, IsNull) and condition.negated and _null_with(made, unwrap(condition.operand))


def _null_with(made: Expr, e: Expr) -> bool:
    """Return whether an expression is NULL wherever `e` is."""
    made = unwrap(made)
    if made == e:
        return True
    match made:
        case Paren(inner):
            return _null_with(inner, e)
        case Cast(operand) | Try(operand) | Steps(operand) | Unscaled(operand) | Cut(_, operand):
            return _null_with(operand, e)
        case Binary(operator, left, right) if operator in _STRICT:
            return _null_with(left, e) or _null_with(right, e)
        case Case(branches, default):
            never = all(_null_with(condition, e) or _null_with(value, e) for condition, value in branches)
            return never and (default is None or _null_with(default, e))
    return False


def _definitions(expr: Expr, query: Select) -> Iterator[tuple[Expr, Query]]:
    """Yield what a column is computed as, with the query that computes it, from the outermost query on."""
    yield expr, query
    while isinstance(expr, Column):
        below = _select_under(query, expr.table)
        if below is None:
            break
        items = {i.column: i.expr for i in below.items}
        if expr.name not in items or below.group or below.distinct:
            break
        expr, query = unwrap(items[expr.name]), below
        yield expr, query


def _select_under(query: Select, alias: str) -> Select | None:
    """Return the SELECT whose rows an alias names; None if they may be NULL, or are of something else."""
    source = query.source
    while isinstance(source, Join):
        if source.kind in ("RIGHT", "FULL"):
            return None
        source = source.left
    below = plain(source.query) if isinstance(source, Derived) and source.alias == alias else None
    return below if isinstance(below, Select) else None


def narrow(expr: Expr) -> Expr:
    """Return a column of whole numbers without a conversion to a type that has all of them."""
    if isinstance(expr, Cast) and exact(expr.type):
        x = unwrap(expr.operand)
        if isinstance(x, Column) and x.type is not None and exact(x.type) and fits(whole(x.type), expr.type):
            return x
    return expr


def equal_columns(proof: Proof, conditions: list[Expr]) -> list[tuple[Names, Names]]:
    """Return which columns follow from others, or from nothing, because conditions equate them."""
    found = []
    for x, each, _ in equalities(conditions):
        y = narrow(each)
        if not isinstance(y, Column):
            continue
        if (isinstance(x, Column) or not reads_of(x)) and not subqueries(x) and proof.keeps(each, x):
            found.append((reads_of(x), frozenset((name_of(y),))))
    return found
