"""The closed set of types: what is read, under which names, and what is advised for the rest."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.types import BIGINT, BOOLEAN, DATE, DOUBLE, HUGEINT, NULL, VARCHAR, SqlType, column_type

SIMPLE = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "DOUBLE",
    "VARCHAR",
    "DATE",
    "TIMESTAMP",
    "TIME",
    "UUID",
    "BLOB",
]


@pytest.mark.parametrize("name", SIMPLE)
def test_simple_types_keep_their_name(name: str) -> None:
    for written in (name, name.lower(), f"  {name.title()} "):
        assert column_type(written) == SqlType(name)
    assert str(column_type(name)) == name


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("bool", "BOOLEAN"),
        ("int", "INTEGER"),
        ("int1", "TINYINT"),
        ("int2", "SMALLINT"),
        ("int4", "INTEGER"),
        ("int8", "BIGINT"),
        ("long", "BIGINT"),
        ("float", "DOUBLE"),
        ("real", "DOUBLE"),
        ("text", "VARCHAR"),
        ("string", "VARCHAR"),
        ("varchar(20)", "VARCHAR"),
        ("char ( 5 )", "VARCHAR"),
        ("datetime", "TIMESTAMP"),
        ("bytea", "BLOB"),
        ("decimal", "DECIMAL(18,3)"),
        ("numeric(10)", "DECIMAL(10,0)"),
        ("DECIMAL( 10 , 2 )", "DECIMAL(10,2)"),
        ("decimal(18,18)", "DECIMAL(18,18)"),
        ("timestamptz", "TIMESTAMPTZ"),
        ("timestamp  with time\tzone", "TIMESTAMPTZ"),
        ("varchar[]", "VARCHAR[]"),
        ("int [ ] []", "INTEGER[][]"),
        ("decimal(4,2)[]", "DECIMAL(4,2)[]"),
        ("enum('a', 'b''c')", "ENUM('a', 'b''c')"),
        ('struct(a int, "b ""c""" varchar[])', 'STRUCT("a" INTEGER, "b ""c""" VARCHAR[])'),
        ("struct(s struct(x date))[]", 'STRUCT("s" STRUCT("x" DATE))[]'),
    ],
)
def test_types_are_read_under_all_their_names(written: str, name: str) -> None:
    assert str(column_type(written)) == name
    assert column_type(name) == column_type(written)


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        ("HUGEINT", "declare it BIGINT"),
        ("UHUGEINT", "declare it BIGINT"),
        ("TIME WITH TIME ZONE", "declare it TIME"),
        ("timetz", "declare it TIME"),
        ("json", "declare it VARCHAR"),
        ("interval", "declare it VARCHAR"),
        ("timestamp_ns", "declare it TIMESTAMP"),
        ("bit", "declare it VARCHAR"),
        ("map(int, int)", "use a boolean"),
        ("union(a int)", "use a boolean"),
        ("geometry", "use a boolean"),
        ("varint", "use a boolean"),
        ("variant", "use a boolean"),
        ("null", "use a boolean"),
        ("decimal(19,2)", "at most 18 digits"),
        ("decimal(0)", "at most 18 digits"),
        ("decimal(4,5)", "at most 18 digits"),
        ("hugeint[]", "declare it BIGINT"),
        ("struct(a json)", "declare it VARCHAR"),
        ("struct(a)", "STRUCT(name TYPE"),
        ("struct a int", "STRUCT(name TYPE"),
        ("struct(a int", "STRUCT(name TYPE"),
        ("struct()", "STRUCT(name TYPE"),
        ("enum", "ENUM('a'"),
        ("enum()", "ENUM('a'"),
        ("enum(a)", "ENUM('a'"),
        ("", "not a column type"),
        ("int int", "not a column type"),
        ("int; drop table t", "not a column type"),
        ("integer(5)", "not a column type"),
        ("int[3]", "not a column type"),
        ("42", "not a column type"),
        ("struct(a " * 20 + "int" + ")" * 20, "nested 8 deep"),
    ],
)
def test_other_types_are_refused_with_advice(written: str, advice: str) -> None:
    with pytest.raises(ValueError) as caught:
        column_type(written)
    assert advice in str(caught.value)
    assert "\n" not in str(caught.value)


def test_integers_know_their_width() -> None:
    widths = {name: (column_type(name).bits, column_type(name).signed) for name in SIMPLE if "INT" in name}
    assert widths == {
        "TINYINT": (8, True),
        "SMALLINT": (16, True),
        "INTEGER": (32, True),
        "BIGINT": (64, True),
        "UTINYINT": (8, False),
        "USMALLINT": (16, False),
        "UINTEGER": (32, False),
        "UBIGINT": (64, False),
    }
    assert not any(kind.integer for kind in (HUGEINT, DOUBLE, VARCHAR, NULL, column_type("DECIMAL(4,0)")))


def test_what_is_numeric() -> None:
    assert all(kind.numeric for kind in (BIGINT, DOUBLE, column_type("DECIMAL(4,2)")))
    assert not any(kind.numeric for kind in (BOOLEAN, DATE, VARCHAR, NULL, column_type("INT[]")))


NAMES = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=6)
TYPES = st.recursive(
    st.one_of(
        st.sampled_from(SIMPLE).map(SqlType),
        st.integers(1, 18).flatmap(
            lambda p: st.integers(0, p).map(lambda s: SqlType("DECIMAL", precision=p, scale=s))
        ),
        st.lists(NAMES, min_size=1, max_size=3).map(lambda v: SqlType("ENUM", values=tuple(v))),
    ),
    lambda inner: st.one_of(
        inner.map(lambda item: SqlType("LIST", item=item)),
        st.lists(st.tuples(NAMES, inner), min_size=1, max_size=3).map(
            lambda fields: SqlType("STRUCT", fields=tuple(fields))
        ),
    ),
    max_leaves=4,
)


@given(TYPES)
def test_what_is_written_is_read_back(kind: SqlType) -> None:
    assert column_type(str(kind)) == kind
    assert pickle.loads(pickle.dumps(kind)) == kind
    assert hash(kind) == hash(column_type(str(kind)))
