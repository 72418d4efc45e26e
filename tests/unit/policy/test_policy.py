"""The policy file: what is read, how exactly, and that every mistake names its key and how to mend it."""

import pickle
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import PolicyError
from dpsql.kernel.loss import Charge
from dpsql.policy import (
    KEYS,
    AnalystPolicy,
    BooleanDomain,
    BudgetPolicy,
    ColumnBounds,
    CsvSource,
    DatabaseSource,
    Defaults,
    EnumDomain,
    Names,
    ParquetSource,
    Policy,
    RangeDomain,
    Table,
    TableDomain,
    UnitColumn,
    UnitRow,
    UnitVia,
    ValuesDomain,
    fit_bounds,
    load,
)
from dpsql.policy.column_values import fit
from dpsql.types import column_type

Write = Callable[[str], Path]

BUDGET = "[budget]\nepsilon = 5\ndelta = 1e-6\n"
VISITS = """
[tables.visits]
source = "visits.parquet"
unit = "user_id"
columns.user_id = "BIGINT"
columns.page = "VARCHAR"
columns.hour = "INTEGER"
columns.day = "DATE"
columns.paid = "BOOLEAN"
columns.price = "DECIMAL(6,2)"
columns.score = "DOUBLE"
columns.mood = "ENUM('good', 'bad')"
columns.id = "UUID"
columns.tags = "VARCHAR[]"
"""
PAGES = """
[tables.pages]
source = "pages.csv"
public = true
columns = { page = "VARCHAR", number = "SMALLINT" }
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    for name in ("visits.parquet", "pages.csv", "shop.duckdb"):
        (tmp_path / name).touch()

    def to_file(text: str) -> Path:
        path = tmp_path / "dpsql.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return to_file


def problem(path: Path) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        load(path)
    return caught.value


def test_the_designs_example(write: Write) -> None:
    path = write("""
[database]
path = "shop.duckdb"
[budget]
epsilon = 5.0
delta = 1e-6
max_epsilon_per_query = 1.0
max_failures = 3
default_epsilon = 0.5
default_delta = 1e-9
ledger = "dpsql-ledger.sqlite"

