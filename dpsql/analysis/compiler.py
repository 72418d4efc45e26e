"""The state of one statement's compilation: generated names, size limits, and the rule of each node type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import NoReturn, Protocol, Self

from sqlglot import exp

from dpsql.analysis.bound_ladders import Ladder, WholeTable
from dpsql.analysis.compiled_relation import Cte, From, Relation, Scope
from dpsql.analysis.facts_of_values import is_never_negative
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.typed_expression import Typed, make_column
from dpsql.errors import InternalError, QueryRefused
from dpsql.kernel.check import Proofs
from dpsql.kernel.loss import exact
from dpsql.kernel.tree import OPAQUE, Expr, OrderTerm
from dpsql.language import MARK, StatementText, find_nodes, list_from_items, list_visible_ctes
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.policy import Assumed, Policy, Table, fold

MAX_LEVELS = 16
_NODES = {
    "ArrayOverlaps": "`&&`",
    "Dot": "access to a field",
    "Bracket": "access to an element",
    "PropertyEQ": "`:=`",
    "PositionalColumn": "a column by its number",
    "Star": "`*`",
    "Tuple": "a tuple",
    "Select": "a subquery",
    "Explode": "more than one UNNEST in a select list, or one beside windows or groups,",
}


class QueryCompiler(Protocol):
    """The signature of `select_blocks.compile_query`, which the modules below call through the compiler."""

    def __call__(
        self, compiler: StatementCompiler, node: exp.Expr, ctes: tuple[Cte, ...], depth: int
    ) -> Relation:
        """Compile a subquery to a relation."""


class RecoveryPoint:
    """A block of code that compiles one part of a statement, independently of the parts beside it.

    Of a `StatementCompiler`, a refusal in it leaves the block, as if the block were not there. Only the
    compiler of `survey`, which makes no plan, goes on behind it.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool | None:
        return None


_STRICT = RecoveryPoint()


def read_clock() -> datetime:
    """Return the current time in UTC, without a zone."""
    return datetime.now(UTC).replace(tzinfo=None)


