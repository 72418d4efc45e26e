"""The release that answers a check: the number of one group, of whose epsilon the stream has paid.

Of an average it is the mean of DOUBLEs, in which rows count as they are checked; of a score of a board, it is
the number of its rows.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from sqlglot import exp

from dpsql.composition.prepared import PreparedPublic
from dpsql.estimates.scores_and_weights import ROWS_CONFIDENCE
from dpsql.language import copy_tree
from dpsql.language.board_statements import Submission

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from dpsql.composition.prepared import Prepared, PreparedCheck, PreparedComposed, PreparedPrivate
    from dpsql.database import Database, Engines
    from dpsql.language import Options, Parameters, Query
    from dpsql.ledger import Budget
    from dpsql.policy import Policy


class StatementPlanner(Protocol):
    """What streams, lists of statements and refusals need of the planner of statements."""

    @property
    def database(self) -> Database:
        """The database, with the ledger."""

    @property
    def policy(self) -> Policy:
        """The policy of the database."""

    @property
    def analyst(self) -> str:
        """The analyst who asks, and whose streams the planner finds."""

    @property
    def defaults(self) -> Options:
        """The options of the connection."""

    def query(
        self, text: str, query: Query, engines: Engines
    ) -> PreparedPrivate | PreparedComposed | PreparedPublic:
        """Return the prepared statement of the SELECT that a CHECK counts."""

    def bound(self, text: str, parameters: Parameters) -> Prepared:
        """Prepare a statement; refuse also a public statement that does not bind."""

    def priced(self, prepared: PreparedPrivate | PreparedComposed) -> PreparedPrivate | PreparedComposed:
        """Return a statement with its present price."""

    def budget_for(self, prepared: Prepared) -> Budget:
        """Return what may be spent on a statement."""


def plan_answer(
    planner: StatementPlanner,
    prepared: PreparedCheck,
    keys: Sequence[Any] | None,
    epsilon: Fraction,
    engines: Engines,
) -> PreparedPrivate | PreparedComposed:
    """Prepare the release of one group's number, which answers a check that is off.

    It is the statement's own SELECT with the group's keys as constants; without keys it is of all rows. A
    share is computed from what is released. Of a score of a board, only the rows that it is of are counted:
    it follows from the gap (`estimates.scores_and_weights`).
    """
    check = prepared.check
    query = check.rows() if isinstance(check, Submission) else check.query
    tree = copy_tree(query.tree)
    assert isinstance(tree, exp.Select)  # noqa: S101  the analysis has taken it for one
    items = {each.alias_or_name.lower(): each for each in tree.expressions}
    for name, value in [] if keys is None else zip(prepared.keys, keys, strict=True):
        node = items[name.lower()].unalias()
        tree.where(_is_value(node, value), copy=False)
    tree.set("expressions", [items[check.column.lower()]])
    tree.set("group", None)
    tree.set("order", None)
    noise = None if planner.policy.budget.accounting == "pure" else "LAPLACE"
    options = replace(query.options, epsilon=epsilon, noise=noise, fresh=True)
    if isinstance(check, Submission):
        options = replace(options, confidence=ROWS_CONFIDENCE, cut="NOISE_ONLY")
    asked = replace(query, tree=tree, options=options, has_options=True)
    made = planner.query(query.source.text, asked, engines)
    if isinstance(made, PreparedPublic) or len(made.parts) != 1:
        raise query.source.refuse("a check is one SELECT of a number", None)
    quote = made.parts[0].method.quote
    if quote.loss.charge != quote.charge:
        raise query.source.refuse("a check is one SELECT of a number", None)
    if quote.charge.delta or quote.charge.epsilon > epsilon:
        raise query.source.refuse("the answer of a check costs no delta", None)
    return made


def _is_value(node: exp.Expr, value: Any) -> exp.Expr:  # noqa: ANN401  of any type of a key
    if value is None:
        return exp.Is(this=node.copy(), expression=exp.Null())
    return exp.EQ(this=node.copy(), expression=write_literal(value))


def write_literal(value: Any) -> exp.Expr:  # noqa: ANN401  of any type of a key
    """Return a value as a literal."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, (int, Decimal)):
        literal: exp.Expr = exp.Literal.number(
            str(abs(value)) if isinstance(value, int) else f"{abs(value):f}"
        )
        return exp.Neg(this=literal) if value < 0 else literal
    if isinstance(value, str):
        return exp.Literal.string(value)
    return exp.cast(exp.Literal.string(str(value)), "DATE" if len(str(value)) == 10 else "TIMESTAMP")