[tables.visits]
source = "visits.parquet"
unit = "user_id"
unit_kind = "person"
columns = { user_id = "BIGINT", page = "VARCHAR", hour = "INTEGER", country = "VARCHAR" }
unique = [["user_id", "page"]]
[tables.visits.domain]
country = ["DE", "FR", "US"]
page = { table = "pages", column = "page" }
hour = { from = 0, to = 23 }
[tables.pages]
source = "pages.csv"
public = true
columns = { page = "VARCHAR" }
[analysts.alice]
epsilon = 0.1
""")
    policy = load(path)
    folder = path.parent.resolve()
    assert policy.path == folder / "dpsql.toml"
    assert policy.database == folder / "shop.duckdb"
    assert policy.engine == "duckdb"
    assert policy.budget == BudgetPolicy(
        Fraction(5),
        Fraction(1, 10**6),
        Fraction(1),
        3,
        Fraction(1, 2),
        Fraction(1, 10**9),
        folder / "dpsql-ledger.sqlite",
    )
    assert policy.budget.total == Charge(Fraction(5), Fraction(1, 10**6))
    assert list(policy.tables) == ["visits", "pages"]
    visits = policy.tables["visits"]
    assert visits.source == ParquetSource(folder / "visits.parquet")
    assert visits.unit == UnitColumn("user_id", "person")
    assert visits.unique == (("user_id", "page"),)
    assert dict(visits.domain) == {
        "country": ValuesDomain(("DE", "FR", "US")),
        "page": TableDomain("pages", "page"),
        "hour": RangeDomain(0, 23),
    }
    pages = policy.tables["pages"]
    assert (pages.public, pages.unit, pages.source) == (True, None, CsvSource(folder / "pages.csv"))
    assert policy.analysts["alice"].charge == Charge(Fraction(1, 10))
    assert not policy.share_releases
    assert policy.data_version is None
    assert pickle.loads(pickle.dumps(policy)) == policy


def test_numbers_are_read_exactly(write: Write) -> None:
    # The doubles nearest to these are other rationals; so is anything that went through one.
    budget = 'epsilon = 0.7\ndelta = 1e-25\nmax_epsilon_per_query = "1/3"\ndefault_epsilon = 1_0.5e-2\n'
    policy = load(write(f"[budget]\n{budget}{VISITS}"))
    assert policy.budget.epsilon == Fraction(7, 10)
    assert policy.budget.delta == Fraction(1, 10**25)
    assert policy.budget.max_epsilon_per_query == Fraction(1, 3)
    assert policy.budget.default_epsilon == Fraction(105, 1000)


def test_every_key_is_read_by_its_kind_or_by_a_reader_of_its_own() -> None:
    # A key whose kind has no reader is left out of `Section.values`: unread, its cap would not bind.
    own = {name: {key for key, one in keys.items() if one.kind.read is None} for name, keys in KEYS.items()}
    assert {section: keys for section, keys in own.items() if keys} == {
        "top level": {"budget", "tables", "database", "engine", "defaults", "views", "analysts"}
        | {"groups", "parts", "serve", "mcp", "http"},
        "[budget]": {"person", "renewal"},
        "[tables.NAME]": {"source", "csv", "unit", "unit_period", "columns", "domain", "bounds", "zone"},
    }


def test_numbers_given_in_python_are_read_the_same_way() -> None:
    assert BudgetPolicy(epsilon=0.7).epsilon == Fraction(7, 10)  # type: ignore[arg-type]  # on purpose
    assert AnalystPolicy("a", "1/3").epsilon == Fraction(1, 3)  # type: ignore[arg-type]  # on purpose


def test_tables_and_columns_are_found_without_case_but_only_ascii_case(write: Write) -> None:
    policy = load(write(BUDGET + VISITS))
    table = policy.table("VISITS")
    assert table is policy.tables["visits"]
    assert table is not None
    assert table.columns is not None
    assert table.columns["USER_ID"] == column_type("BIGINT")
    assert "pages" not in policy.tables
    assert policy.table("pages") is None
    # U+212A, the Kelvin sign, lowers to k in Unicode.
    assert "tic\u212aets" not in Names({"tickets": 1})


def test_names_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        Names({"a": 1, "A": 2})
    names = Names({"B": 1, "a": 2})
    assert (list(names), len(names)) == (["B", "a"], 2)
    assert names == {"B": 1, "a": 2}
    assert pickle.loads(pickle.dumps(names)) == names


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("Visits", DatabaseSource(None, "Visits")),
        ("web.visits", DatabaseSource("web", "visits")),
        ('"my schema"."a ""b"""', DatabaseSource("my schema", 'a "b"')),
    ],
)
def test_a_source_may_be_a_table_of_the_database(write: Write, text: str, source: DatabaseSource) -> None:
    toml = f"[database]\npath = 'shop.duckdb'\n{BUDGET}[tables.v]\nsource = '{text}'\nunit = 'u'"
    assert load(write(toml)).tables["v"].source == source


def test_units(write: Write) -> None:
    policy = load(
        write(
            BUDGET
            + """
[tables.lines]
source = "visits.parquet"
unit = "ROW"
[tables.items]
source = "visits.parquet"
unit = { via = "order_id", table = "Orders", column = "id" }
[tables.orders]
source = "visits.parquet"
unit = "customer"
unit_kind = "person"
unique = [["ID"]]
"""
        )
    )
    assert policy.tables["lines"].unit == UnitRow("row")
    assert policy.tables["orders"].unit == UnitColumn("customer", "person")
    assert policy.tables["items"].unit == UnitVia("order_id", "Orders", "id", "person")


@pytest.mark.parametrize(
    ("column", "written", "domain"),
    [
        ("page", '["b", "a"]', ValuesDomain(("b", "a"))),
        ("hour", "[3, 1]", ValuesDomain((3, 1))),
        ("hour", "{ from = -1, to = 1 }", RangeDomain(-1, 1)),
        ("day", "[2024-02-29, '2024-03-01']", None),
        ("day", "['2024-03-01', '2024-02-29']", ValuesDomain((date(2024, 3, 1), date(2024, 2, 29)))),
        (
            "day",
            "{ from = 2024-02-28, to = 2024-03-01 }",
            RangeDomain(date(2024, 2, 28), date(2024, 3, 1)),
        ),
        ("paid", "[true, false]", ValuesDomain((True, False))),
        ("paid", '"boolean"', BooleanDomain()),
        ("mood", '"ENUM"', EnumDomain()),
        ("mood", '["bad"]', ValuesDomain(("bad",))),
        ("price", "[1, 1.0, 1.25]", ValuesDomain((Decimal("1.00"), Decimal("1.25")))),
        ("score", "[0.1, 0.10000000000000000001, -0.0, 0]", ValuesDomain((Decimal("0.1"), Decimal("0.0")))),
        (
            "id",
            '["5F0D8A3E-0000-4000-8000-00000000000A", "5f0d8a3e-0000-4000-8000-00000000000a"]',
            ValuesDomain(("5f0d8a3e-0000-4000-8000-00000000000a",)),
        ),
        ("page", '{ table = "PAGES", column = "Page" }', TableDomain("PAGES", "Page")),
        ("hour", '{ table = "pages", column = "number" }', TableDomain("pages", "number")),
    ],
)
def test_domains_are_held_in_their_columns_type(
    write: Write, column: str, written: str, domain: object
) -> None:
    toml = f"{BUDGET}{VISITS}domain.{column} = {written}\n{PAGES}"
    if domain is None:
        assert "different kinds" in str(problem(write(toml)))
    else:
        assert load(write(toml)).tables["visits"].domain[column] == domain


