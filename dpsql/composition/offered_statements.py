"""Finds what would be accepted in the place of a refused statement, and can be paid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.composition.refusals import Amounts, is_paid, keep_tried, with_beside, with_own_hints
from dpsql.composition.rewrites import rewrite
from dpsql.errors import QueryRefused, QuerySyntaxError
from dpsql.kernel.unit_parts import NO_PARTS
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dpsql.composition.prepared import Prepared
    from dpsql.database import Database
    from dpsql.language import Parameters
    from dpsql.ledger import Budget
    from dpsql.policy import Policy


class _Planner(Protocol):
    """The part of a planner that prepares what is offered."""

    @property
    def database(self) -> Database:
        """The database, with the ledger."""

    @property
    def analyst(self) -> str:
        """The analyst who is told."""

    @property
    def policy(self) -> Policy:
        """The policy of the database."""

    def bound(self, text: str, parameters: Parameters) -> Prepared:
        """Prepare a statement; refuse also a public statement that does not bind."""

    def budget_for(self, prepared: Prepared) -> Budget:
        """Return what may be spent on a statement."""


@dataclass(frozen=True, slots=True)
class _Offering:
    """Tries statements that are offered: each is parsed, analysed and priced, and can be paid."""

    planner: _Planner
    parameters: Parameters
    amounts: Amounts

    def analysed(self, text: str) -> Prepared:
        """Prepare a statement, whether it can be paid or not; its refusal offers amounts that are left."""
        try:
            return self.planner.bound(text, self.parameters)
        except (QueryRefused, QuerySyntaxError) as error:
            error.obstacles = self.amounts.put_into(error.obstacles)
            raise

    def __call__(self, text: str) -> Prepared:
        """Prepare a statement; refuse one that cannot be paid."""
        prepared = self.analysed(text)
        most = self.planner.policy.budget.max_epsilon_per_query
        if isinstance(prepared, (PreparedPrivate, PreparedComposed)) and not is_paid(
            prepared, self.planner.budget_for(prepared), most
        ):
            raise QueryRefused("the budget does not pay for this")
        return prepared


def offer_statements(
    planner: _Planner, text: str, refused: QueryRefused | QuerySyntaxError, parameters: Parameters
) -> QueryRefused | QuerySyntaxError:
    """Return the error of a statement with what else is refused in it and what would be accepted."""
    # Of parts of units, those of which nothing was asked are not used up.
    budget = planner.database.ledger.budget(planner.analyst, NO_PARTS)
    amounts = Amounts.of(budget, planner.policy.budget.max_epsilon_per_query)
    offering = _Offering(planner, parameters, amounts)
    refused.obstacles = amounts.put_into(refused.obstacles)
    refused.obstacles = with_beside(text, refused, offering)
    refused.obstacles = with_own_hints(text, refused, offering)

    def read_words(question: str) -> tuple[str, str] | None:
        from dpsql.composition.asked_words import read_words  # noqa: PLC0415  most statements are SQL

        return read_words(question, planner.policy, planner.database.engines().schema_database)

    offer, accepted = rewrite(text, refused, offering, read_words), None
    if offer is not None:
        refused.rewrite, refused.obstacles, accepted = offer
    if refused.rewrite is None:  # else the changes were tried together
        refused.obstacles = keep_tried(text, refused, offering, offering.analysed, accepted)
    return refused
