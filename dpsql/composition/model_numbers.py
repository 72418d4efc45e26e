"""What models have of a checked number: their counts by group, and the hypotheses that follow from them.

The counting query of the check itself is run, with bounds and conditions, on the public tables of each model
in the place of the private ones. It runs in the schema database, which has no private rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpsql.estimates import ModelWeights
from dpsql.kernel.tree import Scan, duckdb_sql
from dpsql.kernel.tree.node import Node, replace_nodes
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

if TYPE_CHECKING:
    from dpsql.composition.planned_count import PlannedCount
    from dpsql.composition.prepared import PreparedCheck
    from dpsql.language import OpenChecks
    from dpsql.policy import Policy

MOST_HYPOTHESES = 10_000
MOST_NUMBERS = 1_000_000
"""How many numbers the hypotheses of one check have in all groups at most."""


@dataclass(frozen=True, slots=True)
class ModelNumbers:
    """The numbers that hypotheses have: of each group, those of all models, each times all scales."""

    opened: OpenChecks
    groups: dict[tuple[Any, ...], tuple[Fraction, ...]]
    """By the keys of a group, one number for each model."""

    def values(self, keys: tuple[Any, ...]) -> list[Fraction]:
        """Return the numbers of all hypotheses of a group; one that a model does not have is 0 there."""
        found = self.groups.get(keys) or (Fraction(0),) * len(self.opened.models)
        return [number * scale for number in found for scale in self.opened.scales]

    def digest(self, weights: ModelWeights) -> str:
        """Return a hash of the models' numbers and weights, which tells them from other ones."""
        groups = [[repr(keys), *map(str, numbers)] for keys, numbers in self.groups.items()]
        text = json.dumps([sorted(groups), [*map(str, self.opened.scales)], weights.penalties])
        return hashlib.sha256(text.encode()).hexdigest()


def check_models(opened: OpenChecks, policy: Policy) -> None:
    """Refuse to open a stream with models that the policy does not have, or that answers nothing."""
    source, known = opened.source, ", ".join(policy.models)
    for model in opened.models:
        if model not in policy.models:
            raise source.refuse(
                f"the policy has no model {model[:60]}",
                None,
                f"models = '{known}'" if known else 'a public table with stands_for = "visits" is a model',
            )
    if opened.models and opened.sides != "BOTH":
        raise source.refuse("what models expect is a number, so both sides count", None, "leave out sides")
    if opened.models and not opened.answers:
        raise source.refuse("models learn from answers: answers = 0 gives none", None, "leave out answers")
    if len(opened.models) * len(opened.scales) > MOST_HYPOTHESES:
        raise source.refuse(f"a stream has at most {MOST_HYPOTHESES:,} hypotheses", None, "fewer scales")


def count_models(prepared: PreparedCheck, opened: OpenChecks) -> ModelNumbers:
    """Count what a check counts on the tables of each model; no private row is read."""
    counting, source = prepared.counting, prepared.check.source
    plan = counting.plan
    if not opened.models:
        raise source.refuse(
            f"the stream {opened.name} has no models",
            prepared.check.expected.at,
            f"OPEN CHECKS {opened.name} OPTIONS (.., models = '2023'), or EXPECT .. = a number",
        )
    groups = (plan.candidates or 1) if prepared.keys else 1
    if groups * len(opened.models) * len(opened.scales) > MOST_NUMBERS:
        raise source.refuse(
            f"the hypotheses of one check have at most {MOST_NUMBERS:,} numbers",
            prepared.check.expected.at,
            "fewer groups in one statement, or fewer scales",
        )
    found: dict[tuple[Any, ...], list[Fraction]] = {}
    for number, model in enumerate(opened.models):
        for keys, count in _count_model(counting, model, len(prepared.keys)):
            numbers = found.setdefault(keys, [Fraction(0)] * len(opened.models))
            numbers[number] = count * plan.counts[0].step
    return ModelNumbers(opened, {keys: tuple(numbers) for keys, numbers in found.items()})


def _count_model(counting: PlannedCount, model: str, keys: int) -> list[tuple[tuple[Any, ...], int]]:
    """Return the groups of a model with their counts."""
    stand_ins, catalog = _find_tables(counting, model), counting.engines.schema_database

    def stand_in(node: Node) -> Node:
        instead = stand_ins.get(fold(node.table)) if isinstance(node, Scan) else None
        return node if instead is None or not isinstance(node, Scan) else Scan(instead, node.alias)

    plan = counting.plan
    rows = catalog.run(duckdb_sql(replace_nodes(plan.compiled.query, stand_in)))
    places = [f"k{i}" for i in range(keys)] + ["n0"] + ([f"o{keys}"] if plan.outside else [])
    listed = zip(*(rows.column(name).to_pylist() for name in places), strict=True)
    return [(row[:keys], row[keys]) for row in listed if not (plan.outside and row[-1])]


def _find_tables(counting: PlannedCount, model: str) -> dict[str, str]:
    """Return the public table for each private one that is counted; refuse one that has other columns."""
    policy, catalog = counting.policy, counting.engines.schema_database
    source, found = counting.plan.query.source, dict[str, str]()
    for name in counting.plan.compiled.tables:
        own = policy.table(name)
        if own is None or own.public:
            continue
        stand_ins = policy.models.get(model, {})
        if own.name not in stand_ins:
            raise source.refuse(
                f"the model {model} has no table for {own.name}",
                None,
                f'the owner writes stands_for = "{own.name}" and model = "{model}" under a public table',
            )
        instead = stand_ins[own.name]
        wanted, there = (catalog.stored_types(Scan(each, "b")) for each in (own.name, instead))
        kinds = {fold(column): kind for column, kind in there.items()}
        for column, kind in wanted.items():
            if kinds.get(fold(column)) != kind:
                raise source.refuse(
                    f"{instead} cannot stand for {own.name}: its column {column} is no {kind}",
                    None,
                    f"the owner makes {instead} with the columns of {own.name}",
                )
        found[fold(own.name)] = instead
    return found


def weights_of(opened: OpenChecks, state: dict[str, Any] | None) -> ModelWeights:
    """Read the weights of hypotheses from a stream's last answer; equal weights if models changed."""
    wanted = _names(opened)
    if state is None or state["hypotheses"] != wanted:
        return ModelWeights.equal(len(opened.models) * len(opened.scales))
    return ModelWeights(tuple(state["penalties"]))


def state_of(opened: OpenChecks, weights: ModelWeights) -> dict[str, Any]:
    """Return the weights of a stream's hypotheses as a check's stored answer keeps them."""
    return {"hypotheses": _names(opened), "penalties": [*weights.penalties]}


def _names(opened: OpenChecks) -> list[Sequence[str]]:
    return [[*opened.models], [str(each) for each in opened.scales]]
