"""`dpsql init`: a policy from names and types alone."""

from __future__ import annotations

import io
import re
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.cli import init, main
from dpsql.cli.narrate import ExitCode
from dpsql.errors import PolicyError
from dpsql.policy import (
    BooleanDomain,
    ColumnBounds,
    CsvFormat,
    CsvSource,
    RangeDomain,
    TableDomain,
    UnitColumn,
    UnitRow,
    UnitVia,
    ValuesDomain,
    load,
)
from dpsql.policy.policy_keys import SCHEMA
from tests.narrow import present

SECRET = "canary-4711"


@dataclass
class Done:
    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPSQL_POLICY", raising=False)
    with duckdb.cursor() as connection:
        connection.execute(
            f"COPY (SELECT 1 AS user_id, '{SECRET}' AS page, 7::TINYINT AS hour, DATE '2024-02-29' AS day, "
            "TRUE AS mobile, 1.5::FLOAT AS price, 1::HUGEINT AS big, INTERVAL 1 DAY AS span, "
            "MAP {'a': 1} AS tags) TO 'visits.parquet' (FORMAT parquet)"
        )
        connection.execute("COPY (SELECT 'home' AS page) TO 'pages.parquet' (FORMAT parquet)")
    Path("people.csv").write_text(f"user_id,name,born\n1,{SECRET},1990\nx,y\n")
    return tmp_path


