"""The table of expression rules: one rule for each node type that a private statement may contain."""

from __future__ import annotations

from sqlglot import exp

from dpsql.analysis.calls import CALL_RULES
from dpsql.analysis.compiler import Rule
from dpsql.analysis.constants import CONSTANT_RULES
from dpsql.analysis.expressions import RULES
from dpsql.analysis.local_time import ZONE_RULES
from dpsql.analysis.released_values import VALUE_RULES
from dpsql.analysis.subqueries import SUBQUERY_RULES
from dpsql.analysis.syntax import SYNTAX_RULES
from dpsql.analysis.windows import WINDOW_RULES

RULES_BY_NODE: dict[type[exp.Expr], Rule] = {
    rule.node: rule
    for rules in (
        RULES,
        CONSTANT_RULES,
        CALL_RULES,
        SYNTAX_RULES,
        SUBQUERY_RULES,
        VALUE_RULES,
        WINDOW_RULES,
        ZONE_RULES,
    )
    for rule in rules
}
