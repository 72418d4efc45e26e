"""The forms of functions: the types of their results are those of DuckDB's binder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import duckdb
import pytest

from dpsql.kernel.tree import Form, listed_forms
from dpsql.kernel.tree.forms import (
    NEAR,
    NEGATED,
    SHORT_LIST,
    UTC_OFFSET,
    concatenated,
    is_known,
    overlaid,
    text_up_to,
)
from dpsql.types import HUGEINT, SqlType, column_type

DECIMALS = ((9, 2), (18, 0), (18, 4), (18, 18), (4, 1), (5, 5), (1, 0), (17, 3))
DIGITS = (-30, -18, -3, -1, 0, 1, 2, 5, 18, 40)
OF_RULES = (
    *(NEGATED, UTC_OFFSET, *NEAR.values()),
    *(text_up_to(32), text_up_to(200), concatenated(1), concatenated(3), overlaid(3), overlaid(4)),
)
LITERALS = {
    "INTEGER": "2",
    "LENGTH": "3",
    "PAD": "'x'",
    "REWRITE": "'x'",
    "PATH": "'a'",
    "SPAN": "INTERVAL '1 day'",
    "VARCHAR": "'i'",
}
DATED = {"DATE": "DATE '2000-01-01'", "TIMESTAMP": "TIMESTAMP '2000-01-01'", "TIME": "TIME '00:00:00'"}
"""Of a NULL of these, DuckDB infers other types than of a column."""


def every() -> list[Form]:
    return [form for forms in listed_forms().values() for form in forms]


def cases(form: Form) -> Iterator[tuple[list[str], list[SqlType], int | None]]:
    """Give arguments of each DECIMAL that a form may stand for: their SQL, their types, and the digits."""
    kinds: list[list[str]] = [[]]
    for want in form.arguments:
        choices = [f"DECIMAL({p},{s})" for p, s in DECIMALS] if want == "DECIMAL" else [want]
        kinds = [[*before, choice] for before in kinds for choice in choices]
    for each in kinds:
        for digits in DIGITS if form.result == "rounded" else (None,):
            texts = [text_of(kind) if digits is None or kind[0] != "#" else str(digits) for kind in each]
            yield texts, [column_type(k if k[0] not in "=#" else "VARCHAR") for k in each], digits


def text_of(kind: str) -> str:
    if kind[0] == "=":
        return f"'{kind[1:]}'"
    if kind[0] == "#":
        return LITERALS[kind[1:]]
    return DATED.get(kind, f"CAST(NULL AS {kind})")


def bound(connection: duckdb.DuckDBPyConnection, text: str) -> SqlType:
    (row,) = connection.execute(f"SELECT typeof({text})").fetchall()
    if row[0] == "HUGEINT":
        return HUGEINT
    digits = row[0].removeprefix("DECIMAL(").removesuffix(")").split(",")
    return SqlType("DECIMAL", int(digits[0]), int(digits[1])) if digits[1:] else column_type(row[0])


@pytest.mark.parametrize("letter", sorted({f.name[0].lower() for f in every()}))
@pytest.mark.sampled(3)
def test_the_type_of_a_result_is_that_of_the_binder(letter: str) -> None:
    with duckdb.cursor() as connection:
        for form in (f for f in (*every(), *OF_RULES) if f.name[0].lower() == letter):
            for texts, types, digits in cases(form):
                assert form.result_type(types, digits) == bound(connection, form.template.format(*texts)), (
                    form.name,
                    texts,
                )


def test_a_list_of_short_texts_has_the_type_of_its_last_argument() -> None:
    kinds = [column_type(k) for k in ("BIGINT[]", "BIGINT", "VARCHAR[]")]
    assert SHORT_LIST.result_type(kinds) == kinds[-1]


def test_a_form_of_which_nothing_is_known_has_no_flag() -> None:
    form = Form("chr", "", ("INTEGER",), "chr({0})")
    assert (form.total, form.deterministic, form.widens, form.result_type([])) == (False, False, False, None)


def test_a_form_with_a_literal_is_not_total() -> None:
    assert not any(f.total for f in listed_forms()["json_extract"])
    assert all(f.total for f in listed_forms()["date_trunc"])
    assert [f.total for f in listed_forms()["left"]] == [True, False]


def test_only_a_form_as_it_is_listed_is_known() -> None:
    for form in (*every(), *OF_RULES, SHORT_LIST):
        assert is_known(form)
        for other in (
            replace(form, template=form.template + " "),
            replace(form, guard=""),
            replace(form, result="UUID"),
            replace(form, arguments=(*form.arguments, "BIGINT")),
            replace(form, name="?"),
        ):
            assert not is_known(other)


def test_forms_that_write_the_same_are_equal() -> None:
    (prefix,) = listed_forms()["prefix"]
    assert replace(prefix, name="starts") == prefix
    assert hash(replace(prefix, name="starts")) == hash(prefix)
    assert replace(prefix, template="prefix({1},{0})") != prefix
    assert prefix != "prefix({0},{1})"
