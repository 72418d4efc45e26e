"""One statement's compilation: fresh names, size limits, common table expressions, dispatch to the rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.expressions import MAX_NODES, RULES, Rule, check_arguments
from dpsql.analysis.typed import OPAQUE

if TYPE_CHECKING:
    from dpsql.analysis.catalog import Catalog
    from dpsql.analysis.relation import Scope
    from dpsql.analysis.typed import Typed
    from dpsql.language import Source
    from dpsql.policy import Policy

__all__ = ["Cte", "StatementCompiler"]

MAX_LEVELS = 16
_NODES = {
    "Dot": "access to a field",
    "Bracket": "access to an element",
    "AtTimeZone": "AT TIME ZONE",
    "PropertyEQ": "`:=`",
    "PositionalColumn": "a column by its number",
    "Star": "`*`",
    "Tuple": "a tuple",
    "Select": "a subquery",
}
_BY_NODE: dict[type[exp.Expr], Rule] = {}


def all_rules() -> dict[type[exp.Expr], Rule]:
    """Return every rule by its node type: scalar ones, subqueries, windows."""
    if not _BY_NODE:
        from dpsql.analysis.calls import CALL_RULES  # noqa: PLC0415  rules are built of rules
        from dpsql.analysis.subqueries import SUBQUERY_RULES  # noqa: PLC0415  they compile whole queries
        from dpsql.analysis.syntax import SYNTAX_RULES  # noqa: PLC0415
        from dpsql.analysis.windows import WINDOW_RULES  # noqa: PLC0415

        _BY_NODE.update(
            {rule.node: rule for rule in (*RULES, *CALL_RULES, *SYNTAX_RULES, *SUBQUERY_RULES, *WINDOW_RULES)}
        )
    return _BY_NODE


@dataclass(frozen=True, slots=True)
class Cte:
    """A common table expression: compiled anew wherever it is named."""

    name: str
    query: exp.Expr
    columns: tuple[str, ...]
    visible: tuple[Cte, ...]
    """The expressions before it, which it may name."""


@dataclass(slots=True)
class StatementCompiler:
    """Compiles one statement; holds what its rules share."""

    source: Source
    policy: Policy
    catalog: Catalog
    tables: int = 0
    """Generated aliases given out so far."""
    nodes: int = 0
    """Expression nodes compiled so far."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC).replace(tzinfo=None))
    """The clock, read once."""
    used: set[str] = field(default_factory=set)
    intervals: dict[str, str] = field(default_factory=dict)
    """Interval literals so far, with what they are made of."""
    kept: list[exp.Expr] = field(default_factory=list)
    """Keeps compiled nodes alive, so that no other node gets the identity of one."""
    """Declared tables that were named."""

    def alias(self) -> str:
        """Give out the next generated table name."""
        self.tables += 1
        return f"t{self.tables}"

    def count(self, size: int, at: exp.Expr) -> None:
        """Add to the statement's size; refuse it beyond the limit."""
        self.nodes += size
        if self.nodes > MAX_NODES:
            raise self.source.refuse(f"the statement expands to more than {MAX_NODES:,} expressions", at)

    def level(self, depth: int, at: exp.Expr) -> None:
        """Refuse subqueries nested beyond the limit."""
        if depth > MAX_LEVELS:
            raise self.source.refuse(f"subqueries are nested more than {MAX_LEVELS} deep", at)

    def expression(self, node: exp.Expr, scope: Scope) -> Typed:
        """Compile one expression by the rule of its node type; without a rule it is refused."""
        if id(node) in scope.memo:
            return scope.memo[id(node)]
        value = self._compiled(node, scope)
        scope.memo[id(node)] = value
        self.kept.append(node)
        return value

    def _compiled(self, node: exp.Expr, scope: Scope) -> Typed:
        if scope.intercept is not None:
            known = scope.intercept(node)
            if known is not None:
                return known
        rule = all_rules().get(type(node))
        if rule is None:
            what = _NODES.get(type(node).__name__, type(node).__name__.upper())
            raise self.source.refuse(f"{what} is not supported here over private data", node)
        check_arguments(self.source, node, rule.knows)
        value = rule.compile(self, node, scope)
        if OPAQUE in value.reads and not value.total:
            raise self.source.refuse(
                "this calculation does not take a subquery directly",
                node,
                "select the value in a subquery of FROM first",
            )
        if value.size > MAX_NODES:
            self.count(value.size, node)
        self.count(1, node)
        return value
