"""`give_types` on small trees: each rule beside DuckDB's binder, and nodes that stand in two scopes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from fractions import Fraction

import duckdb
import pytest

from dpsql.analysis.column_types import ColumnTyping, give_types
from dpsql.kernel.tree import (
    Aggregate,
    Apply,
    Binary,
    Call,
    Canonical,
    Case,
    Cast,
    Column,
    Constant,
    Cut,
    Derived,
    DomainScan,
    Element,
    Exists,
    Expr,
    Form,
    InQuery,
    Interval,
    IsNull,
    Item,
    Join,
    Lambda,
    ListOf,
    Mean,
    Moved,
    Parameter,
    Paren,
    Query,
    Range,
    Saturated,
    ScalarQuery,
    Scan,
    Select,
    SetOperation,
    Slice,
    Steps,
    Try,
    Unary,
    Unnest,
    Unscaled,
    UtcTime,
    Values,
    Window,
    duckdb_sql,
    listed_forms,
    walk,
)
from dpsql.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    HUGEINT,
    NULL,
    TIMESTAMP,
    VARCHAR,
    SqlType,
    column_type,
)

KINDS = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "DOUBLE"),
    *(
        "DECIMAL(9,2)",
        "DECIMAL(18,0)",
        "DECIMAL(4,4)",
        "VARCHAR",
        "BOOLEAN",
        "DATE",
        "TIMESTAMP",
        "TIME",
        "UUID",
    ),
    *("BIGINT[]", "VARCHAR[]", "ENUM('a', 'b')", "TIMESTAMPTZ"),
)
NAMES = {kind: f"x{i}" for i, kind in enumerate(KINDS)}
STORED: Mapping[str, SqlType] = {name: column_type(kind) for kind, name in NAMES.items()}
ROWS = Scan("rows", "b")


def col(kind: str) -> Column:
    return Column("b", NAMES[kind], stored=True)


def whole(number: int) -> Constant:
    return Constant(number, BIGINT)


def stored(source: Scan | DomainScan) -> Mapping[str, SqlType]:
    return STORED if isinstance(source, Scan) else {"v": VARCHAR, "o": BIGINT}


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        listed = ", ".join(f'"{name}" {kind}' for kind, name in NAMES.items())
        connection.execute(f"CREATE TABLE main.rows ({listed})")
        connection.execute("CREATE SCHEMA dpsql_domain; CREATE TABLE dpsql_domain.d_a (v VARCHAR, o BIGINT)")
        yield connection


def types_of(query: Query) -> list[SqlType | None]:
    return [*ColumnTyping(stored).query(query, None).values()]


def same(engine: duckdb.DuckDBPyConnection, query: Query) -> None:
    """Types of a query's columns: they are those of the binder, where there are any."""
    wanted = [str(row[1]) for row in engine.execute(f"DESCRIBE {duckdb_sql(query)}").fetchall()]
    assert [str(kind) for kind in types_of(query)] == wanted, duckdb_sql(query)


def of(*nodes: Expr) -> Select:
    return Select(tuple(Item(node, f"c{i}") for i, node in enumerate(nodes)), ROWS)


NUMBERS = KINDS[:12]
LITERALS = (0, 100, 200, 40_000, 3_000_000_000, 1 << 70)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%", "&", "|"])
@pytest.mark.sampled(3)
def test_arithmetic(engine: duckdb.DuckDBPyConnection, operator: str) -> None:
    """Where DuckDB has an operator and the tree a type for it, they are equal; none is made up."""
    compared = 0
    others = [*map(col, NUMBERS), *map(whole, LITERALS), Unary("-", whole(5))]
    for node in (Binary(operator, a, b) for a in others for b in others):
        query = of(node)
        try:
            wanted = engine.execute(f"DESCRIBE {duckdb_sql(query)}").fetchall()[0][1]
        except duckdb.Error:
            continue
        found = types_of(query)[0]
        assert found is None or str(found) == wanted, duckdb_sql(query)
        compared += found is not None
    assert compared > 40


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_choices(engine: duckdb.DuckDBPyConnection, every: int) -> None:
    compared = 0
    others = [*map(col, KINDS), *map(whole, LITERALS), Constant(None, NULL)]
    for a, b in [(a, b) for a in others for b in others][::every]:
        for node in (Call("COALESCE", (a, b)), Case(((IsNull(a), a),), b), Call("LEAST", (b, a))):
            query = of(node)
            try:
                wanted = engine.execute(f"DESCRIBE {duckdb_sql(query)}").fetchall()[0][1]
            except duckdb.Error:
                continue
            found = types_of(query)[0]
            wanted = wanted.replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")
            assert found in (None, NULL) or str(found) == wanted, duckdb_sql(query)
            compared += found is not None
    assert compared > 700 // every