def test_a_range_knows_its_size() -> None:
    assert RangeDomain(0, 23).size == 24
    assert RangeDomain(date(2024, 2, 28), date(2024, 3, 1)).size == 3
    assert RangeDomain(1, 0).size == 0
    assert RangeDomain(-(1 << 63), 1 << 63).size == (1 << 64) + 1


def test_values_differ_in_kind_though_python_calls_them_equal() -> None:
    assert ValuesDomain((True, 1, Decimal(1))).values == (True, 1, Decimal(1))
    assert [type(v) for v in ValuesDomain((True, 1, Decimal(1), 1)).values] == [bool, int, Decimal]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "VARCHAR"),
        ("1", "BIGINT"),
        (True, "INTEGER"),
        (128, "TINYINT"),
        (-1, "UBIGINT"),
        (1 << 63, "BIGINT"),
        (Decimal("0.001"), "DECIMAL(4,2)"),
        (Decimal("100"), "DECIMAL(4,2)"),
        (Decimal("1.00000000000000000000000000000000000000001"), "DECIMAL(4,2)"),
        (Decimal("NaN"), "DOUBLE"),
        (Decimal("1e400"), "DOUBLE"),
        ("2024-02-30", "DATE"),
        ("20240229", "DATE"),
        (datetime(2024, 1, 1), "DATE"),
        ("2024-01-01T10:00:00+02:00", "TIMESTAMP"),
        ("24:00", "TIME"),
        ("5f0d8a3e00004000800000000000000a", "UUID"),
        ("c", "ENUM('a', 'b')"),
        ("\ud800", "VARCHAR"),
        ("a", "BLOB"),
        ("a", "VARCHAR[]"),
        (1, "BOOLEAN"),
    ],
)
def test_values_that_do_not_fit_their_column(value: str | int | Decimal | datetime, kind: str) -> None:
    with pytest.raises(ValueError):
        fit(value, column_type(kind))


def test_the_policy_is_known_by_its_place_not_its_content(write: Write, tmp_path: Path) -> None:
    first = load(write(BUDGET + VISITS))
    second = load(write(BUDGET + "# raised\n" + VISITS.replace('"BIGINT"', '"INTEGER"')))
    assert first.id == second.id == "dpsql.toml"
    other = tmp_path / "other.toml"
    other.write_text(BUDGET + VISITS)
    assert load(other).id == "other.toml"
    assert python_policy().id == "python"


def fingerprint(path: Path) -> str:
    policy = load(path)
    return policy.fingerprint(policy.tables.values())


def test_the_fingerprint_follows_what_answers_depend_on(write: Write) -> None:
    base = fingerprint(write(BUDGET + VISITS + PAGES))
    # The same content: another order of tables, comments, a type's other name, another budget, an analyst.
    same = [
        BUDGET + PAGES + VISITS,
        BUDGET + "# hello\n" + VISITS.replace('"BIGINT"', '"int8"') + PAGES,
        BUDGET.replace("5", "50") + VISITS + PAGES + "[analysts.bob]\nepsilon = 1\n",
        "share_releases = true\n" + BUDGET + VISITS + PAGES,
    ]
    assert [fingerprint(write(text)) for text in same] == [base] * 4
    other = [
        BUDGET + VISITS.replace('"BIGINT"', '"INTEGER"') + PAGES,
        BUDGET + VISITS + 'unique = [["user_id"]]\n' + PAGES,
        BUDGET + VISITS + 'domain.page = ["a"]\n' + PAGES,
        BUDGET + VISITS + 'domain.page = ["b"]\n' + PAGES,
        BUDGET + VISITS + "domain.hour = [1, 2]\n" + PAGES,
        BUDGET + VISITS + "domain.hour = [2, 1]\n" + PAGES,
        BUDGET + VISITS + "domain.hour = { from = 1, to = 2 }\n" + PAGES,
        BUDGET + VISITS + 'unit_kind = "person"\n' + PAGES,
        BUDGET + VISITS + "trust_source = true\n" + PAGES,
        BUDGET + VISITS + "bounds.hour = { from = 1, to = 2 }\n" + PAGES,
        BUDGET + VISITS + "bounds.hour = { from = 1, to = 3 }\n" + PAGES,
        BUDGET + VISITS + "bounds.score = { from = 1, to = 3 }\n" + PAGES,
        BUDGET + VISITS + "bounds.score = { from = 1, to = 3, step = 0.5 }\n" + PAGES,
        BUDGET + VISITS + "units_at_least = 5\n" + PAGES,
        BUDGET + VISITS.replace("tables.visits", "tables.calls") + PAGES,
        BUDGET + VISITS,
    ]
    prints = {base, *(fingerprint(write(text)) for text in other)}
    assert len(prints) == len(other) + 1


