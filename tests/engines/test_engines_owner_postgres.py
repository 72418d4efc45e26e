# ruff: noqa: E501  statements read better unbroken
"""The owner of a PostgreSQL database: `dpsql init`, `dpsql check`, and errors that name what to mend."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from support.stores import PostgresStore

from dpsql.cli import main
from dpsql.errors import OperationalError, PolicyError
from dpsql.owner import Finding, verify
from dpsql.policy import Policy, load
from dpsql.session import Session

pytestmark = pytest.mark.postgres

SHOP = (
    "DROP SCHEMA IF EXISTS shop CASCADE",
    "CREATE SCHEMA shop",
    "CREATE TYPE shop.mood AS ENUM ('calm', 'glad')",
    "CREATE DOMAIN shop.short AS varchar(9) CHECK (value <> '')",
    "CREATE DOMAIN shop.money AS numeric(8,2)",
    "CREATE DOMAIN shop.price AS shop.money CHECK (value > 0)",
    "CREATE TABLE shop.customers (customer_id bigint PRIMARY KEY, mood shop.mood NOT NULL, note shop.short)",
    "CREATE TABLE shop.orders (order_id int PRIMARY KEY, customer_id bigint NOT NULL REFERENCES shop.customers, "
    "price shop.price, tags text[])",
    "CREATE TABLE shop.items (item_id int PRIMARY KEY, order_id int NOT NULL REFERENCES shop.orders)",
    "CREATE TABLE shop.ruled (x int)",
    "ALTER TABLE shop.ruled ENABLE ROW LEVEL SECURITY",
    "CREATE TABLE shop.kept (x int)",
    "CREATE VIEW shop.recent AS SELECT customer_id, mood FROM shop.customers",
    "INSERT INTO shop.customers SELECT i, CASE WHEN i <= 60 THEN 'calm' ELSE 'glad' END::shop.mood, 'n' "
    "FROM generate_series(1, 100) AS r(i)",
    "INSERT INTO shop.orders SELECT i, i % 100 + 1, 2.5 FROM generate_series(1, 200) AS r(i)",
    "ANALYZE shop.orders",
    "GRANT USAGE ON SCHEMA shop TO reader",
    "GRANT SELECT ON shop.customers, shop.orders, shop.items, shop.ruled, shop.recent TO reader",
)


@pytest.fixture
def shop(postgres_address: str, tmp_path: Path) -> PostgresStore:
    owner = PostgresStore(tmp_path, postgres_address)
    owner.execute("DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    owner.execute(*SHOP)
    return owner


Init = Callable[..., str]
"""Writes a policy with these options, and returns what was said."""


@pytest.fixture
def init(shop: PostgresStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Init:
    address = shop.address.replace("//owner@", "//reader@")

    def run(*options: str) -> str:
        file = str(tmp_path / "dpsql.toml")
        code = main(
            ["-p", file, "init", address, "--unit", "customer_id", "--default-epsilon", "0.1", *options]
        )
        said = capsys.readouterr().err
        assert code == 0, said
        return " ".join(said.split())

    return run


def policy(tmp_path: Path, *changes: tuple[str, str]) -> Policy:
    file = tmp_path / "dpsql.toml"
    text = file.read_text("utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text, "utf-8")
    return load(file)


def findings(policy: Policy, level: str) -> list[Finding]:
    return [finding for finding in verify(policy).findings if finding.level == level]


def test_init_declares_what_the_catalog_says(init: Init, tmp_path: Path) -> None:
    said = init("--table", "shop.*")
    found = load(tmp_path / "dpsql.toml")
    assert list(found.tables) == ["shop_customers", "shop_items", "shop_orders"]
    customers, orders, items = (found.tables[f"shop_{name}"] for name in ("customers", "orders", "items"))
    assert customers.columns
    assert {n: str(t) for n, t in customers.columns.items()} == {
        "customer_id": "BIGINT",
        "mood": "VARCHAR",
        "note": "VARCHAR",
    }
    assert customers.unique == (("customer_id",),)
    assert customers.not_null == ("mood",)
    assert orders.columns
    assert {n: str(t) for n, t in orders.columns.items()} == {
        "order_id": "INTEGER",
        "customer_id": "BIGINT",
        "price": "DECIMAL(8,2)",
    }
    assert "# tags is left out" in (tmp_path / "dpsql.toml").read_text("utf-8")
    assert (items.unit.via, items.unit.table, items.unit.column) == ("order_id", "shop_orders", "order_id")  # type: ignore[union-attr]
    assert found.engine.startswith("postgresql://reader@127.0.0.1:")
    assert 'shop.kept, reader may not read it: GRANT SELECT ON "shop"."kept" TO reader' in said
    assert "shop.ruled, it has row-level security: ALTER TABLE" in said
    assert "shop.recent, it is a view: --table shop.recent" in said
    assert [f.text for f in findings(found, "wrong")] == []
    with closing(Session(found)) as session:
        answer = session.run(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.9) COUNT(DISTINCT customer_id) AS n "
            "FROM shop_customers WHERE mood = 'calm'"
        )
        assert answer.release is not None


def test_a_named_view_is_the_owners_word(init: Init, shop: PostgresStore, tmp_path: Path) -> None:
    init("--table", "shop.recent")
    found = policy(tmp_path)
    assert found.tables["shop_recent"].stable
    with closing(Session(found)) as session:
        assert session.run("EXPLAIN SELECT COUNT(DISTINCT customer_id) AS n FROM shop_recent").release is None
        shop.execute(
            "CREATE OR REPLACE VIEW shop.recent AS SELECT customer_id + 1 AS customer_id, mood FROM shop.customers"
        )
        with pytest.raises(OperationalError, match="shop_recent was replaced or altered"):
            session.run(
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(DISTINCT customer_id) "
                "AS n FROM shop_recent WHERE mood = 'glad'"
            )
        assert session.budget().spent.epsilon == 0
    with pytest.raises(PolicyError, match="is a view") as caught:
        Session(policy(tmp_path, ("stable = true ", "")))
    assert "stable = true" in str(caught.value.hint)


def test_check_finds_what_is_not_so(init: Init, shop: PostgresStore, tmp_path: Path) -> None:
    init("--table", "customers")
    shop.execute(
        "ALTER TABLE shop.customers ALTER mood DROP NOT NULL",
        "INSERT INTO shop.customers VALUES (1001, NULL, 'q')",
        "INSERT INTO shop.customers SELECT i, 'calm', 'x' FROM generate_series(2000, 2100) AS r(i)",
    )
    found = policy(tmp_path, ('# note = ["...", "..."]', 'note = ["n", "x"]'))
    assert [(f.place, f.text.split(":")[0]) for f in findings(found, "wrong")] == [
        ("tables.shop_customers.not_null[0]", "mood is NULL in 1 row that have a unit")
    ]
    notes = {f.place: f.text for f in findings(found, "note")}
    assert notes["tables.shop_customers.source"].endswith("ANALYZE shop.customers")
    assert notes["tables.shop_customers.domain.note"].startswith("1 row outside of the domain")
    shop.execute(
        "ALTER TABLE shop.customers DROP CONSTRAINT customers_pkey CASCADE",
        "ALTER TABLE shop.customers ENABLE ROW LEVEL SECURITY",
    )
    (wrong,) = findings(found, "wrong")
    assert "row-level security" in wrong.text
    assert wrong.line is not None
    shop.execute("ALTER TABLE shop.customers DISABLE ROW LEVEL SECURITY")
    (wrong,) = findings(found, "wrong")
    assert "CREATE UNIQUE INDEX ON" in wrong.text


PARTS = """
[database]
engine = "{engine}"
[budget]
epsilon = 1
default_epsilon = 0.1
ledger = "ledger.sqlite"
[tables.orders]
source = "shop.orders"
unit = "customer_id"
unique = [["order_id"]]
columns = {{ order_id = "INTEGER", customer_id = "BIGINT" }}
[tables.parts]
source = "shop.parts"
unit = {{ via = "order_id", table = "orders", column = "order_id" }}
not_null = ["weight"]
columns = {{ order_id = "INTEGER", kind = "VARCHAR", weight = "INTEGER", size = "INTEGER", at = "TIMESTAMP" }}
zone = {{ at = "Europe/Berlin" }}
domain.kind = ["a"]
domain.weight = {{ from = 1, to = 20, complete = true }}
domain.at = {{ from = 2024-07-01, to = 2024-07-31 }}
bounds.size = {{ from = 0, to = 15 }}
"""


def test_rows_that_find_no_unit_are_not_counted(shop: PostgresStore, tmp_path: Path) -> None:
    shop.execute(
        "CREATE TABLE shop.parts (order_id int, kind text, weight int, size int, at timestamp)",
        "INSERT INTO shop.parts SELECT i, 'a', i, i, '2024-07-01 12:00' FROM generate_series(1, 20) AS r(i)",
        "INSERT INTO shop.parts VALUES (1, 'b', 90, 90, '2024-06-30 23:00'), (2, NULL, NULL, NULL, NULL), "
        "(3, 'a', 3, 3, '2024-07-01 01:00')",
        "INSERT INTO shop.parts SELECT 999, 'z', 1000, 1000, '2030-01-01' FROM generate_series(1, 5)",
        "INSERT INTO shop.parts SELECT 999, NULL, NULL, NULL, NULL FROM generate_series(1, 5)",
        "GRANT SELECT ON shop.parts TO reader",
    )
    text = PARTS.format(engine=shop.address.replace("//owner@", "//reader@"))
    (tmp_path / "dpsql.toml").write_text(text, "utf-8")
    found = load(tmp_path / "dpsql.toml")
    assert {f.place: f.text for f in findings(found, "wrong")} == {
        "tables.parts.not_null[0]": "weight is NULL in 1 row that have a unit: leave it out, NULL is then a group",
        "tables.parts.domain.weight": "is not complete: 1 row outside, 1 row with NULL: leave that out",
    }
    notes = {(f.place, f.text.partition(". ")[0]) for f in findings(found, "note")}
    assert notes >= {
        ("tables.parts.domain.kind", "1 row outside of the domain (3.03%), with 1 value: 'b' (1 row)"),
        ("tables.parts.domain.kind", "1 of 23 rows are NULL: a group of their own"),
        (
            "tables.parts.domain.at",  # of UTC, which is two hours less
            "2 rows outside of the domain (6.06%), with 2 values: "
            "'2024-06-30 21:00:00' (1 row), '2024-06-30 23:00:00' (1 row)",
        ),
        ("tables.parts.unit", "10 rows of 33 have no unit through orders: they are never counted"),
    }
    (cut,) = [text for place, text in notes if place == "tables.parts.bounds.size"]
    assert cut.startswith("27.27% of the values are cut")  # 6 of 22


def test_errors_name_the_grant_and_the_altered_column(
    init: Init, shop: PostgresStore, tmp_path: Path
) -> None:
    init("--table", "shop.orders", "--table", "shop.customers")
    found = policy(tmp_path)
    with closing(Session(found)) as session:
        shop.execute("ALTER TABLE shop.orders ALTER price TYPE text")
        with pytest.raises(OperationalError, match="shop_orders: its column price was altered"):
            session.run("EXPLAIN SELECT COUNT(DISTINCT customer_id) AS n FROM shop_orders WHERE price > 1")
        shop.execute("ALTER TABLE shop.orders ALTER price TYPE shop.price USING price::numeric")
    with closing(Session(found)) as session:
        shop.execute(
            "REVOKE SELECT ON shop.orders FROM reader",
            "GRANT SELECT (order_id, customer_id) ON shop.orders TO reader",
        )
        with pytest.raises(OperationalError) as caught:
            session.run("EXPLAIN SELECT COUNT(DISTINCT customer_id) AS n FROM shop_orders")
        assert 'GRANT SELECT ("price") ON "shop"."orders" TO reader' in str(caught.value)
    (wrong,) = findings(found, "wrong")
    assert 'GRANT SELECT ("price") ON "shop"."orders" TO reader' in wrong.text


def test_the_servers_own_words_reach_the_owner(
    tmp_path: Path, postgres_address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    address = postgres_address.replace("/postgres", "/nowhere")
    assert main(["-p", str(tmp_path / "dpsql.toml"), "init", address]) != 0
    assert 'database "nowhere" does not exist' in capsys.readouterr().err


def test_a_cast_of_an_enum_is_not_called(init: Init, shop: PostgresStore, tmp_path: Path) -> None:
    init("--table", "shop.customers")
    with closing(Session(policy(tmp_path))) as session:
        shop.execute(
            "CREATE FUNCTION shop.shown(shop.mood) RETURNS text LANGUAGE plpgsql IMMUTABLE AS "
            "$$ BEGIN RAISE EXCEPTION 'called'; END $$",
            "CREATE CAST (shop.mood AS text) WITH FUNCTION shop.shown(shop.mood)",
        )
        sql = "COUNT(DISTINCT customer_id) AS n FROM shop_customers WHERE mood = 'calm'"
        assert (
            session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) {sql}").release is not None
        )


def test_citext_is_read_as_its_text(init: Init, shop: PostgresStore, tmp_path: Path) -> None:
    try:
        shop.execute("CREATE EXTENSION IF NOT EXISTS citext SCHEMA public")
    except Exception:  # noqa: BLE001  the driver's errors have no common class
        pytest.skip("the extension citext is not installed")
    shop.execute(
        "CREATE TABLE shop.mails (customer_id bigint NOT NULL, mail public.citext UNIQUE NOT NULL)",
        "INSERT INTO shop.mails VALUES (1, 'A@b'), (2, 'c@D')",
        "GRANT SELECT ON shop.mails TO reader",
    )
    init("--table", "shop.mails")
    found = policy(tmp_path, ('# mail = ["...", "..."]', 'mail = ["A@b", "C@D"]'))
    assert found.tables["shop_mails"].unique == ()  # its index compares without case
    notes = {f.place: f.text for f in findings(found, "note")}
    assert "'c@D' (1 row)" in notes["tables.shop_mails.domain.mail"]
    assert "A@b" not in notes["tables.shop_mails.domain.mail"]
