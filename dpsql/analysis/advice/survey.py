"""Find all obstacles of a refused statement, after its first one; advise on joins of private tables.

A survey compiles the statement again with a compiler that goes on behind a refusal wherever parts are
independent. It only makes errors: what it compiled is dropped, and nothing in it returns a plan. The
statement is refused already, so a mistake here can make an error longer or shorter, but never accept a
statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.refused_statement import Advice, FromTable, RefusedStatement, add_clause
from dpsql.analysis.aggregate_functions import aggregate_name
from dpsql.analysis.compiled_relation import Cte, Relation, Scope
from dpsql.analysis.compiler import (
    RecoveryPoint,
    StatementCompiler,
    list_equated_columns,
)
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.typed_expression import Typed
from dpsql.errors import Fix, Obstacle, QueryRefused
from dpsql.language import Outline, Query, find_nodes, list_conjuncts, replace_name, walk_tree, write_name
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import Policy, Table, UnitColumn, UnitVia, fold, path_of

_OPERATORS = (exp.Binary, exp.Between, exp.In, exp.Case, exp.Anonymous)
"""Nodes of which several operands are expressions in the scope of the node."""
_UNEQUAL = (exp.LT, exp.GT, exp.LTE, exp.GTE, exp.NEQ)
_NO_NAME = "there is no "
"""The beginning of messages about a name that does not exist."""
_NO_OPERANDS = (exp.Query, exp.Distinct, exp.Order, exp.Star, exp.Kwarg, exp.Lambda, exp.Identifier)


class Obstructed(QueryRefused):
    """What is compiled depends on a part that was refused before, so nothing is known about it."""


class _SurveyedPart(RecoveryPoint):
    """A part of a refused statement, with what its own refusal says."""

    def __init__(self, surveyor: Surveyor, name: str, *, of_from: bool) -> None:
        self.surveyor, self.name, self.of_from = surveyor, name, of_from

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool | None:
        if not isinstance(error, QueryRefused):
            return None
        self.failed = True
        self.surveyor.record(error)
        self.surveyor.open |= self.of_from
        if self.name:
            self.surveyor.names.add(fold(self.name))
        return True


@dataclass(slots=True)
class Surveyor(StatementCompiler):
    """A compiler that writes refusals down and goes on with the next part of the statement."""

    found: list[QueryRefused] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)
    """The messages about names that do not exist."""
    names: set[str] = field(default_factory=set)
    """Folded names of refused parts: an expression that uses one is not judged."""
    open: bool = False
    """Whether a part of a FROM clause was refused: then any name may be one of its columns."""
    failed: dict[tuple[int, int], tuple[exp.Expr, Scope]] = field(default_factory=dict)
    """Refused expressions by the `id` of node and scope, which are kept alive."""
    refused: dict[exp.Expr, str] = field(default_factory=dict)
    """What refusals point at, with their message; "" for refused expressions, of which nothing is known."""

    def part(self, name: str = "", *, of_from: bool = False) -> RecoveryPoint:
        """Return a block around one part of a statement; after the part's refusal the survey goes on."""
        return _SurveyedPart(self, name, of_from=of_from)

    def report(self, refused: QueryRefused) -> None:
        """Write down a refusal that leaves other parts of the statement meaningful, and return."""
        self.record(refused)

    def give_up(self) -> NoReturn:
        """Abandon a part of the statement that needs another part, whose refusal is already recorded."""
        raise Obstructed("a part of this was refused")

    def record(self, refused: QueryRefused) -> None:
        """Write a refusal down, unless it may be a consequence of another one."""
        node = refused.node
        if isinstance(refused, Obstructed):
            return
        if isinstance(node, exp.Expr):
            known = self.refused.get(node)
            if known is not None and refused.message in self.missing:
                self.found.append(refused)  # with the first one it is one obstacle, and one change
            if known in ("", refused.message) or self._is_uncertain(node):
                return
            self.refused[node] = refused.message
            if refused.message.startswith(_NO_NAME):
                self.missing.add(refused.message)
        self.found.append(refused)

    def _is_uncertain(self, node: exp.Expr) -> bool:
        """Return whether a node contains a refused expression, or the name of a refused part."""
        if self.open and isinstance(node, exp.Column):
            return True
        return any(
            (n is not node and n in self.refused)
            or (isinstance(n, exp.Column) and fold(n.name) in self.names)
            for n in walk_tree(node)
        )

    def expression(self, node: exp.Expr, scope: Scope) -> Typed:
        """Compile an expression; where an operand is refused, the operands beside it are compiled as well."""
        key = (id(node), id(scope))
        if key in self.failed:
            raise Obstructed("this was refused")
        try:
            return StatementCompiler.expression(self, node, scope)
        except QueryRefused as refused:
            self.record(refused)
            of_operand = isinstance(refused, Obstructed)
        self.failed[key] = (node, scope)
        self.refused[node] = ""
        if of_operand and isinstance(node, _OPERATORS) and aggregate_name(node) is None:
            self._compile_operands(node, scope)
        raise Obstructed("this was refused")

    def _compile_operands(self, node: exp.Expr, scope: Scope) -> None:
        """Compile the operands of a node, of which one was refused before the others were reached."""
        for operand in node.iter_expressions():
            if isinstance(operand, exp.If):  # a branch of CASE
                self._compile_operands(operand, scope)
            elif id(operand) not in scope.memo and not isinstance(operand, _NO_OPERANDS):
                with self.part():
                    self.expression(operand, scope)

    def tentative(self, node: exp.Expr, scope: Scope) -> Typed:
        """Compile an expression that may also mean something else; its refusal is no obstacle."""
        before, failed, known = len(self.found), dict(self.failed), dict(self.refused)
        try:
            return self.expression(node, scope)
        except QueryRefused:
            if not isinstance(node, exp.Column):  # the caller looks at the parts of other nodes
                del self.found[before:]
                self.failed, self.refused = failed, known
            raise

    def query(self, node: exp.Expr, ctes: tuple[Cte, ...], depth: int) -> Relation:
        """Compile a subquery to a relation; a refused one leaves the block around it without columns."""
        try:
            return StatementCompiler.query(self, node, ctes, depth)
        except QueryRefused as refused:
            self.record(refused)
        raise Obstructed("this subquery was refused")


