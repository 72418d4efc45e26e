"""Heuristics on names: which column identifies a person, which one identifies a row of a table."""

from __future__ import annotations

import re

from dpsql.policy import fold

_PEOPLE = (
    "user|person|people|customer|client|patient|member|account|employee|subscriber|student|guest|tenant|"
    "citizen|voter|resident|passenger|player|household"
)
_KEY = r"(?:id|key|uuid|guid|number|no|nr|code)"


def singular(table: str) -> str:
    """Return the singular of a table's name, for one row of it.

    >>> singular("Orders"), singular("categories"), singular("people"), singular("address")
    ('order', 'category', 'person', 'address')
    """
    word = fold(table)
    for plural, one in (("people", "person"), ("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("xes", "x")):
        if word.endswith(plural):
            return word.removesuffix(plural) + one
    return word if word.endswith("ss") else word.removesuffix("s")


def is_key_name(column: str) -> bool:
    """Whether a column is named as keys are: `order_id`, `id`, `invoice_number`."""
    return re.fullmatch(rf".+_{_KEY}|.+(?:Id|ID)|{_KEY}", column) is not None


def is_bare_key(column: str) -> bool:
    """Whether a key's name does not say what it identifies, such as `id`: two tables' `id` differ."""
    return not _referred(column)


def _referred(column: str) -> str:
    """Return the thing that a key's name refers to: `order` for order_id, empty for id."""
    return re.sub(rf"_?{_KEY}$", "", fold(column))


def names_rows(column: str, table: str, theirs: str) -> bool:
    """Whether `column` of another table is named as a foreign key to the column `theirs` of `table`.

    >>> names_rows("order_id", "orders", "order_id"), names_rows("order_id", "orders", "id")
    (True, True)
    >>> names_rows("product_id", "orders", "product_id"), names_rows("id", "orders", "id")
    (False, False)
    """
    about, one = _referred(column), singular(table)
    if not about or _referred(theirs) not in ("", about) or not (is_key_name(column) and is_key_name(theirs)):
        return False
    return about == one or one.endswith(f"_{about}")


def names_person(column: str, table: str) -> bool:
    """Whether a column is named as the key of people: `customer_id`, or `id` of a table `customers`.

    >>> names_person("customer_id", "orders"), names_person("id", "customers"), names_person("id", "orders")
    (True, True, False)
    """
    about = _referred(column) or singular(table)
    return is_key_name(column) and re.search(rf"(^|_)(?:{_PEOPLE})$", about) is not None


def kind_word(column: str, table: str) -> str:
    """Return one word for the unit that a column identifies.

    >>> kind_word("nurse_id", "staff"), kind_word("id", "customers"), kind_word("email", "people")
    ('nurse', 'customer', 'email')
    """
    return _referred(column) or singular(table)
