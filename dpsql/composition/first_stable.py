"""FIRST STABLE SELECT .. ELSE SELECT ..: of several statements the first stable answer is shown, exactly.

It is one release with one price: all statements are counted, and tested in order by `StableList`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dpsql.analysis import complete_options, is_private
from dpsql.composition.kept_plans import scopes
from dpsql.composition.planned_count import PlannedCount, columns_of
from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import Fix, with_article
from dpsql.language import FirstStable
from dpsql.planning import StableList
from dpsql.planning.stable_selections import BOUNDS, NAME
from dpsql.release import reuse_key

if TYPE_CHECKING:
    from dpsql.composition.planned_answers import StatementPlanner
    from dpsql.database import Engines
    from dpsql.language import Options


def prepare_first_stable(
    planner: StatementPlanner, text: str, statement: FirstStable, engines: Engines
) -> PreparedPrivate:
    """Analyse and price a list of statements; nothing is read or charged."""
    first, *others = statement.queries
    usual = replace(planner.defaults, error=None)
    options = replace(complete_options(first.options, usual), mechanism=NAME)
    _check_options(statement, options)
    counts, filters = list[PlannedCount](), scopes(planner.policy, planner.analyst)
    for query in (first, *others):
        if not is_private(query, planner.policy):
            raise query.source.refuse(
                "each SELECT of FIRST STABLE reads private tables",
                query.tree,
                "ask for public rows by themselves",
            )
        own = options
        if query is not first:
            own = replace(complete_options(query.options, options), mechanism=NAME)
        counts.append(PlannedCount.of(query, planner.policy, engines, own, filters=filters))
    method = StableList.of_plans([each.plan for each in counts])
    columns = [columns_of(each.plan) for each in counts]
    for query, found in zip(others, columns[1:], strict=True):
        if found != columns[0]:
            wanted = ", ".join(f"{name} {kind}" for name, kind in columns[0])
            raise query.source.refuse(
                "the SELECTs of FIRST STABLE have the same columns, of the same names and types",
                query.tree,
                f"those of the first are {wanted}: write CAST(.. AS ..) AS {columns[0][0][0]}",
            )
    _check_units(statement, counts)
    charge = method.quote.charge
    keys = [reuse_key(each.plan, each.policy, engines.versions, charge) for each in counts]
    made = PreparedPrivate(text, first, counts[0], method, _join_keys(keys), charge, others=(*counts[1:],))
    priced = planner.priced(made)
    return replace(made, price=priced.price)


def _check_units(statement: FirstStable, counts: Sequence[PlannedCount]) -> None:
    """Refuse statements over several kinds of units: the guarantee of their one answer tells one."""
    first, *others = (each.plan for each in counts)
    for query, plan in zip(statement.queries[1:], others, strict=True):
        if plan.owner.words != first.owner.words:
            raise query.source.refuse(
                f"all SELECTs of FIRST STABLE protect the same unit: the first one's is {first.owner.words}",
                query.tree,
                f"ask for what protects {with_article(plan.owner.words)} by itself",
            )


def _check_options(statement: FirstStable, options: Options) -> None:
    first, *others = statement.queries
    source = statement.source
    if "mechanism" in first.options.at and first.options.mechanism != NAME:
        raise source.refuse(
            "FIRST STABLE has a mechanism of its own", first.options.at["mechanism"], "leave mechanism out"
        )
    for name in ("error", "combine"):
        if name in first.options.at:
            raise source.refuse(
                f"option {name} has no meaning for an exact answer", first.options.at[name], "leave it out"
            )
    for query in others:
        for name, at in query.options.at.items():
            if name not in BOUNDS:
                raise query.source.refuse(
                    f"the statement has one price and one test, so {name} is an option of its first SELECT",
                    at,
                    "a SELECT behind ELSE takes " + ", ".join(BOUNDS),
                )
    if options.epsilon is None:
        raise source.refuse(
            "the statement gives no epsilon and the policy has no default",
            None,
            "FIRST STABLE SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6) ..",
            Fix("1", option="epsilon", guess="1"),
        )


def _join_keys(keys: list[str]) -> str:
    """Return one key of several questions in order, in the parts of which a key consists."""
    parts = zip(*(key.split(".") for key in keys), strict=True)
    return ".".join(hashlib.sha256(" ".join(part).encode()).hexdigest()[: len(part[0])] for part in parts)