def order_obstacles(found: Iterable[QueryRefused]) -> tuple[Obstacle, ...]:
    """Return the obstacles of several refusals in the order of the text, the first one of each place.

    A name that does not exist is one obstacle, however often it is used; its fix changes all uses.
    """
    kept: dict[object, Obstacle] = {}
    for one in (o for refused in found for o in refused.obstacles):
        named = one.message.startswith(_NO_NAME)
        first = kept.setdefault(one.message if named else (one.message, one.line, one.col), one)
        if named and first is not one:
            kept[one.message] = _add_fix(first, one.fix)
    return tuple(sorted(kept.values(), key=lambda o: (o.line or 0, o.col or 0)))


def _add_fix(one: Obstacle, other: Fix | None) -> Obstacle:
    """Return an obstacle whose fix makes the changes of another use of the name as well."""
    fix = one.fix
    if fix is None or other is None:
        return one
    known = {(f.start, f.end) for f in (fix, *fix.also)}
    more = tuple(replace(f, also=()) for f in (other, *other.also) if (f.start, f.end) not in known)
    return replace(one, fix=replace(fix, also=(*fix.also, *more)))


_EXAMPLE = lazy_pattern(r"\b(?:user_id|visits|page|country|(?<=ORDER BY )day|(?<=user_id, )day)\b")
"""The names in hints that are examples: a privacy unit, a private table, two keys, a date."""
_PROSE = lazy_pattern(r"^(?:add|write) | counts privacy units$|: of the rows of one .*$")


