"""Keep the plans of statements for other times: under which key, and which of them hold later."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from dpsql.composition.prepared import PreparedComposed, PreparedPrivate, PreparedPublic
from dpsql.kernel.loss import Charge, Filter
from dpsql.lazy_dataclass import dataclass
from dpsql.release.reuse import is_settled

if TYPE_CHECKING:
    from dpsql.database import Database, Engines
    from dpsql.language import Options, Parameters
    from dpsql.policy import Policy, View


def scopes(policy: Policy, analyst: str) -> tuple[Filter, ...]:
    """Return the filters that an analyst's charge meets: the policy's, the analyst's, the analyst's groups'.

    There is no filter where epsilons add: what a statement's epsilon buys does not depend on them.
    """
    budget = policy.budget
    if budget.accounting == "pure":
        return ()
    own = policy.analysts.get(analyst, policy.analysts.get("*"))
    groups = [group.charge for group in policy.groups.values() if analyst in group.members]
    caps = ([own.charge] if own is not None else []) + groups
    return budget.filter, *(budget.filter_of(cap) for cap in caps)


LONGEST = 16_384
"""The most characters of a text whose plan is kept."""

PlanKey = tuple[object, ...]


def plan_key(
    text: str, values: Iterable[object], defaults: Options, filters: tuple[Filter, ...] = ()
) -> PlanKey:
    """Return the key of a statement: equal values of different types have different keys.

    `filters` are those of the scopes that are charged, by which a statement is laid out: analysts with
    another cap have other plans.
    """
    written = tuple((type(value).__name__, repr(value)) for value in values)
    return text, written, defaults.key, filters


def holds_later(
    prepared: PreparedPrivate | PreparedComposed | PreparedPublic, text: str, views: Mapping[str, View]
) -> bool:
    """Return whether a plan stays valid: its text reads no clock, and its files are settled.

    Not of a statement that may read the clock, nor of one that was planned on a file which was changed just
    before: such a file may change again without its times telling it.
    """
    read = prepared.views if isinstance(prepared, PreparedPublic) else prepared.query.views
    texts = [text, *(views[name].sql for name in read)]
    if any(len(each) > LONGEST or _clock().search(each) for each in texts):
        return False
    return is_settled(prepared.engines.stamps)


@cache
def _clock() -> re.Pattern[str]:
    """Return what finds words of functions that read the clock."""
    words = r"\b(now|today|current_\w+|local_?time\w*|transaction_timestamp)\b"
    return re.compile(words, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class KeptPlans:
    """The plans of one analyst's private statements, among those that a database keeps.

    A plan is kept for the engines on which it was made, so for one version of the data. Whether its releases
    are stored, and so its price, is asked of the ledger each time.
    """

    database: Database
    analyst: str

    def find(self, key: PlanKey, engines: Engines) -> PreparedPrivate | PreparedComposed | None:
        """Return the plan that was made on these engines; None if there is none."""
        found = self.database.plans.get((*key, self.analyst))
        if found is not None and found.engines is not engines:
            self.database.plans.forget((*key, self.analyst), found)
            return None
        return found

    def keep(self, key: PlanKey, prepared: PreparedPrivate | PreparedComposed) -> None:
        """Keep a statement's plan for later statements with an equal text, if the plan stays valid.

        What is stored may have been made with an earlier kept ladder: then another plan may be better later.
        """
        ladders = prepared.engines.schema_database.kept_ladders
        earlier = ladders is not None and any(part.price == Charge() for part in prepared.parts)
        if not earlier and holds_later(prepared, prepared.text, self.database.policy.views):
            self.database.plans.put((*key, self.analyst), prepared, self.analyst)


def list_parameters(parameters: Parameters) -> tuple[object, ...]:
    """Return the values of a statement's parameters, with their names if they have names."""
    if parameters is None:
        return ()
    if isinstance(parameters, Mapping):
        return tuple(each for pair in parameters.items() for each in pair)
    return tuple(parameters)