DOUBLES, INTEGERS = col("DOUBLE"), col("BIGINT")
NODES: list[Expr] = [
    Constant("a", VARCHAR),
    Constant(1.5, DOUBLE),
    Constant(Decimal("1.50"), SqlType("DECIMAL", 3, 2)),
    Constant(date(2024, 1, 1), DATE),
    Constant(value=True, type=BOOLEAN),
    whole(1 << 40),
    ListOf((whole(1), whole(1 << 40))),
    Paren(DOUBLES),
    Binary("AND", IsNull(DOUBLES), col("BOOLEAN")),
    Binary("+", col("DATE"), Cast(INTEGERS, SqlType("INTEGER"))),
    Binary("-", col("DATE"), col("DATE")),
    Binary("+", col("DATE"), Interval("3 day")),
    Binary("-", col("TIMESTAMP"), Interval("3 day")),
    Cast(INTEGERS, VARCHAR),
    Try(Cast(col("VARCHAR"), DATE)),
    Canonical(DOUBLES),
    UtcTime(col("TIMESTAMPTZ")),
    Moved(col("TIMESTAMP"), 3600),
    Steps(DOUBLES, -3, 8, Fraction(1, 4)),
    Steps(DOUBLES, -(1 << 80), 1 << 80, Fraction(1)),
    Unscaled(col("DECIMAL(9,2)"), SqlType("DECIMAL", 9, 2)),
    Unscaled(Cast(col("DECIMAL(9,2)"), SqlType("DECIMAL", 38, 2)), SqlType("DECIMAL", 38, 2)),
    Cut(Cast(INTEGERS, BIGINT), col("DECIMAL(9,2)"), SqlType("DECIMAL", 9, 2), 0, 5),
    Saturated(Cast(INTEGERS, HUGEINT), BIGINT, 1 << 70),
    Saturated(Cast(DOUBLES, HUGEINT), HUGEINT, 1 << 70),
    Call("hash", (DOUBLES, INTEGERS)),
    Call("NULLIF", (col("SMALLINT"), whole(0))),
    Call("list_filter", (col("BIGINT[]"), Lambda("p", Binary(">", Parameter("p"), whole(1))))),
    Call("list_transform", (col("VARCHAR[]"), Lambda("p", Cast(Parameter("p"), BIGINT)))),
    Call("list_transform", (col("BIGINT[]"), Lambda("p", Parameter("p")))),
    Element(col("BIGINT[]"), whole(1)),
    Element(col("VARCHAR"), whole(1)),
    Slice(col("VARCHAR"), 1, 2),
    Apply(listed_forms()["round"][-1], (col("DECIMAL(9,2)"), whole(1))),
    Apply(listed_forms()["upper"][0], (col("VARCHAR"),)),
    InQuery(INTEGERS, Select((Item(Column("", "o")),), DomainScan("d_a"))),
    Exists(of(whole(1))),
    ScalarQuery(Select((Item(Aggregate("MAX", (Column("", "v"),)), "m"),), DomainScan("d_a"))),
    Window(Call("ROW_NUMBER", ()), (INTEGERS,)),
    Window(Call("LAG", (col("SMALLINT"), whole(1))), (INTEGERS,)),
    Window(Aggregate("SUM", (INTEGERS,)), (INTEGERS,)),
]
AGGREGATES: list[Expr] = [
    Aggregate("COUNT"),
    Aggregate("SUM", (col("SMALLINT"),)),
    Aggregate("SUM", (whole(1),)),
    Aggregate("SUM", (DOUBLES,)),
    Aggregate("SUM", (col("DECIMAL(9,2)"),)),
    Aggregate("AVG", (INTEGERS,)),
    Aggregate("MEDIAN", (INTEGERS,)),
    Aggregate("MIN", (col("DATE"),)),
    Aggregate("LIST", (col("VARCHAR"),)),
    Aggregate("BOOL_OR", (col("BOOLEAN"),)),
    Aggregate("BIT_XOR", (col("UBIGINT"),)),
    Mean(Aggregate("SUM", (INTEGERS,)), Aggregate("COUNT", (INTEGERS,))),
]