@dataclass(slots=True)
class StatementCompiler:
    """Compiles the expressions and subqueries of one statement, and holds the state that its rules share.

    It stops at the first refusal.
    """

    source: StatementText
    policy: Policy
    catalog: Catalog
    find_rule: Callable[[type[exp.Expr]], Rule | None]
    """The rule of each node type that an expression may contain."""
    compile_query: QueryCompiler
    tables: int = 0
    """The number of table names generated so far."""
    nodes: int = 0
    """The number of expression nodes compiled so far."""
    now: datetime = field(default_factory=read_clock)
    """The current time, read once for the whole statement, or `as_of`."""
    closed_at: date = field(init=False)
    """The day on which parts of units count as closed or not: none later than the present one."""
    proofs: Proofs = field(default_factory=Proofs)
    """What the kernel has proved of the statement's queries."""
    used: set[str] = field(default_factory=set)
    """The declared tables that the statement names."""
    intervals: dict[str, str] = field(default_factory=dict)
    """Interval literals so far, each with its months, days and microseconds as text."""
    columns: dict[str, Typed] = field(default_factory=dict)
    """The columns of all items of FROM so far, by their generated names (`t1.c0`)."""
    max_rows: int | None = None
    """How many rows of a unit count in all groups together, as the statement's options say."""
    epsilon: Fraction | None = None
    """The epsilon of the statement; None: it asks for an error."""
    error: Fraction | None = None
    """The error that it asks for, in the unit of its numbers."""
    default_error: Fraction | None = None
    """The error that the connection asks for: one of counts."""
    whole: WholeTable | None = None
    """The table of which the outermost block reads all rows; None: it reads others, or not all."""
    keyed: bool = False
    """Whether the outermost block has keys."""
    each_value: bool = True
    """Whether COUNT(DISTINCT x) may be answered by the numbers of units that have each declared value."""
    public_items: frozenset[str] = frozenset()
    """The generated names of the public items of the outermost FROM clause."""
    places_found: tuple[int, ...] = ()
    """The places of the bounds that were found for the ladders, in order; none while a price is quoted."""
    rows_per_unit: dict[int, tuple[From, int | None, dict[str, Assumed]]] = field(default_factory=dict)
    """The policy's bounds on the rows of a unit in FROM clauses, by the `id` of the clause.

    Each comes with the clause, which is kept alive so, and with the assumptions that state the bound, by what
    is done to the rows beyond it.
    """
    finest: int = 40
    """The power of two of the largest bound on a unit's totals that is measured in least steps."""
    ladders: list[Ladder] = field(default_factory=list)
    """The bounds to be found privately, in order of first use."""
    quotients: list[tuple[exp.Expr, bool, bool]] = field(default_factory=list)
    """The calls of AVG that are closer as a sum divided by a count; whether their values are DOUBLEs, and
    whether distances from a centre are closer still: not of one value from 0 on, of which a sum has half the
    noise, nor where a kept ladder has the bound on a unit's total."""
    searched_sums: list[exp.Expr] = field(default_factory=list)
    """The calls of SUM whose bounds on a unit's totals are found by search."""
    closed: bool = False
    """Whether it reads parts of units alone that count as closed, as the policy says."""
    read_before: date | None = None
    """The day before which rows of the table of the parts of units are read; None: all of them."""
    assumed: dict[Assumed, None] = field(default_factory=dict)
    """What the statement leaves open and is answered with, in order."""
    deepest: int = 0
    """The deepest level of subqueries so far."""
    kept: list[exp.Expr] = field(default_factory=list)
    """The compiled nodes, kept alive so that no other node gets the `id` of one of them."""

    def __post_init__(self) -> None:
        self.closed_at = self.now.date()

    def alias(self) -> str:
        """Return the next generated name of a table of the compiled query."""
        self.tables += 1
        return f"t{self.tables}"

    def bound(self, ladder: Ladder) -> int:
        """Return a bound in steps: the one that was found, else the largest."""
        if ladder not in self.ladders:
            self.ladders.append(ladder)
        place = self.ladders.index(ladder)
        return ladder.bounds[self.places_found[place] if self.places_found else -1]

    def assume(self, assumed: Assumed) -> None:
        """Note what the answer rests on and the statement does not say, to be shown with the answer."""
        self.assumed.setdefault(assumed)

    def count(self, size: int, at: exp.Expr) -> None:
        """Add to the size of the statement, and refuse the statement beyond the limit."""
        self.nodes += size
        if self.nodes > MAX_NODES:
            raise self.source.refuse(f"the statement expands to more than {MAX_NODES:,} expressions", at)

    def level(self, depth: int, at: exp.Expr) -> None:
        """Enter a subquery; refuse the statement if they are nested beyond the limit."""
        self.deepest = max(self.deepest, depth)
        if depth > MAX_LEVELS:
            raise self.source.refuse(f"subqueries are nested more than {MAX_LEVELS} deep", at)

    def has_room(self, nodes: int, depth: int) -> bool:
        """Return whether so many more expressions, and subqueries down to a level, are within the limits."""
        return self.nodes + nodes <= MAX_NODES and depth <= MAX_LEVELS

    def part(self, name: str = "", *, of_from: bool = False) -> RecoveryPoint:
        """Return the block for an independent part; `name` is what other parts call it.

        `of_from` says that the part has columns which other parts name.
        """
        return _STRICT

    def report(self, refused: QueryRefused) -> None:
        """Raise a refusal that leaves the meaning of the other parts as it is."""
        raise refused

    def give_up(self) -> NoReturn:
        """Stop where a part is missing that was refused; only a survey can come here."""
        raise InternalError("this is a bug of dpsql, nothing was run or charged: a refused part was missed")

    def name_value(self, table: str, name: str, value: Typed) -> Typed:
        """Return an aggregate or a window as a column of a block, with what is known of its values."""
        made = make_column(table, name, value.type)
        made = replace(made, link=value.owned_key, decimal=value.decimal, bounds=value.bounds)
        made = replace(made, domain=value.domain, span=value.span, nulls=value.nulls)
        made = replace(made, not_negative=is_never_negative(value, self.columns))
        self.columns[f"{table}.{name}"] = made
        return made

    def tentative(self, node: exp.Expr, scope: Scope) -> Typed:
        """Compile an expression that may also mean something else; its refusal is no obstacle."""
        return self.expression(node, scope)

    def query(self, node: exp.Expr, ctes: tuple[Cte, ...], depth: int) -> Relation:
        """Compile a subquery to a relation."""
        return self.compile_query(self, node, ctes, depth)

    def expression(self, node: exp.Expr, scope: Scope) -> Typed:
        """Compile an expression by the rule of its node type; a node without a rule is refused."""
        if id(node) in scope.memo:
            return scope.memo[id(node)]
        value = self._compile_expression(node, scope)
        scope.memo[id(node)] = value
        self.kept.append(node)
        return value

    def _compile_expression(self, node: exp.Expr, scope: Scope) -> Typed:
        if scope.intercept is not None:
            known = scope.intercept(node)
            if known is not None:
                return known
        rule = self.find_rule(type(node))
        if isinstance(node, exp.Placeholder):
            raise self.source.refuse(
                f"no value is given for :{node.name}", node, f"a parameter is written ? or ${node.name}"
            )
        if rule is None:
            what = _NODES.get(type(node).__name__, type(node).__name__.upper())
            raise self.source.refuse(f"{what} is not supported here over private data", node)
        check_arguments(self.source, node, rule.knows)
        value = rule.compile(self, node, scope)
        if OPAQUE in value.reads and not value.is_total:
            raise self.source.refuse(
                "this calculation does not take a subquery directly",
                node,
                "select the value in a subquery of FROM first",
            )
        for note in value.notes:
            self.assume(note)
        if "assumed" in node.meta:
            self.assume(node.meta["assumed"])
        if value.size > MAX_NODES:
            self.count(value.size, node)
        self.count(1, node)
        return value