# What is appended or replaced in a good policy, the key its error names, and what it says (the hint too).
MISTAKES = [
    ("[tables.visits.domain]\nhour = [1, 2, 1]\n", "tables.visits.domain.hour[2]", "listed twice"),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = 'u'\nunit_kind = '?? !'\n",
        "tables.t.unit_kind",
        'such as "person"',
    ),
    ("[defaults]\nauto_bounds = 1\n", "defaults.auto_bounds", "expected a boolean"),
    ("[defaults]\nextremes = 'no'\n", "defaults.extremes", "expected a boolean"),
    ("[tables.pages.bounds]\nnumber = { from = 0, to = 1 }\n", "tables.pages.bounds", "leave it out"),
    ("epsilom = 1\n", "budget.epsilom", "did you mean epsilon?"),
    ("[budgets]\n", "budgets", "did you mean budget?"),
    ("[database]\nfile = 'x'\n", "database.file", "path"),
    ("[database]\npath = 'none.duckdb'\n", "database.path", "no such file"),
    ("[database]\nengine = 'duckbd'\n", "database.engine", "did you mean duckdb?"),
    ("[database]\npath = 5\n", "database.path", "expected text, found an integer"),
    ("max_epsilon_per_query = 6\n", "budget.max_epsilon_per_query", "more than budget.epsilon"),
    ("default_epsilon = 5.1\n", "budget.default_epsilon", "more than budget.epsilon"),
    (
        "max_epsilon_per_query = 1\ndefault_epsilon = 2\n",
        "budget.default_epsilon",
        "more than budget.max_epsilon_per_query",
    ),
    ("default_delta = 1e-3\n", "budget.default_delta", "more than budget.delta"),
    ("default_delta = 0\n", "budget.default_delta", "greater than 0"),
    ("max_cancelled = 0\n", "budget.max_cancelled", "between"),
    ("max_failures_total = true\n", "budget.max_failures_total", "expected an integer"),
    ("max_failures_total = 2\n", "budget.max_failures_total", "less than budget.max_failures"),
    ("max_cancelled = 9\nmax_cancelled_total = 8\n", "budget.max_cancelled_total", "less than"),
    ("max_failures = 0\n", "budget.max_failures", "between"),
    ("max_failures = true\n", "budget.max_failures", "expected an integer, found a boolean"),
    ("max_failures = 1.5\n", "budget.max_failures", "expected an integer, found a number"),
    ("ledger = 5\n", "budget.ledger", "expected text"),
    ("ledger = ''\n", "budget.ledger", "path"),
    ("default_epsilon = 'much'\n", "budget.default_epsilon", "not a finite number"),
    ("default_epsilon = nan\n", "budget.default_epsilon", "not a finite number"),
    ("default_epsilon = false\n", "budget.default_epsilon", "expected a number, found a boolean"),
    ("[analysts]\n", "analysts", "lists no analyst"),
    ("[analysts.bob]\n", "analysts.bob.epsilon", "required"),
    ("[analysts.bob]\nepsilon = 0\n", "analysts.bob.epsilon", "greater than 0"),
    ("[analysts.bob]\nepsilon = 1\ndelta = 1\n", "analysts.bob.delta", "less than 1"),
    ("[analysts.bob]\nepsilon = 1\nlimit = 1\n", "analysts.bob.limit", "epsilon, delta"),
    ("[analysts]\nbob = 1\n", "analysts.bob", "expected a table"),
    ('[analysts."a\\nb"]\nepsilon = 1\n', 'analysts."a\\nb"', "printable"),
    ("[tables.t]\nunit = 'u'\n", "tables.t.source", "required"),
    ("[tables.t]\nsource = 'none.parquet'\nunit = 'u'\n", "tables.t.source", "no such file"),
    ("[tables.t]\nsource = 'visits.parqet'\nunit = 'u'\n", "tables.t.source", "no database is named"),
    ("[tables.t]\nsource = 'visits.json'\nunit = 'u'\n", "tables.t.source", "Parquet"),
    ("[tables.t]\nsource = 'a/b'\nunit = 'u'\n", "tables.t.source", "neither"),
    ("[tables.t]\nsource = 'visits.parquet'\n", "tables.t.unit", "unit = "),
    ("[tables.t]\nsource = 'visits.parquet'\nunit = 5\n", "tables.t.unit", "name of a column"),
    (
        "[tables.t]\nsource = 'visits.parquet'\npublic = true\nunit = 'u'\n",
        "tables.t.unit",
        "a public table has no privacy unit",
    ),
    (
        "[tables.t]\nsource = 'visits.parquet'\npublic = true\nunit_kind = 'u'\n",
        "tables.t.unit_kind",
        "a public table",
    ),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = 'ROW'\nunit_kind = 'Unit'\n",
        "tables.t.unit_kind",
        "a unit of 't' is one row, not everything of one unit",
    ),
    (
        "[tables.s]\nsource = 'visits.parquet'\nunit = 'ROW'\nunit_kind = 'call'\n"
        "[tables.t]\nsource = 'visits.parquet'\nunit = 'ROW'\nunit_kind = 'call'\n",
        "tables.s.unit_kind",
        "a unit of 's' is one row",
    ),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = 'u'\nunits_at_least = 0\n",
        "tables.t.units_at_least",
        "at least 1",
    ),
    (
        "[tables.t]\nsource = 'visits.parquet'\npublic = true\nunits_at_least = 5\n",
        "tables.t.units_at_least",
        "a public table",
    ),
    ("[tables.t]\nsource = 'pages.csv'\nunit = 'u'\n", "tables.t.columns", "never sniffed"),
    ("[tables.t]\nsource = 'visits.parquet'\npublic = 1\n", "tables.t.public", "expected a boolean"),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = 'usr'\ncolumns = { user = 'INT' }\n",
        "tables.t.unit",
        "did you mean user?",
    ),
    ("[tables.t]\nsource = 'visits.parquet'\nunit = 'u'\ncolumns = {}\n", "tables.t.columns", "at least"),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = 'u'\ncolumns = { u = 'HUGEINT' }\n",
        "tables.t.columns.u",
        "declare it BIGINT",
    ),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = 'u'\ncolumns = { u = 1 }\n",
        "tables.t.columns.u",
        "type in quotes",
    ),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = 'u'\ncolumns = { 'ü' = 'INT', u = 'INT' }\n",
        'tables.t.columns."\\u00fc"',
        "ASCII",
    ),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = 'u'\ncolumns = { U = 'INT', u = 'INT' }\n",
        "tables.t.columns",
        "same name",
    ),
    ("[tables.\"tæble\"]\nsource = 'visits.parquet'\nunit = 'u'\n", 'tables."t\\u00e6ble"', "ASCII"),
    ("[tables.VISITS]\nsource = 'visits.parquet'\nunit = 'user_id'\n", "tables", "same name"),
    ("[tables]\nt = 1\n", "tables", "[tables.NAME]"),
    *(
        (
            f"[tables.t]\nsource = 'visits.parquet'\nunit = 'u'\ncolumns = {{ u = '{kind}' }}\n",
            "tables.t.unit",
            "integer, VARCHAR, UUID or DATE",
        )
        for kind in (
            "DOUBLE",
            "DECIMAL(9,0)",
            "TIMESTAMP",
            "BOOLEAN",
            "BLOB",
            "INT[]",
            "TIME",
        )
    ),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = 'u'\ncolumns = { u = 'VARCHAR' }\n",
        "tables.t.unit",
        "units of one kind have one type",
    ),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = 'ROW'\ncolumns = { Row = 'VARCHAR' }\n",
        "tables.t.unit",
        "each row",
    ),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = { via = 'o', table = 'visit', column = 'id' }\n",
        "tables.t.unit",
        "did you mean visits?",
    ),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = { via = 'o', table = 'pages', column = 'page' }\n",
        "tables.t.unit",
        "does not name its unit by a column",
    ),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = { via = 'o', table = 'visits', column = 'id' }\n",
        "tables.t.unit",
        'unique = [["id"]]',
    ),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = { via = 'o', table = 'visits', column = 'scor' }\n",
        "tables.t.unit",
        "did you mean score?",
    ),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = { via = 'o', table = 'visits', column = 'price' }\n",
        "tables.t.unit",
        "cannot link",
    ),
    (
        "[tables.t]\nsource = 'visits.parquet'\ncolumns = { o = 'INT' }\n"
        "unit = { via = 'o', table = 'visits', column = 'id' }\n",
        "tables.t.unit",
        "same type",
    ),
    ("[tables.t]\nsource = 'visits.parquet'\nunit = { via = 'o' }\n", "tables.t.unit.table", "required"),
    (
        "[tables.t]\nsource = 'visits.parquet'\nunit = { via = 'o', tabel = 'x', column = 'y' }\n",
        "tables.t.unit.tabel",
        "did you mean table?",
    ),
]

