"""What is proved of queries once, for several counting queries over the same rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsql.kernel.check import NotCertified, Proofs, certify
from dpsql.kernel.facts import Facts
from dpsql.kernel.tree import Call, Derived, Expr, Query, Scan
from tests.counted_nodes import of_nodes
from tests.kernel_trees import FACTS, PER_UNIT, USERS, c, n, number, select, stored, there, total, units

from .test_check_rules import CASES

TREES = [(case.name, of_nodes(case.accepted), of_nodes(case.refused)) for case in CASES]
ALL = Proofs()
"""The proofs of all trees here, in whatever order tests run."""


@pytest.mark.parametrize(
    ("accepted", "refused"), [pair for _, *pair in TREES], ids=[name for name, *_ in TREES]
)
def test_a_certificate_is_the_same_beside_other_proofs(accepted: Query, refused: Query) -> None:
    for _ in range(2):
        assert certify(accepted, FACTS, ALL) == certify(accepted, FACTS)
        with pytest.raises(NotCertified) as alone:
            certify(refused, FACTS)
        with pytest.raises(NotCertified) as beside:
            certify(refused, FACTS, ALL)
        assert beside.value.rule == alone.value.rule


UNITS = of_nodes(select(USERS, n0=units("s.u")))


def test_a_derivation_has_the_steps_of_what_was_proved_before() -> None:
    proofs = Proofs()
    first = certify(of_nodes(select(PER_UNIT, n0=number(capped(4)))), FACTS, proofs)
    found = certify(of_nodes(select(PER_UNIT, n0=number(capped(3)))), FACTS, proofs)
    assert [step.path for step in found.derivation] == [step.path for step in first.derivation]
    assert str(found.derivation[2]) == "query: a unit adds from 0 to 3 in each group [value of a unit]"


def capped(most: int) -> Expr:
    return total(Call("LEAST", (c("w.r0"), n(most))))


def test_other_facts_are_proved_anew() -> None:
    proofs = Proofs()
    assert certify(UNITS, FACTS, proofs).numbers
    with pytest.raises(NotCertified):
        certify(UNITS, Facts(()), proofs)
    assert certify(UNITS, FACTS, proofs) == certify(UNITS, FACTS)


def test_an_equal_query_is_another_one() -> None:
    proofs, equal = Proofs(), replace(UNITS)  # type: ignore[type-var]  # of any class of queries
    assert certify(UNITS, FACTS, proofs).query is UNITS
    assert certify(equal, FACTS, proofs).query is equal


def test_names_without_case_are_proved_once() -> None:
    unit, proofs = stored("b", "User_ID"), Proofs()
    spelled = Derived(select(Scan("Visits", "b"), there(unit), u=unit), "s")
    for query in (of_nodes(select(spelled, n0=units("s.u"))), of_nodes(select(spelled, n1=units("s.u")))):
        assert certify(query, FACTS, proofs) == certify(query, FACTS)
