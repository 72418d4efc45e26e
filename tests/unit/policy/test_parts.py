"""`[parts.KIND]`: what is accepted, and what the owner is told of the rest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dpsql.errors import PolicyError
from dpsql.kernel.facts import Home
from dpsql.policy import UnitParts, load
from dpsql.policy.model import home_of
from dpsql.types import BIGINT, DATE, TIMESTAMPTZ, SqlType, column_type

TABLES = """
[budget]
epsilon = EPSILON
[tables.signups]
source = "signups.parquet"
unit = "user_id"
unit_kind = "user"
unique = [["user_id"]]
columns = { user_id = "BIGINT", signed_up = "DATE", at = "TIMESTAMP", land = "VARCHAR", mood = "ENUM('a')" }
domain.mood = "ENUM"
[tables.visits]
source = "signups.parquet"
unit = "user_id"
unit_kind = "user"
columns = { user_id = "BIGINT", day = "DATE", order_id = "BIGINT" }
unique = [["order_id"]]
[tables.items]
source = "signups.parquet"
unit = { via = "order_id", table = "visits", column = "order_id" }
columns = { order_id = "BIGINT", day = "DATE" }
[tables.zones]
source = "signups.parquet"
public = true
[tables.orders]
source = "signups.parquet"
unit = "ROW"
unit_kind = "order"
columns = { day = "TIMESTAMPTZ" }
"""
PARTS = {"table": '"signups"', "column": '"signed_up"', "every": '"week"', "moves": '"trusted"'}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    (tmp_path / "signups.parquet").touch()
    return tmp_path / "dpsql.toml"


def write(path: Path, kind: str = "user", epsilon: str = "1", more: str = "", **changes: str | None) -> Path:
    keys = {name: value for name, value in {**PARTS, **changes}.items() if value is not None}
    section = "\n".join(f"{name} = {value}" for name, value in keys.items())
    path.write_text(TABLES.replace("EPSILON", epsilon) + f"[parts.{kind}]\n{section}\n{more}")
    return path


class Known:
    def columns(self, table: str) -> tuple[tuple[str, SqlType], ...]:
        kinds = {"signups": DATE, "orders": TIMESTAMPTZ}
        return (("user_id", BIGINT), ("Signed_Up", kinds[table]), ("day", kinds[table]))


def test_it_is_read(written: Path) -> None:
    policy = load(write(written))
    assert policy.unit_parts == UnitParts("user", "signups", "signed_up", "week", moves="trusted")
    assert home_of(policy, Known()) == Home("user", "signups", "signed_up", "week", "DATE")  # type: ignore[arg-type]


def test_each_row_may_be_a_unit(written: Path) -> None:
    policy = load(write(written, "order", table='"orders"', column='"day"', until="false"))
    found = home_of(policy, Known())  # type: ignore[arg-type]
    assert (found and found.type, policy.unit_parts and policy.unit_parts.until) == ("TIMESTAMPTZ", False)


def test_on_another_engine_versions_are_not_compared(written: Path) -> None:
    text = write(written, moves=None).read_text()
    assert load(written).unit_parts == UnitParts("user", "signups", "signed_up", "week")
    files = {name: f'source = "{name}"' for name in ("signups", "visits", "items", "zones", "orders")}
    for name, source in files.items():
        text = text.replace(f'[tables.{name}]\nsource = "signups.parquet"', f"[tables.{name}]\n{source}")
    written.write_text(f'{text}\n[database]\nengine = "postgresql://localhost/d"')
    with pytest.raises(
        PolicyError, match="on another engine than DuckDB: versions of the data are not compared"
    ):
        load(written)


def test_a_policy_without_parts_is_what_it_was(written: Path) -> None:
    written.write_text(TABLES.replace("EPSILON", "1"))
    policy = load(written)
    assert (policy.unit_parts, home_of(policy, Known())) == (None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "changes", "told"),
    [
        ("user", {"every": '"fortnight"'}, "is no period"),
        ("user", {"every": None}, 'every: signed_up is DATE.*write every = "week"'),
        ("user", {"every": None, "column": '"land"'}, "the values of land are not listed.*write land = "),
        ("user", {"every": None, "column": '"user_id"', "until": "false"}, "until: is of parts by dates"),
        ("user", {"every": None, "column": '"user_id"', "closed_after": '"1 days"'}, "is of parts by dates"),
        ("user", {"column": '"user_id"'}, "user_id is BIGINT: parts are periods.*leave every out"),
        (
            "user",
            {"every": None, "table": '"visits"', "column": '"day"'},
            "a user of visits may have several values of day",
        ),
        ("user", {"until": '"yesterday"'}, 'expected "now" or false'),
        ("user", {"closed_after": '"two weeks"'}, 'expected a number of days.*"14 days"'),
        ("user", {"moves": '"perhaps"'}, 'expected "refuse" or "trusted"'),
        (
            "order",
            {"table": '"orders"', "column": '"day"', "moves": None},
            'each row is a unit: versions.*moves = "trusted"',
        ),
        ("user", {"table": '"signup"'}, "there is no table 'signup'.*signups"),
        ("user", {"table": '"zones"'}, "zones is public"),
        ("user", {"table": '"items"', "column": '"day"'}, "find their user through another table"),
        (
            "user",
            {"table": '"visits"', "column": '"day"'},
            "a user of visits may be in several weeks.*unique",
        ),
        ("user", {"table": '"orders"', "column": '"day"'}, r"the unit of orders is 'order'.*\[parts.order\]"),
        ("user", {"column": '"land"'}, "land is VARCHAR: parts are periods"),
        ("user", {"column": '"week"'}, "signups has no column 'week'"),
        (
            "user",
            {"every": None, "column": '"mood"'},
            r"mood is ENUM\('a'\): .*mood = \"VARCHAR\" in \[tables.signups.columns\]",
        ),
        ("user", {"constand": "true"}, "unknown key"),
        ("user", {"constant": "1"}, "expected a boolean"),
        ("user", {"epsilon": "2000"}, "is above 1,000"),
    ],
)
def test_what_is_wrong_is_told(written: Path, kind: str, changes: dict[str, Any], told: str) -> None:
    epsilon = str(changes.pop("epsilon", "1"))
    with pytest.raises(PolicyError) as problem:
        load(write(written, kind, epsilon, **changes))

    assert re.search(told, f"{problem.value} {problem.value.hint}", re.DOTALL), str(problem.value)


def test_the_table_of_the_parts_is_verified(written: Path) -> None:
    text = write(written).read_text()
    written.write_text(text.replace('unique = [["user_id"]]', 'unique = [["user_id"]]\ntrust_source = true'))
    with pytest.raises(PolicyError, match="so its rows are verified"):
        load(written)


def test_a_column_with_a_zone_tells_no_parts(written: Path) -> None:
    text = write(written, column='"at"').read_text()
    written.write_text(
        text.replace('unique = [["user_id"]]', 'unique = [["user_id"]]\nzone = { at = "Europe/Berlin" }')
    )
    with pytest.raises(PolicyError, match="has a time zone"):
        load(written)


def test_one_kind_has_parts(written: Path) -> None:
    more = '[parts.order]\ntable = "orders"\ncolumn = "day"\nevery = "day"\nmoves = "trusted"'
    with pytest.raises(PolicyError, match="one kind of unit has parts"):
        load(write(written, more=more))


def test_the_type_of_the_source_is_looked_at(written: Path) -> None:
    text = write(written).read_text().replace('columns = { user_id = "BIGINT", signed_up = "DATE", at', "#")
    written.write_text(text)
    policy = load(written)

    class Texts(Known):
        def columns(self, table: str) -> tuple[tuple[str, SqlType], ...]:
            return (("signed_up", column_type("VARCHAR")),)

    with pytest.raises(PolicyError, match="signed_up is VARCHAR"):
        home_of(policy, Texts())  # type: ignore[arg-type]