@pytest.fixture
def run(here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    def go(*args: str, answers: list[str] | None = None) -> Done:
        given = iter(answers or [])
        if answers is not None:
            terminal = io.StringIO()
            terminal.isatty = lambda: True  # type: ignore[method-assign]  # somebody is there to be asked
            monkeypatch.setattr(sys, "stdin", terminal)
            monkeypatch.setattr(init, "_ask_on_terminal", lambda question, default="": next(given) or default)
        else:
            monkeypatch.setattr(sys, "stdin", io.StringIO())
        code = main(list(args))
        out, err = capfd.readouterr()
        assert list(given) == [], "everything typed was asked for"
        return Done(code, out, err)

    return go


def test_a_commented_policy_that_loads(run: Run, here: Path) -> None:
    done = run(
        "init", "visits.parquet", "pages.parquet", "--unit", "user_id", "--public", "pages", "--epsilon", "5"
    )
    assert (done.code, done.out) == (ExitCode.OK, ""), done.err
    assert "no row was read" in done.err
    text = Path("dpsql.toml").read_text("utf-8")
    assert "renewal" not in text  # an owner who wants a budget that starts anew writes it
    assert text.splitlines()[0] == f"#:schema {SCHEMA.as_uri()}"
    policy = load("dpsql.toml")
    assert policy.budget.epsilon == 5
    assert (policy.budget.delta, policy.budget.accounting) == (Fraction(1, 10**6), "zcdp")
    assert policy.budget.ledger == here / "dpsql-ledger.sqlite"
    assert policy.tables["visits"].unit == UnitColumn("user_id")
    assert policy.tables["pages"].public
    columns = policy.tables["visits"].columns
    assert columns is not None
    assert {name: str(kind) for name, kind in columns.items()} == {
        "user_id": "INTEGER",
        "page": "VARCHAR",
        "hour": "TINYINT",
        "day": "DATE",
        "mobile": "BOOLEAN",
        "price": "DOUBLE",
        "big": "BIGINT" if "HUGEINT" in text else "DOUBLE",
        "span": "VARCHAR",
    }
    assert "# tags is left out:" in text
    # What its type alone makes public is a domain; what the rows hold is not.
    assert dict(policy.tables["visits"].domain) == {"mobile": BooleanDomain()}
    assert SECRET not in text
    assert "2024-02-29" not in text
    # Bounds are numbers to edit, for what may be an amount; whoever uncomments them has a policy that loads.
    proposed = text.partition("[tables.visits.bounds]")[2].partition("\n[")[0]
    assert [line.split()[1] for line in proposed.splitlines() if line] == ["hour", "price", "big"]
    Path("dpsql.toml").write_text(text.replace(proposed, proposed.replace("# ", "")), "utf-8")
    assert load("dpsql.toml").tables["visits"].bounds["hour"] == ColumnBounds(0, 100)
    assert not Path("dpsql-ledger.sqlite").exists()


def test_domains_are_the_owners(run: Run) -> None:
    done = run(
        *("init", "visits.parquet", "pages.parquet", "--unit", "user_id", "--public", "pages"),
        *(
            "--domain",
            "visits.page=pages.page",
            "--domain",
            "hour=0..23",
            "--domain",
            "day=2024-01-01..2024-12-31",
        ),
        *("--domain", "price=1, 2.5", "--domain", 'span=["1 day", "a, b"]'),
        *(
            "--delta",
            "1e-6",
            "--default-delta",
            "1e-9",
            "--default-epsilon",
            "0.1",
            "--max-epsilon-per-query",
            "0.5",
        ),
        *("--unit-kind", "person"),
    )
    assert done.code == ExitCode.OK, done.err
    policy = load("dpsql.toml")
    domain = policy.tables["visits"].domain
    assert domain["page"] == TableDomain("pages", "page")
    assert domain["hour"] == RangeDomain(0, 23)
    assert isinstance(domain["day"], RangeDomain)
    assert domain["day"].size == 366
    assert domain["span"] == ValuesDomain(("1 day", "a, b"))
    assert domain["price"] == ValuesDomain((Decimal("1.0"), Decimal("2.5")))
    assert policy.budget.default_epsilon is not None
    assert policy.tables["visits"].unit == UnitColumn("user_id", "person")


def test_a_key_of_a_public_table_is_proposed_as_a_domain(run: Run) -> None:
    with duckdb.connect() as made:
        made.execute("COPY (SELECT 1 AS item_id, 2 AS user_id, 3 AS product_id) TO 'items.parquet'")
        made.execute("COPY (SELECT 3 AS product_id, 'a' AS label) TO 'products.parquet'")
    done = run("init", "items.parquet", "products.parquet", "--unit", "user_id", "--public", "products")
    assert done.code == ExitCode.OK, done.err
    line = '# product_id = { table = "products", column = "product_id" }'
    text = Path("dpsql.toml").read_text("utf-8")
    assert line in text
    assert "# item_id = { from = ..., to = ... }" in text
    Path("dpsql.toml").write_text(text.replace(line, line[2:]), "utf-8")
    assert load("dpsql.toml").tables["items"].domain["product_id"] == TableDomain("products", "product_id")


def test_a_domain_may_not_come_from_a_private_table(run: Run) -> None:
    done = run(
        *("init", "visits.parquet", "pages.parquet", "--unit", "pages=ROW", "--unit", "user_id"),
        *("--domain", "visits.page=pages.page"),
    )
    assert done.code == ExitCode.USAGE
    assert "may not be derived from private data" in done.err
    assert not Path("dpsql.toml").exists()


def test_a_csv_file_has_no_types(run: Run) -> None:
    assert run("init", "people.csv", "--unit", "user_id").code == ExitCode.OK
    columns = load("dpsql.toml").tables["people"].columns
    assert columns is not None
    assert {str(kind) for kind in columns.values()} == {"VARCHAR"}
    assert "a CSV file has no types" in Path("dpsql.toml").read_text()
    done = run(
        "-p",
        "b.toml",
        "init",
        "people.csv",
        "--unit",
        "ROW",
        "--column",
        "people.born=int",
        "--column",
        "user_id=BIGINT",
    )
    assert done.code == ExitCode.OK, done.err
    policy = load("b.toml")
    assert policy.tables["people"].unit == UnitRow()
    assert [str(kind) for kind in (policy.tables["people"].columns or {}).values()] == [
        "BIGINT",
        "VARCHAR",
        "INTEGER",
    ]
    assert policy.budget.ledger.name == "b-ledger.sqlite"


def test_a_database_tells_its_keys(run: Run) -> None:
    with duckdb.connect("shop.duckdb") as connection:
        connection.execute(
            "CREATE TABLE orders (order_id BIGINT PRIMARY KEY, user_id BIGINT, state ENUM ('a', 'b'))"
        )
        connection.execute(
            "CREATE TABLE items (item BIGINT UNIQUE, order_id BIGINT REFERENCES orders (order_id))"
        )
        connection.execute('CREATE SCHEMA "old stock"')
        connection.execute(
            'CREATE TABLE "old stock".prices (item BIGINT, price DECIMAL(38, 2), PRIMARY KEY (item))'
        )
        connection.execute("CREATE VIEW v AS SELECT * FROM orders")
    done = run("init", "shop.duckdb", "--unit", "user_id", "--public", "old_stock_prices")
    assert done.code == ExitCode.OK, done.err
    policy = load("dpsql.toml")
    assert set(policy.tables) == {"orders", "items", "old_stock_prices"}
    assert policy.tables["items"].unit == UnitVia("order_id", "orders", "order_id")
    assert policy.tables["orders"].unique == (("order_id",),)
    # Two NULLs are unique to the database, and a value as any other to dpsql.
    assert policy.tables["items"].unique == ()
    assert str((policy.tables["orders"].columns or {})["state"]) == "VARCHAR"
    assert str((policy.tables["old_stock_prices"].columns or {})["price"]) == "DECIMAL(18,2)"
    checked = run("check")
    assert checked.code == ExitCode.OK, checked.out + checked.err


def test_nothing_is_ever_overwritten(run: Run) -> None:
    Path("dpsql.toml").write_text("mine")
    done = run("init", "visits.parquet", "--unit", "user_id")
    assert done.code == ExitCode.USAGE
    assert "never overwrites" in done.err
    assert Path("dpsql.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("visits.parquet",), "whose rows are those of visits? nothing says"),
        (("visits.parquet", "pages.parquet", "--unit", "user_id"), "--public pages"),
        (
            ("visits.parquet", "--unit", "visits=client_id"),
            "visits has no column client_id; it has user_id, page",
        ),
        (("visits.parquet", "--unit", "a", "--unit", "b"), "write --unit TABLE=COLUMN for one"),
        (
            ("visits.parquet", "--unit", "visits=page", "--public", "Visits"),
            "cannot be public and have a unit",
        ),
        (("visits.parquet", "--public", "nurses"), "there is no table nurses; there are visits"),
        (("none.parquet", "--unit", "a"), "there is no file none.parquet"),
        (
            ("people.csv", "visits.parquet", "--unit", "user_id", "--domain", "user_id=1,2"),
            "is in several tables",
        ),
        (("visits.parquet", "--unit", "user_id", "--domain", "page"), "takes TABLE.COLUMN=VALUES"),
        (("visits.parquet", "--unit", "user_id", "--domain", "x=1"), "x is no column of these tables"),
        (("visits.parquet", "--unit", "user_id", "--domain", "hour=a,b"), "is not a valid TINYINT"),
        (("visits.parquet", "--unit", "user_id", "--domain", "page=[1"), "not a JSON list"),
        (
            ("visits.parquet", "--public", "visits", "--domain", "hour=0..1"),
            "is public, which needs no domain",
        ),
        (
            ("people.csv", "--unit", "user_id", "--column", "born=YEAR"),
            "columns of type YEAR are not supported",
        ),
        (("people.csv", "--unit", "user_id", "--column", "born"), "takes TABLE.COLUMN=TYPE"),
        (("visits.parquet", "visits.parquet", "--unit", "user_id"), "would both be table visits"),
        (("visits.parquet", "--unit", "user_id", "--epsilon", "much"), "epsilon: "),
        (
            ("visits.parquet", "--unit", "user_id", "--epsilon", "1", "--default-epsilon", "2"),
            "default_epsilon",
        ),
        (("visits.parquet", "--unit", "price"), "cannot name privacy units"),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_what_is_wrong_is_said_and_nothing_written(
    run: Run, here: Path, args: tuple[str, ...], words: str
) -> None:
    before = sorted(here.iterdir())
    done = run("init", *args)
    assert (done.code, done.out) == (ExitCode.USAGE, "")
    assert words in done.err
    assert sorted(here.iterdir()) == before


def test_what_flags_leave_open_is_asked(run: Run) -> None:
    answers = [
        *("nonsense", "user_id"),  # whose rows are visits'? once more after an error
        "",  # people: the same column is proposed
        *("", "public"),  # pages: nothing is proposed, so it is asked once more
        *("BIGINT", "", "year", "INTEGER"),  # the CSV's types, one of them twice
        *("page hour", "pages.page", "0..23"),  # what visits are grouped by
        *("born", ""),  # a domain the owner has no values for
        "2.5",  # epsilon
    ]
    done = run("init", "visits.parquet", "pages.parquet", "people.csv", answers=answers)
    assert done.code == ExitCode.OK, done.err
    assert "visits has no column nonsense" in done.err
    assert "whom to protect in pages?" in done.err
    assert "visits: user_id INTEGER, page VARCHAR" in done.err
    policy = load("dpsql.toml")
    assert policy.budget.epsilon == 2.5
    assert policy.tables["visits"].domain["page"] == TableDomain("pages", "page")
    assert policy.tables["visits"].domain["hour"] == RangeDomain(0, 23)
    assert policy.tables["pages"].public
    assert [str(k) for k in (policy.tables["people"].columns or {}).values()] == [
        "BIGINT",
        "VARCHAR",
        "INTEGER",
    ]
    assert dict(policy.tables["people"].domain) == {}


def test_units_by_different_names_are_different_kinds(run: Run) -> None:
    Path("staff.csv").write_text("nurse_id,ward\n1,a\n")
    done = run(
        *(
            "init",
            "visits.parquet",
            "people.csv",
            "staff.csv",
            "--unit",
            "user_id",
            "--unit",
            "staff=nurse_id",
        ),
        *("--column", "people.user_id=BIGINT"),
    )
    assert done.code == ExitCode.OK, done.err
    tables = load("dpsql.toml").tables
    assert tables["visits"].unit == UnitColumn("user_id", "user")
    assert tables["people"].unit == UnitColumn("user_id", "user")
    assert tables["staff"].unit == UnitColumn("nurse_id", "nurse")


@pytest.mark.parametrize("keys", [True, False], ids=["foreign keys", "names alone"])
def test_keys_that_are_called_id(run: Run, *, keys: bool) -> None:
    with duckdb.connect("shop.duckdb") as connection:
        key = "PRIMARY KEY" if keys else ""
        connection.execute(f"CREATE TABLE customers (id BIGINT {key}, name VARCHAR)")
        to = "REFERENCES customers (id)" if keys else ""
        connection.execute(f"CREATE TABLE orders (id BIGINT {key}, customer_id BIGINT {to})")
        to = "REFERENCES orders (id)" if keys else ""
        connection.execute(f"CREATE TABLE items (id BIGINT {key}, order_id BIGINT {to}, amount BIGINT)")
    # Without foreign keys, each of the three is asked for.
    done = run("init", "shop.duckdb", answers=[""] * (5 if keys else 7))
    assert done.code == ExitCode.OK, done.err
    tables = load("dpsql.toml").tables
    assert tables["customers"].unit == UnitColumn("id", "customer")
    assert tables["orders"].unit == UnitColumn("customer_id", "customer")
    assert tables["items"].unit == UnitVia("order_id", "orders", "id", "customer")
    assert tables["orders"].unique == (("id",),)


def test_a_link_between_tables_is_not_guessed_from_just_any_column(run: Run) -> None:
    with duckdb.connect() as connection:
        connection.execute("COPY (SELECT 1 AS user_id, 'x' AS city, 2 AS id) TO 'trips.parquet'")
        connection.execute("COPY (SELECT 'x' AS city, 2 AS id, 3 AS trips) TO 'cities.parquet'")
    done = run("init", "trips.parquet", "cities.parquet", "--unit", "user_id")
    assert done.code == ExitCode.USAGE
    assert "whose rows are those of cities? it has no column user_id" in done.err
    assert "trips." not in done.err
    done = run("init", "trips.parquet", "cities.parquet", "--unit", "user_id", "--unit", "cities=trips.city")
    assert done.code == ExitCode.OK, done.err
    assert load("dpsql.toml").tables["cities"].unit == UnitVia("city", "trips", "city")
    assert load("dpsql.toml").tables["trips"].unique == (("city",),)


def test_a_flag_that_names_the_unit_of_a_parent_is_told_what_leads_there(run: Run) -> None:
    Path("cards.csv").write_text("card,holder\n1,a\n")
    Path("taps.csv").write_text("tap,card\n1,1\n")
    done = run("init", "cards.csv", "taps.csv", "--unit", "holder", "--unit", "taps=cards.holder")
    assert done.code == ExitCode.USAGE
    assert "Hint: --unit taps=cards.card" in done.err
    done = run("init", "cards.csv", "taps.csv", "--unit", "holder", "--unit", "taps=cards.card")
    assert done.code == ExitCode.OK, done.err


def test_all_columns_that_need_the_type_of_others_are_named_at_once(run: Run) -> None:
    for name in ("one", "two"):
        Path(f"{name}.csv").write_text("user_id,x\n1,1\n")
    done = run("init", "visits.parquet", "one.csv", "two.csv", "--unit", "user_id")
    hint = done.err.partition("Hint: ")[2].split()
    assert done.code == ExitCode.USAGE
    assert hint[:4] == ["--column", "one.user_id=INTEGER", "--column", "two.user_id=INTEGER"]


def test_single_rows_are_never_called_by_another_units_word(run: Run) -> None:
    done = run(
        *("init", "visits.parquet", "people.csv", "--unit", "user_id", "--unit", "visits=ROW"),
        *("--unit-kind", "person"),
    )
    assert done.code == ExitCode.OK, done.err
    assert "visits: ROW protects single rows, although its user_id is the unit of people" in done.err
    assert load("dpsql.toml").tables["visits"].unit == UnitRow("row")
    assert load("dpsql.toml").tables["people"].unit == UnitColumn("user_id", "person")


def test_names_that_no_policy_can_hold_are_left_out(run: Run) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            'COPY (SELECT 1 AS user_id, 2 AS "größe", 3 AS "a\nb", 4 AS "say ""x""") '
            "TO '2024 visits.parquet'"
        )
    done = run("init", "2024 visits.parquet", "--unit", "user_id")
    assert done.code == ExitCode.OK, done.err
    assert list(load("dpsql.toml").tables["t_2024_visits"].columns or {}) == ["user_id", 'say "x"']
    assert re.search(r"^# a\\nb is left out:", Path("dpsql.toml").read_text(), re.MULTILINE)


def test_the_real_question_goes_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(" 3 \n\n"))
    assert init._ask_on_terminal("how many", "1") == "3"
    assert init._ask_on_terminal("how many", "1") == "1"
    out, err = capfd.readouterr()
    assert out == ""
    assert "how many [1]: " in err


