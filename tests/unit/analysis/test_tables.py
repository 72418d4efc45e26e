"""Declared tables: each is compiled once, for the policy that declares it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from dpsql.analysis import Plan, analyse
from dpsql.analysis.released.released_numbers import RowSum, UnitNumber
from dpsql.analysis.released.unit_counts import BoundedRows, WeightedRows
from dpsql.kernel.tree import Column, KeptHash
from dpsql.language import Options, Query, parse
from dpsql.policy import ColumnBounds, Policy, load
from dpsql.session import Session
from tests.narrow import engine_of, of_type
from tests.sql_fixtures import raw_data, write

SUM = "SELECT SUM(age) AS s FROM users"
CHILD = "SELECT COUNT(*) AS n FROM goods"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with raw_data() as raw:
        found = Session(load(write(tmp_path_factory.mktemp("tables") / "whole", raw)))
    yield found
    found.close()


def analysed(session: Session, text: str, policy: Policy | None = None) -> Plan:
    query = of_type(parse(text), Query)
    catalog, options = engine_of(session).schema_database, Options(max_rows_contributed=1)
    return analyse(query, policy or session.policy, catalog, options)


def largest(plan: Plan) -> int:
    return of_type(plan.counts[0].parts[0], RowSum).grid.high


def test_a_table_is_compiled_once(session: Session) -> None:
    analysed(session, SUM)
    known = engine_of(session).schema_database.relations["users"]
    analysed(session, "SELECT COUNT(*) AS n FROM users AS u WHERE u.age > 3")
    assert engine_of(session).schema_database.relations["users"] is known


def test_another_policy_has_other_tables(session: Session) -> None:
    """Bounds, units and links are the policy's, so what is kept holds for one policy."""
    users = session.policy.tables["users"]
    older = replace(users, bounds={"age": ColumnBounds(0, 150)})
    tables = {name: older if name == "users" else table for name, table in session.policy.tables.items()}
    other = replace(session.policy, tables=tables)
    found = [largest(analysed(session, SUM, policy)) for policy in (None, other, None, other)]
    assert found == [120, 150, 120, 150]


def test_the_table_of_the_unit_is_read_each_time(session: Session) -> None:
    first, second = (analysed(session, CHILD).compiled.tables for _ in range(2))
    assert first == second == ("baskets", "goods")


def test_columns_are_found_under_every_alias(session: Session) -> None:
    """What is remembered of the aliases of a table does not grow with them."""
    plain = analysed(session, SUM)
    for i in range(40):
        plan = analysed(session, f"SELECT SUM(u{i}.AGE) AS s FROM users AS u{i}")
        assert plan.compiled.sql == plain.compiled.sql
    _, relation = engine_of(session).schema_database.relations["users"]
    assert 0 < len(relation.origins) <= 16


def test_parts_are_equal_by_type_and_content() -> None:
    """Equal numbers are released once; those of another kind or with another bound are others."""
    row = (Column("s", "f0"),)
    one, same, other = WeightedRows(row, 3), WeightedRows((Column("s", "f0"),), 3), WeightedRows(row, 4)
    assert one == same
    assert hash(one) == hash(same)
    assert one not in (other, BoundedRows(row, 3), replace(one, row=(Column("s", "f1"),)))
    assert len({one, same, other, replace(other, most=3)}) == 2


def kinds(kind: type[UnitNumber]) -> list[type[UnitNumber]]:
    return [kind, *(below for each in kind.__subclasses__() for below in kinds(each))]


def test_every_part_keeps_its_hash() -> None:
    """A subclass that is a plain dataclass would compute its hash at each look-up."""
    found = kinds(UnitNumber)  # type: ignore[type-abstract]  # no object is made of it
    assert len(found) > 10
    assert {kind.__hash__ for kind in found} == {KeptHash.__hash__}
