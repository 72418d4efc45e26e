"""Keys of which each value belongs to one unit: what is declared, what refused, and what is connected."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dpsql.errors import PolicyError
from dpsql.policy import Policy, find_owned_keys, load

Load = Callable[[str, str], Policy]
RENTAL = """
[tables.rental]
source = "rental.csv"
unit = "customer_id"
unique = [["rental_id"]]
columns = { rental_id = "BIGINT", customer_id = "BIGINT", cost = "DOUBLE", note = "VARCHAR" }
"""
OTHERS = """
[tables.fine]
source = "fine.csv"
unit = { via = "rental_id", table = "rental", column = "rental_id" }
columns = { rental_id = "INTEGER", cost = "DOUBLE" }
[tables.film]
source = "film.csv"
public = true
columns = { film_id = "BIGINT" }
[tables.log]
source = "log.csv"
unit = "ROW"
columns = { rental_id = "BIGINT" }
[tables.staff]
source = "staff.csv"
unit = "staff_id"
unit_kind = "employee"
columns = { staff_id = "BIGINT", rental_id = "BIGINT" }
"""


@pytest.fixture
def read(tmp_path: Path) -> Load:
    def go(payment: str, film: str = "") -> Policy:
        head = '[budget]\nepsilon = 1\nledger = "l.sqlite"\n'
        table = (
            '[tables.payment]\nsource = "payment.csv"\nunit = "customer_id"\n'
            'columns = { payment_id = "BIGINT", rental_id = "INTEGER", receipt = "VARCHAR", '
            'customer_id = "BIGINT", cost = "DOUBLE" }\n'
        )
        text = head + RENTAL + table + payment + OTHERS.replace("public = true", f"public = true\n{film}")
        for name in re.findall(r'source = "(.+)"', text):
            (tmp_path / name).touch()
        (tmp_path / "dpsql.toml").write_text(text)
        return load(tmp_path / "dpsql.toml")

    return go


def test_declared_keys_are_connected(read: Load) -> None:
    policy = read('same_unit = { Rental_ID = "Rental.rental_id" }\nowned = ["receipt"]', "")
    found = find_owned_keys(policy.tables)
    of_rentals = {found["rental", "rental_id"], found["payment", "rental_id"], found["fine", "rental_id"]}
    assert len(of_rentals) == 1
    assert found["payment", "receipt"] not in of_rentals
    assert ("payment", "payment_id") not in found
    assert ("log", "rental_id") not in found


def test_keys_are_connected_in_any_order_of_declarations(read: Load) -> None:
    policy = read('same_unit = { rental_id = "rental.rental_id", receipt = "rental.note" }', "")
    tables = dict(reversed([*policy.tables.items()]))
    one, other = find_owned_keys(policy.tables), find_owned_keys(tables)

    def connected(found: dict[tuple[str, str], str]) -> set[frozenset[tuple[str, str]]]:
        return {frozenset(p for p in found if found[p] == key) for key in found.values()}

    assert connected(one) == connected(other)


WRONG = {
    'same_unit = { rental_id = "rental" }': "tables.payment.same_unit.rental_id: expected a column",
    "same_unit = { rental_id = 5 }": "expected a column of another table, found an integer",
    'same_unit = { rental_id = "rentals.rental_id" }': "there is no table 'rentals'",
    'same_unit = { rental_id = "rental.id" }': "'rental' has no column 'id'",
    'same_unit = { no = "rental.rental_id" }': "the table has no column 'no'",
    'same_unit = { receipt = "rental.rental_id" }': "'receipt' is VARCHAR, but 'rental_id' of 'rental' is",
    'same_unit = { cost = "rental.cost" }': "rows are not joined on a column of type DOUBLE",
    'same_unit = { rental_id = "film.film_id" }': "the rows of 'film' have no unit in common",
    'same_unit = { rental_id = "log.rental_id" }': "the rows of 'log' have no unit in common",
    'same_unit = { rental_id = "staff.rental_id" }': "a unit of 'staff' is an employee, and here",
    'same_unit = { rental_id = "payment.payment_id" }': "is a column of the same table",
    "same_unit = 3": "expected a table",
    'owned = ["receipts"]': "tables.payment.owned[0]: the table has no column 'receipts'",
    'owned = ["receipt", "RECEIPT"]': "tables.payment.owned: names a column twice",
    'owned = "receipt"': "expected a list",
    'owned = ["cost"]': "rows are not joined on a column of type DOUBLE",
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_declarations_are_refused_with_their_key(read: Load, text: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(WRONG[text])):
        read(text, "")


@pytest.mark.parametrize("text", ['owned = ["film_id"]', 'same_unit = { film_id = "rental.rental_id" }'])
def test_public_tables_have_no_such_keys(read: Load, text: str) -> None:
    with pytest.raises(PolicyError, match="a public table has no privacy unit"):
        read("", text)