DOMAIN_MISTAKES = [
    ("nosuch", "['a']", "no column"),
    ("pag", "['a']", "did you mean page?"),
    ("page", "[]", "at least one value"),
    ("page", "['a', 1]", "different kinds"),
    ("page", "[1]", "not a valid VARCHAR"),
    ("page", "[['a']]", "found a list"),
    ("page", "'a'", "expected a domain"),
    ("page", "5", "expected a domain"),
    ("page", "{ table = 'visits', column = 'page' }", "is private"),
    ("page", "{ table = 'page', column = 'page' }", "did you mean pages?"),
    ("page", "{ table = 'pages', column = 'pge' }", "did you mean page?"),
    ("page", "{ table = 'pages', column = 'number' }", "is SMALLINT"),
    ("page", "{ table = 'pages' }", "required"),
    ("page", "'BOOLEAN'", "not BOOLEAN"),
    ("page", "'ENUM'", "not ENUM"),
    ("hour", "{ from = 5, to = 4 }", "empty"),
    ("hour", "{ from = 5 }", "required"),
    ("hour", "{ from = 5, to = 6, step = 2 }", "unknown key"),
    ("hour", "{ from = 0, to = 1_000_000_000_000 }", "at most"),
    ("hour", "{ from = 0, to = 2.5 }", "found a number"),
    ("hour", "{ from = 2024-01-01, to = 2024-01-02 }", "does not fit"),
    ("hour", "{ from = 3_000_000_000, to = 3_000_000_001 }", "not a valid INTEGER"),
    ("hour", "[1.5]", "not a valid INTEGER"),
    ("day", "{ from = 1, to = 2 }", "does not fit"),
    ("day", "{ from = 2024-01-01T00:00:00, to = 2024-01-02T00:00:00 }", "date to a date"),
    ("score", "[nan]", "not a valid DOUBLE"),
    ("mood", "['ugly']", "ENUM"),
    ("tags", "['a']", "cannot have a domain"),
]


