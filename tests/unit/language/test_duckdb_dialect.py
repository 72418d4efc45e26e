"""The dialect that reads statements has the settings of sqlglot's own, and makes the same trees."""

from __future__ import annotations

from types import BuiltinMethodType
from typing import Any

import pytest
import sqlglot
from sqlglot.dialects.duckdb import DuckDB

from dpsql.language.duckdb_dialect import DuckDBText

NAMES = {"__annotations__", "__dict__", "__doc__", "__firstlineno__", "__module__", "__static_attributes__"}
PARTS = {"Tokenizer", "tokenizer_class", "jsonpath_tokenizer_class"}
WRITING = {"EXPRESSION_METADATA", "Generator", "generator", "generator_class"}
OWN_CODE = {"to_json_path"}


def differences(ours: Any, theirs: Any) -> set[str]:
    """Return the names of the attributes in which two classes differ."""
    found = set()
    for name in {*dir(ours), *dir(theirs)} - NAMES:
        one, other = getattr(ours, name, None), getattr(theirs, name, None)
        one, other = getattr(one, "__func__", one), getattr(other, "__func__", other)
        bound = isinstance(one, BuiltinMethodType) and isinstance(other, BuiltinMethodType)
        if not (bound or one is other or one == other):
            found.add(name)
    return found


def test_every_setting_is_that_of_sqlglot() -> None:
    assert differences(DuckDBText, DuckDB) == PARTS | WRITING | OWN_CODE
    assert differences(DuckDBText.Tokenizer, DuckDB.Tokenizer) == set()
    assert DuckDBText.tokenizer_class is DuckDBText.Tokenizer


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a -> '$.b' ->> '/c', d -> '[#-1]', e -> 0 FROM t",
        "SELECT x::SIGNED, y::USMALLINT, z::TIMESTAMP_NS, 1_000 // 3 ** 2, 'a' ^@ 'b', [1] @> [2] FROM t",
        "FROM t SELECT ALL * EXCLUDE (a) ORDER BY ALL LIMIT ALL",
        "SELECT $$a$$, $tag$b$tag$, E'\\x41', $1, date_part('dayofweekiso', d), a[1:2], {'b': 1} FROM t",
        "PIVOT t ON a USING SUM(b) GROUP BY c",
        "SELECT strftime(d, '%-d'), regexp_extract(a, 'b', 1) FROM t ASOF JOIN u USING (d) POSITIONAL JOIN v",
    ],
)
def test_a_text_has_the_tree_of_sqlglot(sql: str) -> None:
    ours, theirs = sqlglot.parse_one(sql, dialect=DuckDBText), sqlglot.parse_one(sql, dialect=DuckDB)
    assert ours == theirs
    assert ours.sql(DuckDBText) == theirs.sql(DuckDB)