def test_without_delta_epsilons_add(run: Run) -> None:
    done = run("init", "visits.parquet", "--unit", "user_id", "--delta", "0")
    assert done.code == ExitCode.OK, done.err
    assert load("dpsql.toml").budget.accounting == "pure"


def test_times_with_an_offset_are_instants(run: Run) -> None:
    Path("seen.csv").write_text(
        "user_id,at_utc,here,part\n1,2024-07-02T10:00:00Z,2024-07-02 12:00:00+02:00,2024-07-02 12:00\n"
        "2,,2024-07-02 12:00:00.5+0200,2024-07-02 12:00:00+02\n3,2024-07-02 10:00 UTC,2024-07-02 12:00+02,\n"
    )
    assert run("init", "seen.csv", "--unit", "user_id").code == ExitCode.OK
    columns = tomllib.loads(Path("dpsql.toml").read_text())["tables"]["seen"]["columns"]
    # A column of both kinds stays a text.
    assert columns == {
        "user_id": "VARCHAR",
        "at_utc": "TIMESTAMPTZ",
        "here": "TIMESTAMPTZ",
        "part": "VARCHAR",
    }


def test_an_instant_of_a_source_is_declared_as_one(run: Run) -> None:
    with duckdb.connect() as connection:
        rows = "SELECT 1 AS user_id, TIMESTAMPTZ '2024-07-02 00:00:00+00' AS seen"
        connection.execute(f"COPY ({rows}) TO 'seen.parquet'")
    assert run("init", "seen.parquet", "--unit", "user_id").code == ExitCode.OK
    assert 'seen = "TIMESTAMPTZ"\n' in Path("dpsql.toml").read_text()