BOUNDS_MISTAKES = [
    ("nosuch", "{ from = 0, to = 1 }", "no column"),
    ("scor", "{ from = 0, to = 1 }", "did you mean score?"),
    ("score", "500", "expected bounds, found an integer"),
    ("score", "[0, 500]", "write { from = 0, to = 500 }"),
    ("score", "{ from = 0 }", "required"),
    ("score", "{ from = 0, upto = 1 }", "unknown key"),
    ("score", "{ from = 1, to = 1 }", "`from` must be less than `to`"),
    ("score", "{ from = 5, to = 4 }", "`from` must be less than `to`"),
    ("score", "{ from = nan, to = 4 }", "not a valid DOUBLE"),
    ("score", "{ from = 0, to = inf }", "not a valid DOUBLE"),
    ("score", "{ from = 0, to = true }", "a bound is a number, a date or a timestamp"),
    ("score", "{ from = '0', to = '1' }", "a bound is a number, a date or a timestamp"),
    ("score", "{ from = 0, to = 2024-01-01 }", "both numbers, or both dates"),
    ("score", "{ from = 2024-01-01, to = 2024-01-02 }", "are numbers"),
    ("score", "{ from = 0, to = 1, step = 0 }", "greater than 0"),
    ("score", "{ from = 0, to = 1, step = 2 }", "at most `to` - `from`"),
    ("score", "{ from = 0, to = 1, step = nan }", "not a finite number"),
    ("score", "{ from = 0, to = 1, step = '0.1' }", "expected a number"),
    ("score", "{ from = 0, to = 1, step = true }", "expected a number"),
    ("hour", "{ from = 0, to = 2.5 }", "not a valid INTEGER"),
    ("hour", "{ from = 0, to = 3_000_000_000 }", "not a valid INTEGER"),
    ("hour", "{ from = 0, to = 10, step = 2 }", "has a step of its own"),
    ("price", "{ from = 0, to = 0.125 }", "not a valid DECIMAL(6,2)"),
    ("day", "{ from = 1, to = 2 }", "are dates"),
    ("day", "{ from = 2024-01-01, to = 2024-02-01, step = 1 }", "have a step of its own"),
    ("page", "{ from = 0, to = 1 }", "a column of type VARCHAR has no bounds"),
    ("paid", "{ from = 0, to = 1 }", "FALSE is 0 and TRUE is 1"),
]