def adapt_hints(
    found: Sequence[Obstacle], query: Query, policy: Policy, catalog: Catalog
) -> tuple[Obstacle, ...]:
    """Return the obstacles with hints that name what the policy has, without hints that were typed."""
    names = _map_examples(query, policy, catalog)
    typed = _list_words(Outline.of(query.source.text))
    hints: dict[str | None, str | None] = {None: None}
    own = {one.hint for one in found if one.fix is not None and one.fix.text == one.hint}
    hints |= {given: given for given in own}  # the whole statement, with names of its own
    for given in {one.hint for one in found if one.hint is not None} - own:
        hint = _fill_hint(given, names)
        known = hint is None or _is_within(_list_words(Outline(_PROSE.sub("", hint))), typed)
        hints[given] = None if known else hint
    return tuple(replace(one, hint=hints[one.hint]) for one in found)


def _fill_hint(hint: str, names: Mapping[str, str]) -> str | None:
    """Return a hint with the names that exist; None if one of its examples has no counterpart.

    Where each row is a privacy unit, units are counted by COUNT(*).
    """
    if "user_id" not in names:
        hint = hint.replace("COUNT(DISTINCT user_id)", "COUNT(*)")
    if not set(_EXAMPLE.findall(hint)) <= names.keys():
        return None
    return _EXAMPLE.sub(lambda match: names[match[0]], hint)


def _map_examples(query: Query, policy: Policy, catalog: Catalog) -> dict[str, str]:
    """Map the names of examples to names in a statement's tables, or else in the policy's tables.

    A name that exists stands for itself.
    """
    tables = []
    for node in find_nodes(query.tree, exp.Table):
        table = policy.table(node.name) if node.name.isascii() else None
        if table is not None and not table.public and table not in tables:
            tables.append(table)
    tables = tables or [t for t in policy.tables.values() if not t.public]
    known = {fold(t.name) for t in policy.tables.values()}
    known |= {fold(name) for t in policy.tables.values() for name, _ in catalog.columns(t.name)}
    examples: tuple[str, ...] = ("visits", "page", "country", "day")
    own = {word: word for word in examples if word in known}
    if not tables:
        return own
    first = tables[0]
    unit = _find_unit(tables, policy)
    columns = [(name, kind) for name, kind in catalog.columns(first.name) if name != unit]
    days = [name for name, kind in columns if kind.moment or kind.name == "DATE"]
    others = [name for name, _ in columns if name not in days]
    keys = [name for name in others if name in first.domain] or others or [name for name, _ in columns]
    found = {"visits": first.name}
    found |= {"user_id": unit} if unit is not None else {}
    found |= {"page": keys[0], "country": keys[-1]} if keys else {}
    found |= {"day": (days or keys)[0]} if days or keys else {}
    return {word: write_name(name) for word, name in found.items()} | own


def _find_unit(tables: Sequence[Table], policy: Policy) -> str | None:
    """Return the unit's column of the first table that has one; None if each row is a unit."""
    names: dict[str, str] = {}
    for given in tables:
        table: Table | None = given
        while table is not None and isinstance(table.unit, UnitVia):
            table = policy.table(table.unit.table)
        if table is not None and isinstance(table.unit, UnitColumn):
            names[fold(table.unit.column)] = table.unit.column
    return next(iter(names.values()), None)


def _list_words(outline: Outline) -> list[str]:
    return [token.text.upper() for token in outline.tokens]


def _is_within(part: list[str], whole: list[str]) -> bool:
    """Return whether words occur one after the other in others."""
    size = len(part)
    return size > 0 and any(whole[i : i + size] == part for i in range(len(whole) - size + 1))