def test_how_a_messy_csv_file_is_written_is_found_and_asked(run: Run) -> None:
    Path("sales.csv").write_bytes(";Kunde;Betrag (€)\n0;7;1,50\n1;8;2,00\n".encode("windows-1252"))
    done = run("init", "sales.csv", "--unit", "Kunde", "--column", "Betrag=DOUBLE")
    assert done.code == ExitCode.OK, done.err
    assert "sales: fields are separated by ;, the encoding is windows-1252" in done.err
    found = load("dpsql.toml").tables["sales"].source
    assert isinstance(found, CsvSource)
    rename = (("Betrag (€)", "Betrag"),)
    assert found.format == CsvFormat(";", "windows-1252", decimal=",", rename=rename)
    assert "# 1 column without a name:" in Path("dpsql.toml").read_text("utf-8")
    assert run("check").code == ExitCode.OK
    Path("dpsql.toml").unlink()
    answers = ["", "iso-8859-15", ".", "Kunde", *("BIGINT", "VARCHAR"), "", "1"]
    assert run("init", "sales.csv", answers=answers).code == ExitCode.OK
    asked = load("dpsql.toml").tables["sales"].source
    assert isinstance(asked, CsvSource)
    assert asked.format == CsvFormat(";", "iso-8859-15", rename=(("Betrag (\x80)", "Betrag_x"),)) or (
        asked.format.encoding,
        asked.format.decimal,
    ) == ("iso-8859-15", ".")


