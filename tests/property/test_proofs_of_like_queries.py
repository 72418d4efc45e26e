"""A certificate that is renewed for a like query is the one that a proof of that query makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from datetime import date, datetime
from random import Random

import pytest
from fuzz.check import Tried, compile_releases
from fuzz.many_units import draw
from fuzz.mutant import Mutant
from fuzz.statements import statement
from fuzz.world import World, worlds

from dpsql.kernel import check
from dpsql.kernel.check import Certificate, NotCertified, certify
from dpsql.kernel.facts import Facts
from dpsql.kernel.tree import Constant, Node, Query, replace_nodes, walk
from dpsql.policy.model import facts_of

OTHERS: dict[type, tuple[object, ...]] = {
    int: (0, 1, 2, 3, 7, 128, 255, 256, 32768, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1),
    str: ("a", "b", "", "DE", "2024-01-01", "x'y", "é", "1"),
    date: (date(2024, 1, 1), date(2024, 2, 29), date.min, date.max),
    datetime: (datetime(2024, 1, 1), datetime(2024, 2, 3, 4, 5, 6), datetime.min),
}
NOT_PROVED = ("query", "derivation")
"""What differs between the certificates of two queries with one proof."""


def vary(rng: Random, query: Query) -> Query:
    """Return a query with another constant in the place of one node, of all equal ones, or of some others."""
    constants = [node for node in walk(query) if type(node) is Constant and type(node.value) in OTHERS]
    if not constants:
        return query
    one, way = rng.choice(constants), rng.random()
    value = rng.choice(OTHERS[type(one.value)])

    def change(node: Node) -> Node:
        if type(node) is not Constant or type(node.value) not in OTHERS:
            return node
        if way > 0.8:
            return Constant(rng.choice(OTHERS[type(node.value)]), node.type) if rng.random() < 0.3 else node
        return Constant(value, node.type) if node is one or (way > 0.4 and node == one) else node

    return replace_nodes(query, change)


def proved(made: Certificate) -> dict[str, object]:
    return {field.name: getattr(made, field.name) for field in fields(made) if field.name not in NOT_PROVED}


class Renewals:
    """Queries of random statements, each renewed for others and proved anew."""

    def __init__(self, seed: int) -> None:
        self.rng, self.worlds, self.renewed = Random(seed), worlds(facts=True), 0

    def close(self) -> None:
        for world in self.worlds:
            world.schema_database.close()

    def queries(self) -> Iterator[tuple[Query, Facts]]:
        """Yield what a random statement counts, and the facts."""
        world: World = self.rng.choice(self.worlds)
        made = draw(self.rng) if self.rng.random() < 0.5 else statement(self.rng, world)
        for _, plan in compile_releases(world, made, Tried()):
            for compiled in (plan.compiled, *(search.compiled for search in plan.ladders)):
                yield compiled.query, facts_of(world.policy, world.schema_database)

    def run(self, statements: int) -> str:
        """Return what shows that a certificate was renewed wrongly; nothing if no query does."""
        for _ in range(statements):
            for query, facts in self.queries():
                known = certify(query, facts)
                for _ in range(6):
                    wrong = self.compare(known, vary(self.rng, query), facts)
                    if wrong:
                        return wrong
        return ""

    def compare(self, known: Certificate, other: Query, facts: Facts) -> str:
        found = check.renew(known, other, facts)
        if found is None or other == known.query:
            return ""
        self.renewed += 1
        try:
            made = certify(other, facts)
        except NotCertified as refusal:
            return f"renewed, but not proved: {refusal}"
        return "" if proved(found) == proved(made) and found.query == other else "another certificate"


@pytest.fixture(scope="module")
def renewals() -> Iterator[Renewals]:
    made = Renewals(20261130)
    yield made
    made.close()


@pytest.mark.parametrize("statements", [40, pytest.param(6_000, marks=pytest.mark.slow)])
def test_a_renewed_certificate_is_that_of_a_proof(renewals: Renewals, statements: int) -> None:
    renewals.renewed = 0
    assert renewals.run(statements) == ""
    assert renewals.renewed > statements / 4


WRONG = {
    "constants outside of WHERE": (
        'where or (name == "where" and isinstance(one, Select))',
        "True",
    ),
    "one constant for several": ("if each == [len(there)] * 2 else None", ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_noticed(renewals: Renewals, name: str) -> None:
    renewals.rng = Random(name)
    with pytest.MonkeyPatch.context() as patch:
        Mutant(name, (("kernel.check", "renew", *WRONG[name]),)).apply(patch)
        assert renewals.run(600) != ""