def advise_on_private_join(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Join private tables on the unit besides."""
    select = node.find_ancestor(exp.Select)
    if not isinstance(node, exp.Join) or select is None:
        return None
    named = of.list_tables(select)
    right = next((n for n in named if n.node is node.this or n.node == node.this), None)
    pairs = [] if right is None else [*_list_equated(node, select, named, right)]
    before = [n for n in named if n is not right and _find_joined_unit(of, n) is not None]
    left = next((n for n in before if any(n is other for other, _, _ in pairs)), next(iter(before), None))
    whom = None if left is None else _find_joined_unit(of, left)
    unit = None if right is None else _find_joined_unit(of, right)
    if right is None or left is None or whom is None or unit is None:
        return None
    same = f"{left.alias}.{whom} = {right.alias}.{unit}"
    typed = node.args.get("on")
    texts = [typed.this, typed.expression] if isinstance(typed, exp.EQ) else []
    around = None if typed is None else of.outline.span(typed)
    if texts and around and all(isinstance(t, exp.Literal) and t.name.count(".") == 1 for t in texts):
        written = " = ".join(each.name for each in texts)  # names, which are no texts
        return written, Fix(written, *around)
    on = node.args.get("on")
    span = None if on is None else of.outline.span(on)
    if (
        isinstance(on, exp.EQ)
        and on.this == on.expression
        and isinstance(on.this, exp.Column)
        and not on.this.table
        and span
    ):
        written = f"{left.alias}.{on.this.name} = {right.alias}.{on.this.name}"
        if on.this.name and fold(on.this.name) == fold(whom):
            return f"ON {written}", Fix(written, *span)
    mistaken = _correct_key(of, node, named) or _count_sharing(of, node, select, (left, right))
    if mistaken is not None:
        return mistaken
    at, text = _place_of_condition(of, node, select, right), of.text
    if at is None:
        at = _place_in_using(of, node, right, whom, unit)
    if at is None:
        return None
    place, form = at
    change = form.format(same=same, unit=unit)
    fix = add_clause(text, place, change) if change.startswith("WHERE") else Fix(change, place, place)
    word = "ON" if node.args.get("on") is not None or change.startswith(" ON") else "WHERE"
    hint = f"USING ({unit}, ..)" if node.args.get("using") else f"{word} {same}"
    names = _find_unique_key(left, right, pairs)
    if names is None:
        return hint, replace(fix, asks=f"rows of one {whom} are joined")
    rows = f"rows of {left.table.name} and {right.table.name} with one {names}"
    return hint, replace(fix, provided=f"{rows} belong to one {whom}; else those pairs are left out")


def _count_sharing(
    of: RefusedStatement, join: exp.Join, select: exp.Select, sides: tuple[FromTable, FromTable]
) -> Advice | None:
    """Count the units that share each value, where a table is joined with itself for pairs of units."""
    left, right = sides
    block, unit = of.outline.block(0), left.unit
    where = select.args.get("where")
    parts = [*list_conjuncts(join.args.get("on")), *([] if where is None else list_conjuncts(where.this))]
    names = {
        fold(c.name) for part in parts if isinstance(part, _UNEQUAL) for c in find_nodes(part, exp.Column)
    }
    pairs = [
        mine for other, mine, theirs in _list_equated(join, select, [left, right], right) if mine == theirs
    ]
    if block is None or unit is None or left.table is not right.table or names != {fold(unit)} or not pairs:
        return None
    listed = ", ".join(dict.fromkeys(pairs))
    made = f"SELECT {listed}, COUNT(DISTINCT {unit}) AS n FROM {left.table.name} GROUP BY {listed}"
    fix = Fix(
        made, block.select.start, len(of.text), asks=f"how many {unit} share each {listed}, not their pairs"
    )
    return made, fix


def _find_joined_unit(of: RefusedStatement, named: FromTable) -> str | None:
    """Return the column by which a private table names its unit, of its own or of the table that has it."""
    path = path_of(of.policy.tables, named.table)
    unit = (path[-1] if path else named.table).unit
    return unit.column if isinstance(unit, UnitColumn) else None


def _list_equated(
    join: exp.Join, select: exp.Select, named: list[FromTable], right: FromTable
) -> Iterator[tuple[FromTable, str, str]]:
    """Yield the columns of tables before a join that it equates with columns of its own table."""
    before = [n for n in named if n is not right and not n.table.public]
    for name in join.args.get("using") or ():
        for other in before:
            mine, theirs = other.column(name.name), right.column(name.name)
            if mine is not None and theirs is not None:
                yield other, mine, theirs
    where = select.args.get("where")
    parts = list_conjuncts(join.args.get("on"))
    parts += [] if where is None or join.args.get("side") else list_conjuncts(where.this)
    for a, b in list_equated_columns(parts):
        theirs = right.column(b.name) if fold(b.table or right.alias) == fold(right.alias) else None
        for other in before:
            mine = other.column(a.name) if fold(a.table or other.alias) == fold(other.alias) else None
            if mine is not None and theirs is not None:
                yield other, mine, theirs


def _find_unique_key(
    left: FromTable, right: FromTable, pairs: list[tuple[FromTable, str, str]]
) -> str | None:
    """Return the columns that a join equates, if they are a unique key of one of its tables."""
    equated = [(mine, theirs) for other, mine, theirs in pairs if other is left]
    for table, side in ((left.table, 0), (right.table, 1)):
        there = {fold(pair[side]) for pair in equated}
        for key in table.unique:
            if {fold(column) for column in key} <= there:
                return ", ".join(key)
    return None


def _correct_key(of: RefusedStatement, join: exp.Join, named: list[FromTable]) -> Advice | None:
    """`a.visit_id = b.user_id`, where a has the unit too: one side names the wrong key."""
    on = join.args.get("on")
    sides = [on.this, on.expression] if isinstance(on, exp.EQ) else []
    if not all(isinstance(s, exp.Column) and s.table for s in sides):
        return None
    units = [next((n.unit for n in named if fold(n.alias) == fold(s.table)), None) for s in sides]
    wrong = [(s, u) for s, u in zip(sides, units, strict=True) if u and fold(s.name) != fold(u)]
    if len(wrong) != 1 or None in units:
        return None
    ((side, unit),) = wrong
    written = f"{side.table}.{unit}"
    asks = f"rows of one {unit} are joined"
    fix = replace_name(side.this, str(unit))
    return f"did you mean {written}?", replace(fix, asks=asks) if fix is not None else None


def _place_of_condition(
    of: RefusedStatement, join: exp.Join, select: exp.Select, right: FromTable
) -> tuple[int, str] | None:
    """Return where a condition of a join can be added, and its form there."""
    start = right.node.this.meta.get("start", 0)
    block, tokens = of.outline.block(start), of.outline.tokens
    i = next((i for i, t in enumerate(tokens) if t.start == start), 0)
    on = join.args.get("on")
    if on is not None:
        word = next((t for t in tokens[i:] if t.token_type == TokenType.ON), None)
        return None if word is None or isinstance(on, exp.Or) else (word.end + 1, " {same} AND")
    if block is None or join.args.get("using") or join.args.get("method"):
        return None
    if i and tokens[i - 1].token_type == TokenType.JOIN and tokens[i - 2].text.upper() != "CROSS":
        ends = [n.meta["end"] + 1 for n in walk_tree(right.node) if "end" in n.meta]
        return max(ends), " ON {same}"
    where, clause = select.args.get("where"), block.clause(TokenType.WHERE)
    if where is not None and clause is not None:
        return None if isinstance(where.this, exp.Or) else (clause.end + 1, " {same} AND")
    return block.before(TokenType.WHERE), "WHERE {same}"


def _place_in_using(
    of: RefusedStatement, join: exp.Join, right: FromTable, whom: str, unit: str
) -> tuple[int, str] | None:
    """Return where a unit of one name in both tables can be added to USING."""
    start, tokens = right.node.this.meta.get("start", 0), of.outline.tokens
    if not join.args.get("using") or fold(whom) != fold(unit):
        return None
    i = next((i for i, t in enumerate(tokens) if t.start == start), 0)
    word = next((j for j, t in enumerate(tokens) if j > i and t.token_type == TokenType.USING), None)
    if word is None or tokens[word + 1].token_type != TokenType.L_PAREN:
        return None
    return tokens[word + 1].end + 1, "{unit}, "