def test_the_header_of_a_csv_file_names_its_columns_too(run: Run, here: Path) -> None:
    (here / "sales.csv").write_text("Kunde;Größe;Betrag (€)\n1;2;3\n", "utf-8")
    done = run(
        *("init", "sales.csv", "--unit", "Kunde"),
        *("--column", "Größe=INTEGER", "--column", "sales.Betrag (€)=DOUBLE", "--domain", "Größe=1..9"),
    )
    assert done.code == ExitCode.OK, done.err
    table = load("dpsql.toml").tables["sales"]
    assert {name: str(kind) for name, kind in present(table.columns).items()} == {
        "Kunde": "VARCHAR",
        "Grosse": "INTEGER",
        "Betrag": "DOUBLE",
    }
    assert table.domain["Grosse"] == RangeDomain(1, 9)
    Path("dpsql.toml").unlink()
    assert run("init", "sales.csv", "--unit", "Größe").code == ExitCode.OK
    assert load("dpsql.toml").tables["sales"].unit == UnitColumn("Grosse", "unit")


def test_the_unit_of_a_csv_file_has_the_type_of_the_same_units(run: Run) -> None:
    people = ("init", "visits.parquet", "people.csv", "--unit", "user_id")
    done = run(*people)
    assert done.code == ExitCode.USAGE
    assert done.err.splitlines()[-1] == "Hint: --column people.user_id=INTEGER"
    assert "unit_kind" not in done.err
    assert run(*people, *done.err.splitlines()[-1].removeprefix("Hint: ").split()).code == ExitCode.OK
    text = Path("dpsql.toml").read_text("utf-8")
    first, rest = text.split("[tables.people.columns]")
    Path("dpsql.toml").write_text(
        f"{first}[tables.people.columns]{rest.replace('INTEGER', 'VARCHAR', 1)}", "utf-8"
    )
    with pytest.raises(PolicyError) as caught:
        load("dpsql.toml")
    assert present(caught.value.hint).startswith('write user_id = "INTEGER" in [tables.people.columns]; if')


