"""What follows from the unit of a row: its copies in other types, numbers of rows, lookups among units."""

from __future__ import annotations

import pytest
from kernel.reading import tree_of

from dpsql.kernel.check import NotCertified
from dpsql.kernel.tree import Cast, Column, Derived, Expr, Query, Select, SetOperation
from dpsql.types import BIGINT, HUGEINT, INTEGER, VARCHAR, SqlType
from tests.counted_nodes import certify
from tests.kernel_trees import FACTS as TABLES
from tests.kernel_trees import c, in_domain, rows, select, units
from tests.unit.kernel.trees_by_hand import FACTS, UNITS, of_pages, written


def side(table: str, wide: SqlType | None) -> Select:
    """Return the rows of a table with their unit as `u`, and again as `c` in another type."""
    own = Column("s", "u", type=BIGINT)
    again: Expr = own if wide is None else Cast(own, wide)
    return select(rows(table, "s"), u=c("s.u"), c=again)


def by_copy(*wide: SqlType | None, word: str) -> Query:
    """Return units by their copy, as a text of a domain, of the rows of two tables."""
    both = SetOperation(side("visits", wide[0]), word, side("users", wide[1]))
    key = Cast(c("t.c"), VARCHAR)
    return in_domain(select(Derived(both, "t"), None, (key,), k0=key, n0=units("t.u")))


@pytest.mark.parametrize("word", ["UNION ALL", "UNION", "INTERSECT"])
@pytest.mark.parametrize(
    ("wide", "groups"),
    [
        ((None, None), 1),
        ((HUGEINT, None), 1),
        ((None, HUGEINT), 1),
        ((HUGEINT, HUGEINT), 1),
        # A conversion that may fail gives NULL, and a text is no number.
        ((INTEGER, None), None),
        ((VARCHAR, VARCHAR), None),
    ],
    ids=str,
)
def test_a_unit_is_the_same_number_in_a_type_that_has_all_values(
    wide: tuple[SqlType | None, SqlType | None], groups: int | None, word: str
) -> None:
    found = certify(by_copy(*wide, word=word), TABLES)
    assert found.most_groups == (groups if word != "INTERSECT" else 1)


PAIRS = "SELECT t.u AS u, t.c2 AS c FROM ({visits}) AS t"
PUBLIC = "SELECT p.c2 AS u, p.c2 AS c FROM ({pages}) AS p"
AMONG = "s.u IN (SELECT t.u AS u FROM ({likes}) AS t)"


@pytest.mark.parametrize("word", ["INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"])
def test_rows_that_are_left_of_units_have_units(word: str) -> None:
    """NULL among units is FALSE if there are none, and else NULL: so a row without a unit would tell."""
    lookup = f"{UNITS} ({PAIRS} {word} {PUBLIC}) AS s WHERE NOT {AMONG}"
    assert certify(tree_of(written(lookup)), FACTS).numbers
    strays = 'SELECT b."user_id" AS u, b."ms" AS c FROM main."visits" AS b'
    with pytest.raises(NotCertified, match="not tied"):
        certify(tree_of(written(lookup.replace(PAIRS, strays))), FACTS)


def test_rows_that_are_added_to_those_of_units_have_none() -> None:
    nobody = "SELECT CAST(NULL AS BIGINT) AS u, p.c2 AS c FROM ({pages}) AS p"
    lookup = f"{UNITS} ({PAIRS} UNION ALL {nobody}) AS s"
    assert certify(tree_of(written(lookup)), FACTS).numbers
    with pytest.raises(NotCertified, match="not tied"):
        certify(tree_of(written(f"{lookup} WHERE NOT {AMONG}")), FACTS)


@pytest.mark.parametrize(
    ("part", "single"),
    [("v.u", True), ("v.u, v.u > 5", True), ("v.u, v.u > 5, v.u IS NULL", True), ("v.u, v.c2 > 5", False)],
)
def test_a_number_within_what_follows_from_the_unit_is_one_row(part: str, single: bool) -> None:
    numbered = (
        f"SELECT v.u AS u, v.c1 AS c1, ROW_NUMBER() OVER (PARTITION BY {part} "
        "ORDER BY v.c1, v.c2, v.c3, v.c4) AS r FROM ({visits}) AS v"
    )
    groups = (
        f"SELECT s.c1 AS k0, COUNT(DISTINCT s.u) AS n0 FROM ({numbered}) AS s WHERE s.r = 1 GROUP BY s.c1"
    )
    assert certify(tree_of(written(of_pages(groups))), FACTS).most_groups == (1 if single else None)


WITHIN = "EXISTS (SELECT 1 AS one FROM ({visits}) AS v WHERE v.u = s.u AND {inner})"


@pytest.mark.parametrize(
    ("inner", "certified"),
    [
        ("v.u IN (SELECT t.u AS u FROM ({likes}) AS t)", True),
        ("NOT v.u IN (SELECT t.u AS u FROM ({likes}) AS t)", True),
        ("EXISTS (SELECT 1 AS one FROM ({likes}) AS t WHERE t.u = v.u)", True),
        ("EXISTS (SELECT 1 AS one FROM ({likes}) AS t WHERE t.u = v.c2)", False),
        ("v.c2 IN (SELECT t.u AS u FROM ({likes}) AS t)", False),
    ],
)
def test_rows_of_the_unit_of_a_row_have_it_where_subqueries_of_theirs_are_tied(
    inner: str, certified: bool
) -> None:
    query = tree_of(written(f"{UNITS} ({PAIRS}) AS s WHERE {WITHIN.replace('{inner}', inner)}"))
    if certified:
        assert certify(query, FACTS).numbers
    else:
        with pytest.raises(NotCertified, match="not tied"):
            certify(query, FACTS)


def test_units_that_one_of_two_conditions_ties_are_tied() -> None:
    """A subquery of a list of items is tied to the rows that WHERE has tied, before WHERE to none."""
    inner = "(SELECT COUNT(v.u IN (SELECT t.u AS u FROM ({likes}) AS t)) AS n FROM ({visits}) AS v{where})"
    tied, free = (
        f"{UNITS} ({PAIRS}) AS s WHERE {inner.replace('{where}', w)} > 1" for w in (" WHERE v.u = s.u", "")
    )
    assert certify(tree_of(written(tied)), FACTS).numbers
    with pytest.raises(NotCertified):
        certify(tree_of(written(free)), FACTS)