@pytest.mark.parametrize("node", NODES + AGGREGATES, ids=duckdb_sql)
def test_each_node(engine: duckdb.DuckDBPyConnection, node: Expr) -> None:
    same(engine, of(node))


def test_each_item_of_from(engine: duckdb.DuckDBPyConnection) -> None:
    v, o = Column("", "v"), Column("", "o")
    i = Column("r", "i")
    sources = [
        Select((Item(v), Item(o)), DomainScan("d_a")),
        Select((Item(i, "i"),), Range(0, 5)),
        Select(
            (Item(Column("w", "a"), "a"), Item(Column("w", "b"), "b")),
            Values(
                ((whole(1), Constant("x", VARCHAR)), (whole(1 << 40), Constant(None, NULL))), "w", ("a", "b")
            ),
        ),
        Select(
            (Item(Column("u", "c0"), "x"), Item(Column("b", NAMES["DATE"], stored=True), "y")),
            Join(ROWS, "CROSS", Unnest(col("BIGINT[]"), "u")),
        ),
        Select((Item(Column("s", "c1"), "x"),), Derived(of(INTEGERS, col("UUID")), "s")),
        SetOperation(of(col("SMALLINT"), whole(1)), "UNION ALL", of(INTEGERS, col("TINYINT"))),
    ]
    for query in sources:
        same(engine, query)


def test_a_column_of_the_query_around_has_the_type_that_it_has_there() -> None:
    inner = Select((Item(Column("s", "c0"), "x"),), Derived(of(col("UUID")), "other"))
    query = Select((Item(ScalarQuery(inner), "y"),), Derived(of(INTEGERS), "s"))
    assert types_of(query) == [BIGINT]


def test_a_column_that_no_item_of_from_has_and_what_has_no_rule_have_no_type() -> None:
    unknown = Apply(Form("", "", (), "chr({0})"), (INTEGERS,))
    query = Select((Item(Column("s", "z"), "x"), Item(Column("s", "c0"), "y")), Derived(of(unknown), "s"))
    assert types_of(query) == [None, None]
    assert give_types(query, stored) is query


def test_each_column_gets_its_type_in_place() -> None:
    query = Select((Item(Column("s", "c0"), "x"),), Derived(of(Cast(col("DATE"), TIMESTAMP)), "s"))
    assert give_types(query, stored) is query
    assert [n.type for n in walk(query) if isinstance(n, Column)] == [TIMESTAMP, DATE]


def test_one_node_in_two_scopes_becomes_two() -> None:
    shared = Column("s", "c0")
    sides = [Select((Item(shared, "x"),), Derived(of(node), "s")) for node in (INTEGERS, col("UUID"))]
    query = Select(
        (Item(Column("l", "x"), "a"), Item(Column("r", "x"), "b")),
        Join(Derived(sides[0], "l"), "CROSS", Derived(sides[1], "r")),
    )
    typed = give_types(query, stored)
    assert typed is not query
    assert typed == query
    assert {(n.table, n.type) for n in walk(typed) if isinstance(n, Column) and n.table != "b"} == {
        ("s", BIGINT),
        ("s", column_type("UUID")),
        ("l", BIGINT),
        ("r", column_type("UUID")),
    }
    assert give_types(typed, stored) is typed


def test_a_type_makes_no_column_unequal() -> None:
    one, other = Column("s", "c0"), Column("s", "c0", type=BIGINT)
    assert one == other
    assert hash(one) == hash(other)