@pytest.mark.parametrize(("column", "written", "says"), BOUNDS_MISTAKES)
def test_mistaken_bounds_name_their_key(write: Write, column: str, written: str, says: str) -> None:
    error = problem(write(f"{BUDGET}{VISITS}bounds.{column} = {written}\n{PAGES}"))
    assert error.message.startswith(f"dpsql.toml: tables.visits.bounds.{column}")
    assert says in str(error)


def test_bounds_are_held_in_their_columns_type(write: Write) -> None:
    added = """
columns.at = "TIMESTAMP"
bounds.PRICE = { from = 0, to = 99.5 }
bounds.score = { from = -1, to = 0.1, step = 0.001 }
bounds.day = { from = 2024-01-01, to = 2024-12-31 }
bounds.at = { from = 2024-01-01, to = 2024-01-31 }
"""
    table = load(write(f"{BUDGET}{VISITS}{added}{PAGES}")).tables["visits"]
    assert table.bounds["price"] == ColumnBounds(Decimal("0.00"), Decimal("99.50"))
    assert table.bounds["score"].ends == (Fraction(-1), Fraction(1, 10))
    assert table.bounds["score"].step == Decimal("0.001")
    assert table.bounds["day"] == ColumnBounds(date(2024, 1, 1), date(2024, 12, 31))
    # Of a TIMESTAMP column, a date as the last value is the whole day.
    assert table.bounds["at"] == ColumnBounds(datetime(2024, 1, 1), datetime(2024, 1, 31, 23, 59, 59, 999999))
    assert fit_bounds(table.bounds["at"], column_type("TIMESTAMP"), "") == table.bounds["at"]


def test_defaults_of_bounds(write: Write) -> None:
    assert load(write(BUDGET + VISITS + PAGES)).defaults == Defaults(None, None, True, True)
    text = "[defaults]\nauto_bounds = false\nextremes = false\n"
    assert load(write(BUDGET + VISITS + PAGES + text)).defaults == Defaults(None, None, False, False)


def test_auto_is_no_constant(write: Write) -> None:
    plain = load(write(BUDGET + VISITS + PAGES))
    auto = load(write(BUDGET + VISITS + PAGES + '[defaults]\nrows_per_unit = "AUTO"\ngroups = "AUTO"\n'))
    assert auto.defaults == plain.defaults
    numbers = "[defaults]\nrows_per_unit = 20\ngroups = 16\n"
    own = load(write(f'{BUDGET}{VISITS}rows_per_unit = "AUTO"\ngroups = 3\n{PAGES}{numbers}'))
    table = own.tables["visits"]
    assert (own.most(table, "rows_per_unit"), own.most(table, "groups")) == (None, 3)
    theirs = load(write(f"{BUDGET}{VISITS}{PAGES}{numbers}"))
    assert theirs.most(theirs.tables["visits"], "rows_per_unit") == 20
    for written in ('"auto"', '"20"', "2.5"):
        error = problem(write(f"{BUDGET}{VISITS}rows_per_unit = {written}\n{PAGES}"))
        assert 'tables.visits.rows_per_unit: expected an integer or "AUTO"' in str(error)


@pytest.mark.parametrize(("text", "key", "says"), MISTAKES)
def test_every_mistake_names_its_key_and_how_to_mend_it(write: Write, text: str, key: str, says: str) -> None:
    # Keys without a header belong to [budget].
    before, after = ("", text) if text.startswith("[") else (text, "")
    toml = f"{BUDGET}{text}" if "[tables]" in text else f"{BUDGET}{before}{VISITS}{PAGES}{after}"
    error = problem(write(toml))
    assert error.message.startswith(f"dpsql.toml: {key}: ")
    assert says in str(error)
    assert "\n" not in error.message
    assert "\n" not in (error.hint or "")


@pytest.mark.parametrize(("column", "written", "says"), DOMAIN_MISTAKES)
def test_every_mistaken_domain_names_its_key(write: Write, column: str, written: str, says: str) -> None:
    error = problem(write(f"{BUDGET}{VISITS}domain.{column} = {written}\n{PAGES}"))
    assert error.message.startswith(f"dpsql.toml: tables.visits.domain.{column}")
    assert says in str(error)


