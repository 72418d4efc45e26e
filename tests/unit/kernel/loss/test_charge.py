"""Numbers are read as they were typed, and charges add up exactly."""

import pickle
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.kernel.loss import Charge, Number, exact

AMOUNTS = st.fractions(min_value=0, max_value=100)
CHARGES = st.builds(Charge, AMOUNTS, AMOUNTS)


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        (5, Fraction(5)),
        (0.7, Fraction(7, 10)),
        (1e-6, Fraction(1, 10**6)),
        (1e22, Fraction(10**22)),
        ("0.7", Fraction(7, 10)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        (" 1e-6 ", Fraction(1, 10**6)),
        ("1E+2", Fraction(100)),
        ("-0.1", Fraction(-1, 10)),
        ("+1/3", Fraction(1, 3)),
        (" 2 / 6 ", Fraction(1, 3)),
        (Fraction(2, 7), Fraction(2, 7)),
        (Decimal("0.10"), Fraction(1, 10)),
        (Decimal("1E-30"), Fraction(1, 10**30)),
        ("0." + "0" * 398 + "1", Fraction(1, 10**399)),
    ],
)
def test_numbers_are_read_as_typed(typed: Number, value: Fraction) -> None:
    assert exact(typed) == value


@pytest.mark.parametrize(
    "typed",
    [
        True,
        "",
        " ",
        "x",
        "1.2.3",
        "1e",
        "0x10",
        "1_000",
        "nan",
        "inf",
        "-inf",
        "1/0",
        "1/2/3",
        "1//2",
        "1 2",
        "1e1000",
        "1" * 41,
        "0." + "1" * 401,
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        Decimal("Infinity"),
        None,
        b"1",
        [1],
        1j,
    ],
)
def test_what_is_no_number_is_refused(typed: object) -> None:
    with pytest.raises(ValueError):
        exact(typed)  # type: ignore[arg-type]  # on purpose


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_its_shortest_decimal(number: float) -> None:
    assert exact(number) == Fraction(repr(number))
    assert float(exact(number)) == number


@given(AMOUNTS)
def test_every_ratio_is_read_back(amount: Fraction) -> None:
    assert exact(str(amount)) == amount


def test_a_charge_costs_nothing_unless_told() -> None:
    assert Charge() == Charge(Fraction(0), Fraction(0))
    assert Charge(Fraction(1)).delta == 0


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 0), (0, -1), (Fraction(-1, 10**30), 1)])
def test_a_charge_is_never_negative(epsilon: Fraction, delta: Fraction) -> None:
    with pytest.raises(ValueError, match="negative"):
        Charge(Fraction(epsilon), Fraction(delta))


@given(CHARGES, CHARGES)
def test_charges_add_up_and_what_is_left_is_exact(one: Charge, other: Charge) -> None:
    both = one + other
    assert both == other + one
    assert (both.epsilon, both.delta) == (one.epsilon + other.epsilon, one.delta + other.delta)
    assert both - one == other
    assert one.fits(both)
    assert (one - both) == Charge()
    assert both.fits(one) == (other == Charge())


def test_what_fits_must_fit_in_both_parts() -> None:
    room = Charge(Fraction(1), Fraction(1, 10))
    assert room.fits(room)
    assert not Charge(Fraction(1) + Fraction(1, 10**50)).fits(room)
    assert not Charge(Fraction(0), Fraction(1, 9)).fits(room)
    assert Charge(Fraction(2), Fraction(1, 20)) - room == Charge(Fraction(1), Fraction(0))


def test_a_tenth_ten_times_is_one() -> None:
    total = Charge()
    for _ in range(10):
        total = total + Charge(exact(0.1))
    assert total == Charge(Fraction(1))


def test_charges_can_be_pickled_hashed_and_not_changed() -> None:
    charge = Charge(Fraction(1, 3), Fraction(1, 10**9))
    assert pickle.loads(pickle.dumps(charge)) == charge
    assert len({charge, Charge(Fraction(1, 3), Fraction(1, 10**9))}) == 1
    with pytest.raises(AttributeError):
        charge.epsilon = Fraction(0)  # type: ignore[misc]  # on purpose
