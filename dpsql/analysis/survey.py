"""Find all obstacles of a statement that was refused, after its first one.

A survey compiles the statement again with a compiler that goes on behind a refusal wherever parts are
independent. It only makes errors: what it compiled is dropped, and nothing in it returns a plan. The
statement is refused already, so a mistake here can make an error longer or shorter, but never accept a
statement.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from typing import NoReturn

from sqlglot import exp

from dpsql.analysis.aggregates import call_of
from dpsql.analysis.compiler import Part, StatementCompiler
from dpsql.analysis.relation import Cte, Relation, Scope
from dpsql.analysis.typed import Typed
from dpsql.errors import Fix, Obstacle, QueryRefused
from dpsql.language import walked
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

_OPERATORS = (exp.Binary, exp.Between, exp.In, exp.Case, exp.Anonymous)
"""Nodes of which several operands are expressions in the scope of the node."""
_NO_NAME = "there is no "
"""The beginning of messages about a name that does not exist."""
_NO_OPERANDS = (exp.Query, exp.Distinct, exp.Order, exp.Star, exp.Kwarg, exp.Lambda, exp.Identifier)


class Obstructed(QueryRefused):
    """What is compiled depends on a part that was refused before, so nothing is known about it."""


class _Surveyed(Part):
    """A part whose refusal is written down."""

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

    def part(self, name: str = "", *, of_from: bool = False) -> Part:
        """See `StatementCompiler`."""
        return _Surveyed(self, name, of_from=of_from)

    def report(self, refused: QueryRefused) -> None:
        """See `StatementCompiler`; the caller goes on."""
        self.record(refused)

    def give_up(self) -> NoReturn:
        """See `StatementCompiler`."""
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
            if known in ("", refused.message) or self._uncertain(node):
                return
            self.refused[node] = refused.message
            if refused.message.startswith(_NO_NAME):
                self.missing.add(refused.message)
        self.found.append(refused)

    def _uncertain(self, node: exp.Expr) -> bool:
        """Return whether a node contains a refused expression, or the name of a refused part."""
        if self.open and isinstance(node, exp.Column):
            return True
        return any(
            (n is not node and n in self.refused)
            or (isinstance(n, exp.Column) and fold(n.name) in self.names)
            for n in walked(node)
        )

    def expression(self, node: exp.Expr, scope: Scope) -> Typed:
        """See `StatementCompiler`; the operands beside a refused one are compiled as well."""
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
        if of_operand and isinstance(node, _OPERATORS) and call_of(node) is None:
            self._operands(node, scope)
        raise Obstructed("this was refused")

    def _operands(self, node: exp.Expr, scope: Scope) -> None:
        """Compile the operands of a node, of which one was refused before the others were reached."""
        for operand in node.iter_expressions():
            if isinstance(operand, exp.If):  # a branch of CASE
                self._operands(operand, scope)
            elif id(operand) not in scope.memo and not isinstance(operand, _NO_OPERANDS):
                with self.part():
                    self.expression(operand, scope)

    def tentative(self, node: exp.Expr, scope: Scope) -> Typed:
        """See `StatementCompiler`."""
        before, failed, known = len(self.found), dict(self.failed), dict(self.refused)
        try:
            return self.expression(node, scope)
        except QueryRefused:
            if not isinstance(node, exp.Column):  # the caller looks at the parts of other nodes
                del self.found[before:]
                self.failed, self.refused = failed, known
            raise

    def query(self, node: exp.Expr, ctes: tuple[Cte, ...], depth: int) -> Relation:
        """See `StatementCompiler`; a refused subquery leaves the block around it without columns."""
        try:
            return StatementCompiler.query(self, node, ctes, depth)
        except QueryRefused as refused:
            self.record(refused)
        raise Obstructed("this subquery was refused")


def in_order(found: Iterable[QueryRefused]) -> tuple[Obstacle, ...]:
    """Return the obstacles of several refusals in the order of the text, the first one of each place.

    A name that does not exist is one obstacle, however often it is used; its fix changes all uses.
    """
    kept: dict[object, Obstacle] = {}
    for one in (o for refused in found for o in refused.obstacles):
        named = one.message.startswith(_NO_NAME)
        first = kept.setdefault(one.message if named else (one.message, one.line, one.col), one)
        if named and first is not one:
            kept[one.message] = _with_fix(first, one.fix)
    return tuple(sorted(kept.values(), key=lambda o: (o.line or 0, o.col or 0)))


def _with_fix(one: Obstacle, other: Fix | None) -> Obstacle:
    """Return an obstacle whose fix makes the changes of another use of the name as well."""
    fix = one.fix
    if fix is None or other is None:
        return one
    known = {(f.start, f.end) for f in (fix, *fix.also)}
    more = tuple(replace(f, also=()) for f in (other, *other.also) if (f.start, f.end) not in known)
    return replace(one, fix=replace(fix, also=(*fix.also, *more)))