MAX_NODES = 5_000


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: a node type, the function that compiles it, and the arguments that the function handles."""

    node: type[exp.Expr]
    compile: Callable[[StatementCompiler, exp.Expr, Scope], Typed]
    knows: frozenset[str]


_SQL_NAMES = {
    "method": "this kind of JOIN",
    "locks": "FOR UPDATE",
    "connect": "CONNECT BY",
    "windows": "a WINDOW clause",
    "query": "a subquery",
    "grouping_sets": "GROUPING SETS",
    "when": "AT (VERSION ..)",
    "sample": "SAMPLE",
    "pivots": "PIVOT",
    "ordinality": "WITH ORDINALITY",
    "hint": "a hint",
    "into": "INTO",
    "by_name": "BY NAME",
    "laterals": "LATERAL",
}
"""SQL names for node arguments that the parser names otherwise; for error messages."""


def check_arguments(source: StatementText, node: exp.Expr, knows: frozenset[str]) -> None:
    """Refuse a node that has an argument which its rule does not handle."""
    for name, value in node.args.items():
        if name not in knows and value is not None and value is not False and value != []:
            word = _SQL_NAMES.get(name, name.strip("_").replace("_", " ").upper())
            listed = isinstance(value, list) and isinstance(value[0], (exp.Lateral, exp.Pivot))
            part = value[0] if listed else value
            raise source.refuse(f"{word} is not supported here", part if isinstance(part, exp.Expr) else node)


def find_cte(name: exp.Expr) -> exp.CTE | None:
    """Return the common table expression that a table's name in FROM means; None: it means a table."""
    if name.args.get("db") is not None:
        return None
    return next((cte for cte in list_visible_ctes(name) if fold(cte.alias) == fold(name.name)), None)


def read_alone(item: exp.Expr | None, tree: exp.Query) -> exp.Select | None:
    """Return the SELECT of an item of FROM that nothing else reads."""
    if isinstance(item, exp.Subquery):
        return item.this if isinstance(item.this, exp.Select) else None
    cte = find_cte(item) if isinstance(item, exp.Table) else None
    if cte is None or cte.args["alias"].columns or not isinstance(cte.this, exp.Select):
        return None
    name = fold(cte.alias)
    named = (table for table in find_nodes(tree, exp.Table) if fold(table.name) == name)
    uses = [table for table in named if find_cte(table) is cte]
    return cte.this if len(uses) == 1 else None