def test_two_files_of_one_name_are_told_apart(run: Run, here: Path) -> None:
    for folder in ("north", "south"):
        (here / folder).mkdir()
        (here / folder / "people.csv").write_text("user_id\n1\n")
    both = ("north/people.csv", "south/people.csv")
    done = run("init", *both, "--unit", "user_id")
    assert done.code != ExitCode.OK
    hint = done.err.splitlines()[-1].removeprefix("Hint: call one of them otherwise: ")
    assert hint == "south_people=south/people.csv"
    assert run("init", both[0], hint, "--unit", "user_id").code == ExitCode.OK
    assert list(load("dpsql.toml").tables) == ["people", "south_people"]
    Path("dpsql.toml").unlink()
    assert run("init", "a=north/*.csv", "b=south", "--unit", "user_id").code == ExitCode.OK
    assert list(load("dpsql.toml").tables) == ["a", "b"]


def test_a_folder_named_as_a_partition_is_no_name(run: Run, here: Path) -> None:
    (here / "country=DE").mkdir()
    (here / "country=DE" / "people.csv").write_text("user_id\n1\n")
    for source, name in (("country=DE/people.csv", "people"), ("country=*/people.csv", here.name)):
        assert run("init", source, "--unit", "user_id").code == ExitCode.OK
        assert [table.lower() for table in load("dpsql.toml").tables] == [re.sub(r"\W", "_", name).lower()]
        Path("dpsql.toml").unlink()


def test_labels_of_keys_are_proposed_as_determined(run: Run) -> None:
    rides = "SELECT i AS person, i % 4 AS station_id, 'n' AS Station_Name, 3 AS zone_code FROM range(9) t(i)"
    duckdb.sql(f"COPY ({rides}) TO 'rides.parquet'")
    assert run("init", "rides.parquet", "--unit", "person").code == ExitCode.OK
    lines = Path("dpsql.toml").read_text("utf-8").splitlines()
    (line,) = [line for line in lines if "determines" in line]
    assert line.startswith('# determines = { station_id = ["Station_Name"] }')
    Path("dpsql.toml").write_text("\n".join(lines).replace("# determines", "determines"), "utf-8")
    assert load("dpsql.toml").tables["rides"].determines == {"station_id": ("Station_Name",)}
