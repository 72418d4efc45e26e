"""What is proved of queries once, for several counting queries over the same rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from dpsql.kernel.check import NotCertified, Proofs, certify, renew
from dpsql.kernel.check import certificate as sealed
from dpsql.kernel.facts import Facts, Home
from dpsql.kernel.tree import (
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Constant,
    Derived,
    Expr,
    InList,
    Paren,
    Query,
    Scan,
)
from dpsql.types import BIGINT, DATE, VARCHAR, SqlType
from tests.counted_nodes import of_nodes
from tests.kernel_trees import FACTS, PER_UNIT, USERS, both, c, n, number, select, stored, there, total, units

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
    proofs, equal = Proofs(), of_nodes(select(USERS, n0=units("s.u")))
    assert certify(UNITS, FACTS, proofs).query is UNITS
    assert certify(equal, FACTS, proofs).query is equal


def test_names_without_case_are_proved_once() -> None:
    unit, proofs = stored("b", "User_ID"), Proofs()
    spelled = Derived(select(Scan("Visits", "b"), there(unit), u=unit), "s")
    for query in (of_nodes(select(spelled, n0=units("s.u"))), of_nodes(select(spelled, n1=units("s.u")))):
        assert certify(query, FACTS, proofs) == certify(query, FACTS)


def cast(value: int) -> Expr:
    return Cast(n(value), BIGINT, safe=False, bounded=True)


def compared(value: Expr, operator: str = "<>") -> Query:
    """Units of the rows of which a column is compared with a constant."""
    return of_nodes(select(kept(Binary(operator, stored("b", "ms"), value)), n0=units("s.u")))


def kept(condition: Expr) -> Derived:
    unit = stored("b", "user_id")
    return Derived(select(Scan("visits", "b"), both(there(unit), Paren(condition)), u=unit), "s")


def text(value: object) -> Expr:
    return Constant(value, VARCHAR if isinstance(value, str) else DATE)


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
def test_a_compared_constant_has_no_part_in_a_proof(operator: str) -> None:
    one, two = (compared(cast(value), operator) for value in (7, 70_000))
    made = certify(one, FACTS)
    assert renew(made, two, FACTS) == certify(two, FACTS)
    assert renew(made, one, FACTS) == made


LISTS = [
    (InList(stored("b", "ms"), (n(1), n(2))), InList(stored("b", "ms"), (n(5), n(6)))),
    (Between(stored("b", "ms"), n(1), n(2)), Between(stored("b", "ms"), n(5), n(6))),
    (Binary("=", stored("b", "page"), text("a")), Binary("=", stored("b", "page"), text("b"))),
]


@pytest.mark.parametrize(("one", "two"), LISTS)
def test_constants_are_compared_in_lists_and_ranges_too(one: Expr, two: Expr) -> None:
    first, second = (of_nodes(select(kept(each), n0=units("s.u"))) for each in (one, two))
    assert renew(certify(first, FACTS), second, FACTS) == certify(second, FACTS)


OTHERS = {
    "a number of another type": (cast(7), cast(1 << 40)),
    "a conversion that fails on another number": (
        Cast(n(7), SqlType("TINYINT"), safe=False, bounded=True),
        Cast(n(70), SqlType("TINYINT"), safe=False, bounded=True),
    ),
    "another conversion": (cast(7), Cast(n(8), BIGINT)),
    "a part of a sum": (Paren(Binary("+", c("b.ms"), n(7))), Paren(Binary("+", c("b.ms"), n(8)))),
    "a column": (cast(7), stored("b", "ms")),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_differs_in_more_is_proved_anew(name: str) -> None:
    one, two = (compared(each) for each in OTHERS[name])
    assert differ(one, two)


def differ(one: Query, two: Query) -> bool:
    """Whether a certified query is not renewed as another; what is proved of it is not looked at."""
    made = replace(certify(compared(cast(7)), FACTS), query=one, seal=sealed._SEAL)
    return renew(made, two, FACTS) is None


def test_a_text_is_no_day() -> None:
    assert differ(compared(text("a")), compared(text(date(2024, 1, 1))))


def test_an_operator_or_the_number_of_conditions_is_not_left_open() -> None:
    assert differ(compared(cast(7), "<"), compared(cast(7), ">"))
    two = both(*(Binary(word, stored("b", "ms"), cast(7)) for word in "<>"))
    assert differ(compared(cast(7), "<"), of_nodes(select(kept(two), n0=units("s.u"))))


def test_constants_stand_for_each_other_both_ways() -> None:
    def twice(one: int, two: int) -> Query:
        pair = (Binary("<>", stored("b", "ms"), cast(value)) for value in (one, two))
        return of_nodes(select(kept(both(*pair)), n0=units("s.u")))

    assert not differ(twice(1, 2), twice(2, 1))
    assert differ(twice(1, 2), twice(3, 3))
    assert differ(twice(3, 3), twice(1, 2))


def test_constants_outside_where_are_equal() -> None:
    def counted(value: int) -> Query:
        some = Case(((Binary("<", stored("b", "ms"), cast(value)), stored("b", "user_id")),))
        unit = stored("b", "user_id")
        own = Derived(select(Scan("visits", "b"), there(unit), u=unit, f0=some), "s")
        return of_nodes(select(own, n0=units("s.u")))

    assert differ(counted(1), counted(2))


def test_parts_of_units_follow_from_constants() -> None:
    one, two = compared(cast(7)), compared(cast(8))
    home = Home("person", "users", "city", "value", "VARCHAR")
    assert renew(certify(one, FACTS), two, replace(FACTS, home=home)) is None