def function_name(node: exp.Expr) -> str | None:
    """Return the name of a function call as the analyst typed it; None for other nodes."""
    if not isinstance(node, exp.Anonymous):
        return None
    name = node.args.get("this")  # the property takes longer, and this is asked of every node
    return name[len(MARK) :] if isinstance(name, str) and name.startswith(MARK) else None


def call_name(node: exp.Expr) -> str:
    """Return the name of a function call in lower case, "" for other nodes."""
    return (function_name(node) or "").lower()


def split_words(table: str) -> frozenset[str]:
    """Return the words of a text as a set; tables of words are written as one text."""
    return frozenset(table.split())


def list_declared_tables(policy: Policy, select: exp.Select) -> list[tuple[exp.Table, Table]]:
    """Return the names in FROM and JOIN that are of declared tables, with these."""
    named = [node for node in list_from_items(select) if isinstance(node, exp.Table) and node.name.isascii()]
    return [(node, table) for node in named if (table := policy.table(node.name)) is not None]


def list_equated_columns(conditions: Iterable[exp.Expr]) -> Iterator[tuple[exp.Column, exp.Column]]:
    """Yield the columns that conditions equate with others, each pair both ways."""
    for part in conditions:
        one, other = (part.this, part.expression) if isinstance(part, exp.EQ) else (None, None)
        if isinstance(one, exp.Column) and isinstance(other, exp.Column):
            yield one, other
            yield other, one


def split_arguments(call: exp.Expr) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Return the arguments of a call that have a name, and the others."""
    named: list[exp.Expr] = [each for each in call.expressions if isinstance(each, exp.Kwarg)]
    return named, [each for each in call.expressions if not isinstance(each, exp.Kwarg)]


def read_whole_number(node: object) -> int | None:
    """Return the value of a literal that is a whole number; None for other nodes."""
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdecimal():
        return int(node.this)
    return None


def read_item(
    select: exp.Select, node: exp.Expr, has_column: Callable[[str], bool] = lambda name: False
) -> exp.Expr:
    """Return the expression of the select list that a place or an alias means; any other expression itself.

    In GROUP BY a name is that of a column of FROM, if there is one: `has_column` says so.
    """
    items, place = select.expressions, read_whole_number(node)
    found: exp.Expr | None = None
    if place is not None:
        found = items[place - 1].unalias() if 1 <= place <= len(items) else None
    elif isinstance(node, exp.Column) and not node.table and not has_column(node.name):
        named = (i.this for i in items if isinstance(i, exp.Alias) and fold(i.alias) == fold(node.name))
        found = next(named, None)
    return node if found is None else found


def read_number(node: exp.Expr) -> Fraction | None:
    """Return the value of a literal number, perhaps with a sign; None for other nodes."""
    sign = 1
    while isinstance(node, (exp.Paren, exp.Neg)):
        sign = -sign if isinstance(node, exp.Neg) else sign
        node = node.this
    if not isinstance(node, exp.Literal) or node.args.get("is_string"):
        return None
    try:
        return sign * exact(str(node.this))
    except ValueError:
        return None


def list_order_terms(source: StatementText, order: exp.Expr | None) -> list[exp.Expr]:
    """Return the terms of an ORDER BY; refuse one with an argument that dpsql does not read."""
    if order is None:
        return []
    check_arguments(source, order, frozenset({"this", "expressions"}))
    for term in order.expressions:
        check_arguments(source, term, frozenset({"this", "desc", "nulls_first"}))
    return list(order.expressions)


def compile_order_term(term: exp.Expr, expr: Expr) -> OrderTerm:
    """Return the compiled term of an ORDER BY."""
    nulls = "FIRST" if term.args.get("nulls_first") else "LAST"
    return OrderTerm(expr, "DESC" if term.args.get("desc") else "ASC", nulls)
