"""The types of the columns of PostgreSQL and Spark: how they are named, and what is advised."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dpsql.engines.duckdb.table_readers import declared_columns
from dpsql.engines.postgres.postgres_tables import CatalogColumn, CatalogTable, columns_of
from dpsql.engines.postgres.postgres_tables import write_scan as postgres_scan
from dpsql.engines.remote_engine import check_digits
from dpsql.engines.spark.spark_tables import columns_of as spark_columns
from dpsql.engines.spark.spark_tables import padded_columns
from dpsql.engines.spark.spark_tables import write_scan as spark_scan
from dpsql.errors import PolicyError
from dpsql.policy import DatabaseSource, Table, UnitColumn
from dpsql.types import BIGINT, SqlType, column_type


def table(**columns: str) -> Table:
    types = {name: column_type(text) for name, text in columns.items()} or None
    return Table(name="rows", source=DatabaseSource(None, "rows"), unit=UnitColumn("id"), columns=types)


def postgres(name: str, kind: str, *, builtin: bool = True) -> CatalogTable:
    of_unit = CatalogColumn(1, "id", "int8", -1, True, True)
    column = CatalogColumn(2, name, kind, -1, builtin, False)
    return CatalogTable(1, '"public"."rows"', "r", (of_unit, column), False, ())


def test_a_type_of_an_extension_is_called_by_its_name() -> None:
    found = postgres("s", "public.citext", builtin=False)
    with pytest.raises(PolicyError, match="columns of type CITEXT are not supported"):
        declared_columns(table(), [(name, word) for name, _, word in columns_of(found)])


def test_what_is_advised_for_numeric_is_read() -> None:
    found = postgres("x", "numeric")
    physical = [(name, word) for name, _, word in columns_of(found)]
    with pytest.raises(PolicyError, match="up to 38 digits") as caught:
        check_digits(table(), physical)
    advised = str(caught.value.hint).partition('x = "')[2].partition('"')[0]
    assert "DOUBLE" not in str(caught.value.hint)
    declared = table(id="BIGINT", x=advised)
    check_digits(declared, physical)
    columns = declared_columns(declared, physical)
    assert columns == (("id", BIGINT), ("x", SqlType("DECIMAL", 18, 6)))
    assert postgres_scan(declared, found, columns, 1000)[1]["x"].type == columns[1][1]
    declared = table(id="BIGINT", x="DOUBLE")
    with pytest.raises(PolicyError, match="DECIMAL") as caught:
        postgres_scan(declared, found, declared_columns(declared, physical), 1000)
    assert "DECIMAL(18,s)" in str(caught.value.hint)


@pytest.mark.parametrize("kept", [True, False])
def test_the_spaces_that_fill_up_a_char_are_not_read(*, kept: bool) -> None:
    def field(name: str, kind: str) -> SimpleNamespace:
        shown = "string" if kept and "char" in kind else kind
        metadata = {"__CHAR_VARCHAR_TYPE_STRING": kind} if kept else {}
        return SimpleNamespace(
            name=name, dataType=SimpleNamespace(simpleString=lambda: shown), metadata=metadata
        )

    fields = [field("id", "bigint"), field("c", "char(5)"), field("v", "varchar(5)"), field("s", "string")]
    schema = SimpleNamespace(fields=fields)
    declared = table(id="BIGINT", c="VARCHAR", v="VARCHAR", s="VARCHAR")
    physical = spark_columns(schema)
    columns = declared_columns(declared, physical)
    sql, _ = spark_scan(declared, "`rows`", physical, columns, 1000, padded_columns(schema))
    assert sql.count("TRIM(TRAILING ' ' FROM try_validate_utf8(CAST(r.`c` AS STRING)))") == 1
    assert sql.count("TRIM") == 1
