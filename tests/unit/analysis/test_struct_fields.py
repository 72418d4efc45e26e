"""A field of a struct is a column named `address.city`, under the rules of a column."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import PolicyError, QueryRefused
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of, private
from tests.support.exact import exact_of
from tests.support.world import write_world

PEOPLE = """
SELECT i AS id, i % 3 AS zip, CASE WHEN i < 90 THEN {
  'city': CASE WHEN i % 2 = 0 THEN 'Rome' ELSE 'Oslo' END, 'zip': i % 10,
  'geo': {'lat': CASE WHEN i % 2 = 0 THEN -0.0::DOUBLE ELSE 0.0 END}, 'tags': MAP {'a': 1}} END AS address
FROM range(100) r(i)
"""
POLICY = """
[budget]
epsilon = 100
default_epsilon = 1
delta = 1e-5
ledger = "one.sqlite"
default_delta = 1e-8
[tables.people]
source = "people.parquet"
unit = "id"
columns = { id = "BIGINT", zip = "BIGINT", address.city = "VARCHAR", address.zip = "BIGINT", address.geo.lat = "DOUBLE" }
[tables.people.domain]
address.city = ["Rome", "Oslo", "Bonn"]
[tables.people.bounds]
address.zip = { from = 0, to = 9 }
"""  # noqa: E501  a table of TOML stands in one line

OTHER = POLICY.replace("one.sqlite", "other.sqlite")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("people")
    write_world(made, POLICY, people=PEOPLE)
    return made


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    made = Session(load(folder / "dpsql.toml"))
    yield made
    made.close()


def exact(session: Session, statement: str) -> list[int]:
    """Return the exact counts of a statement, in the order of their keys."""
    compiled = private(session.prepare(statement)).counting.plan.compiled
    counts = engine_of(session).count(compiled)
    keys = [column.to_pylist() for column in exact_of(counts).keys.columns]
    order = sorted(range(len(exact_of(counts).n[0])), key=lambda i: [str(key[i]) for key in keys])
    return [int(exact_of(counts).n[0][i]) for i in order]


N = "SELECT WITH DIFFERENTIAL_PRIVACY COUNT(DISTINCT id) AS n FROM people"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (f"{N} WHERE address.city = 'Rome'", [45]),
        (f"{N} WHERE people.address.city = 'Rome'", [45]),
        (f"{N} WHERE main.people.address.city = 'Rome'", [45]),
        (f"{N} AS p WHERE p.\"address.city\" = 'Rome' AND ADDRESS.ZIP < 5", [27]),
        (f"{N} AS p WHERE p.address.geo.lat = 0", [90]),
        (f"{N} WHERE address.city IS NULL", [10]),
        # A relation of FROM goes before a struct of its name, as in DuckDB.
        (f"{N} AS address WHERE address.zip = 0", [34]),
        (f"{N} AS address WHERE address.address.zip = 0", [9]),
        (f"{N} AS address WHERE address.city = 'Rome'", [45]),
        (f"{N.replace('AS n', 'AS n, address.city')} GROUP BY address.city", [0, 10, 0, 45, 45]),
        (f"{N.replace('AS n', 'AS n, address.city')} GROUP BY city", [0, 10, 0, 45, 45]),
        (f"WITH p AS (SELECT * FROM people) {N.replace('people', 'p')} WHERE p.address.city = 'Rome'", [45]),
        (f"{N} AS o WHERE EXISTS (SELECT 1 FROM people i WHERE i.id = o.id AND i.zip = o.address.zip)", [9]),
        (f"{N} AS o WHERE EXISTS (SELECT 1 FROM people WHERE people.id = o.id AND address.zip = 3)", [9]),
    ],
)
def test_a_field_is_named_and_means_what_it_does_in_the_engine(
    session: Session, folder: Path, statement: str, expected: list[int]
) -> None:
    assert exact(session, statement) == expected
    if "GROUP BY" not in statement and '"' not in statement:
        plain = statement.replace("WITH DIFFERENTIAL_PRIVACY", "")
        with duckdb.cursor() as connection:
            connection.execute(f"CREATE TEMP TABLE people AS FROM '{folder}/people.parquet'")
            assert connection.sql(plain).fetchall() == [(expected[0],)]


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("address.town = 'x'", "there is no column address.town"),
        ("address.tags IS NULL", "there is no column address.tags"),
        ("address IS NULL", "it is a STRUCT: name one of its fields, such as people.address.city"),
        ("address['city'] = 'Rome'", "such as people.address.city"),
        ("other.address.city = 'x'", "a column is named as table.column"),
        ("address.city.x = 'x'", "a column is named as table.column"),
    ],
)
def test_what_is_no_declared_field_is_refused(session: Session, where: str, says: str) -> None:
    with pytest.raises(QueryRefused) as caught:
        session.prepare(f"{N} WHERE {where}")
    assert says in str(caught.value).replace("such as address", "such as people.address")


def test_a_field_in_two_relations_is_ambiguous(session: Session) -> None:
    with pytest.raises(QueryRefused, match=r"column address\.city is in several tables"):
        session.prepare(
            f"{N} a JOIN people b ON a.id = b.id WHERE address.city = 'x'".replace(
                "(DISTINCT id", "(DISTINCT a.id"
            )
        )


def test_a_domain_and_bounds_hold_for_a_field(session: Session) -> None:
    grouped = session.prepare(f"{N.replace('AS n', 'AS n, address.city')} GROUP BY 2")
    assert private(grouped).price.delta == 0, "its values are declared"
    listed = session.run("SELECT * FROM dp_domain(people.address.city)").table
    assert listed.column(0).to_pylist() == ["Rome", "Oslo", "Bonn"]
    other = session.prepare(f"{N.replace('AS n', 'AS n, address.zip')} GROUP BY 2 ORDER BY n DESC LIMIT 1")
    assert private(other).price.delta > 0, "its values are not"
    bounds = session.policy.tables["people"].bounds["ADDRESS.zip"]
    assert bounds.ends == (Fraction(0), Fraction(9))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('address.geo.lat = "DOUBLE"', 'address.tags = "MAP(INT, INT)"'), '"address.tags"'),
        (('address.geo.lat = "DOUBLE"', 'address.street = "VARCHAR"'), "the source has no such column"),
        (('"Rome", "Oslo"', "1, 2"), 'tables.people.domain."address.city"'),
        (('address.city = ["Rome"', 'address.town = ["Rome"'), 'tables.people.domain."address.town"'),
    ],
)  # fmt: skip
def test_a_policy_that_names_a_wrong_field_is_refused(
    folder: Path, change: tuple[str, str], says: str
) -> None:
    (folder / "other.toml").write_text(OTHER.replace(*change))
    with pytest.raises(PolicyError) as caught:
        Session(load(folder / "other.toml"))
    assert says in str(caught.value)


def test_a_struct_is_declared_as_a_whole_too(folder: Path) -> None:
    whole = 'address = "STRUCT(city VARCHAR, zip BIGINT, geo STRUCT(lat DOUBLE))"'
    start, stop = OTHER.index("address.city"), OTHER.index(" }\n[tables.people.domain]")
    (folder / "other.toml").write_text(OTHER[:start] + whole + OTHER[stop:])
    again = Session(load(folder / "other.toml"))
    assert exact(again, f"{N} WHERE address.geo.lat = 0") == [90]
    again.close()