def test_wrong_unique_facts(write: Write) -> None:
    for written, says in [
        ("[['page', 'PAGE']]", "names a column twice"),
        ("[['user_id'], []]", "tables.visits.unique[1]: names no column"),
        ("[['usr_id']]", "did you mean user_id?"),
        ("['page']", "expected lists of columns"),
        ("'page'", "expected a list, found text"),
    ]:
        assert says in str(problem(write(f"{BUDGET}{VISITS}unique = {written}\n")))


def test_a_budget_out_of_range(write: Write) -> None:
    for written, says in [
        ("epsilon = 0", "greater than 0"),
        ("epsilon = -1", "greater than 0"),
        ("delta = 1", "required"),
        ("epsilon = 1\ndelta = 1", "less than 1"),
        ("epsilon = 1\ndelta = -1e-9", "at least 0"),
        ("epsilon = 1e9999", "not a finite number"),
        ("epsilon = inf", "not a finite number"),
    ]:
        error = problem(write(f"[budget]\n{written}\n{VISITS}"))
        assert "budget." in error.message
        assert says.lower() in str(error).lower()


def test_what_is_no_policy_at_all(write: Write, tmp_path: Path) -> None:
    assert "no such file" in str(problem(tmp_path / "none.toml"))
    assert "budget: is required" in str(problem(write("")))
    assert "tables: is required" in str(problem(write(BUDGET)))
    assert "tables: " in str(problem(write("tables = 1\n" + BUDGET)))
    assert "cannot be read" in str(problem(tmp_path))
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"\xff\xfe")
    assert "UTF-8" in str(problem(bad))
    assert "nested too deeply" in str(problem(write("a = " + "[" * 100_000)))
    assert "number too long" in str(problem(write("a = " + "1" * 10_000)))
    assert "number too long" in str(problem(write("a = 1e99999999999999999999")))


def test_broken_toml_points_at_its_line(write: Write) -> None:
    error = problem(write(f"{BUDGET}nonsense\n{VISITS}"))
    assert (error.line, error.source) == (4, "nonsense")
    assert "line 4" in error.message
    assert str(error).splitlines()[-1].endswith("^")
    assert problem(write('[budget]\nepsilon = "')).message.startswith("dpsql.toml: ")


def test_a_byte_order_mark_and_dos_line_ends_are_read(write: Write) -> None:
    path = write("")
    path.write_bytes(b"\xef\xbb\xbf" + (BUDGET + VISITS).replace("\n", "\r\n").encode())
    assert load(path).budget.epsilon == 5


def python_policy(**changes: object) -> Policy:
    tables = {"t": Table("t", ParquetSource(Path("t.parquet")), unit=UnitColumn("u"))}
    return Policy(**{"budget": BudgetPolicy(Fraction(1)), "tables": tables, **changes})  # type: ignore[arg-type]  # on purpose


def test_a_policy_made_in_python_obeys_the_same_rules() -> None:
    policy = python_policy()
    assert policy.table("T") is policy.tables["t"]
    assert policy.analysts == {}
    mistakes: list[tuple[str, Callable[[], object]]] = [
        ("budget.epsilon", lambda: python_policy(budget=BudgetPolicy(Fraction(0)))),
        ("budget.delta", lambda: BudgetPolicy(Fraction(1), delta=float("nan"))),  # type: ignore[arg-type]  # on purpose
        ("tables: ", lambda: python_policy(tables={})),
        ("tables.s: ", lambda: python_policy(tables={"s": policy.tables["t"]})),
        ("analysts.b: ", lambda: python_policy(analysts={"b": AnalystPolicy("c", Fraction(1))})),
        ("database.engine", lambda: python_policy(engine="oracle")),
        ("tables.t.unit", lambda: Table("t", ParquetSource(Path("t.parquet")))),
        ("tables.t.unit", lambda: Table("t", ParquetSource(Path("t.parquet")), unit="u")),  # type: ignore[arg-type]  # on purpose
        ("tables.t.source", lambda: Table("t", "t.parquet", unit=UnitColumn("u"))),  # type: ignore[arg-type]  # on purpose
        (
            "tables.t.domain.u",
            lambda: Table(
                "t",
                ParquetSource(Path("t.parquet")),
                unit=UnitColumn("u"),
                domain={"u": ValuesDomain((0.5,))},  # type: ignore[arg-type]  # on purpose
            ),
        ),
    ]
    for key, make in mistakes:
        with pytest.raises(PolicyError) as caught:
            make()
        assert str(caught.value).startswith(key)
