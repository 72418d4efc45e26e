# ruff: noqa: E501  an edit's text stands on one line, as it does in the rule
"""Statements about values of many units, read wrongly on purpose: their answers are no longer those of SQL."""

from __future__ import annotations

import duckdb
import pytest
from fuzz.mutant import Mutant

from dpsql.errors import Error
from dpsql.session import Session
from tests.daily import daily
from tests.narrow import present
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1e12
max_epsilon_per_query = 1e9
default_epsilon = 1e6
delta = 1e-3
default_delta = 1e-9
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 6
[tables.rental]
source = "rental.parquet"
unit = "user_id"
trust_source = true
[tables.rental.domain]
item_id = { from = 0, to = 89 }
place = ["Old Town", "Old Yard", "New Town"]
late = "BOOLEAN"
[tables.shelf]
source = "shelf.parquet"
public = true
[tables.item]
source = "item.parquet"
public = true
unique = [["item_id", "kind"]]
"""
TABLES = {
    "rental": "SELECT i // 3 AS user_id, CASE WHEN i % 13 <> 2 THEN i * i % 61 END AS item_id, "
    "CASE i % 5 WHEN 0 THEN '-' WHEN 1 THEN NULL WHEN 2 THEN '1:a' WHEN 3 THEN 'a' ELSE '' END AS note, "
    "CASE i % 3 WHEN 0 THEN 'a' WHEN 1 THEN '1:a' END AS word, i % 4 = 0 AS late, "
    "CASE WHEN i % 7 <> 3 THEN i % 10 END AS days, ['Old Town', 'Old Yard', 'New Town'][1 + i % 10 // 4] AS place, "
    "CASE WHEN i % 4 <> 1 THEN [i % 3, i % 5] END AS tags "
    "FROM range(900) t(i)",
    "item": "SELECT i AS item_id, i % 3 AS kind FROM range(80) t(i) UNION ALL SELECT 4, 0 UNION ALL SELECT 9, 2",
    "shelf": "SELECT CASE WHEN i % 4 <> 1 THEN i END AS item_id, i % 3 AS room FROM range(60) t(i)",
}
NOT_IN = "SELECT COUNT(*) AS n FROM shelf WHERE item_id NOT IN (SELECT item_id FROM rental WHERE late AND item_id IS NOT NULL)"
MUTANTS = (
    Mutant(
        "a public column that repeats its values",
        (
            (
                "composition.chosen_public_rows",
                "_is_found_once",
                "x = exp.column",
                "return True\n    x = exp.column",
            ),
        ),
        statement="SELECT COUNT(*) AS n FROM item i WHERE EXISTS (SELECT 1 FROM rental r WHERE r.item_id = i.item_id)",
        daily=True,
    ),
    Mutant(
        "a label over a key that repeats",
        (
            (
                "composition.grouping_sets",
                "_Columns.__init__",
                "[frozenset(map(fold, names)) for names in table.unique]",
                "[frozenset({name}) for name in self.named[alias]]",
            ),
        ),
        statement="SELECT COUNT(*) AS n FROM (SELECT r.item_id, MAX(i.kind) AS k, COUNT(*) AS c FROM rental r JOIN item i ON i.item_id = r.item_id WHERE r.item_id < 20 GROUP BY r.item_id) AS t",
        daily=True,
    ),
    Mutant(
        "a carried column in an aggregate is the column",
        (
            (
                "composition.joined_keys",
                "_Carried._read",
                "if any(each is not False for each in mine):\n        return node",
                "if any(mine):\n        return exp.column(columns[0].name, self.item.alias_or_name, quoted=True)",
            ),
        ),
        statement="WITH g AS (SELECT place, COUNT(*) AS c FROM rental GROUP BY place) SELECT SUM(g.c) AS n, COUNT(*) AS m FROM rental v JOIN g ON g.place = v.place WHERE v.place = 'Old Town' GROUP BY v.place",
        daily=True,
    ),
    Mutant(
        "a row without a list has no truth value",
        (
            (
                "analysis.lists_and_series",
                "compile_list_lookup",
                "there = IsNull(Element(ones, Constant(1, BIGINT)), negated=True)",
                "from dpsql.kernel.tree import Binary\n"
                "        there = Binary('>', Call('len', (ones,)), Constant(0, BIGINT))",
            ),
        ),
        statement="SELECT COUNT(*) AS n FROM rental WHERE NOT EXISTS (SELECT 1 FROM UNNEST(tags) AS e(x) WHERE e.x = 2)",
        daily=True,
    ),
    Mutant(
        "NOT IN keeps NULL",
        (("composition.chosen_public_rows", "_whole", "if found.by_in:", "if False:"),),
        statement=NOT_IN,
        daily=True,
    ),
    Mutant(
        "NOT EXISTS leaves NULL out",
        (("composition.chosen_public_rows", "_whole", "if found.by_in:", "if True:"),),
        statement="SELECT COUNT(*) AS n FROM shelf s WHERE NOT EXISTS (SELECT 1 FROM rental r WHERE r.item_id = s.item_id AND r.late)",
    ),
    Mutant(
        "any column of an anti-join says that there is no partner",
        (
            (
                "composition.values_by_key",
                "read_anti_join",
                "any(each.sql() not in equated for each in absent)",
                "False",
            ),
        ),
        statement="SELECT COUNT(*) AS n FROM shelf s LEFT JOIN rental r ON r.item_id = s.item_id WHERE r.days IS NULL",
    ),
    Mutant(
        "different rows by texts without their lengths",
        (
            (
                "composition.values_of_rows",
                "_text_of",
                "default=exp.DPipe(this=colon, expression=text)",
                "default=text",
            ),
        ),
        statement="SELECT COUNT(*) AS n FROM (SELECT DISTINCT note, word FROM rental) AS t",
    ),
    Mutant(
        "buckets whose ties are not broken",
        (("composition.tiles_of_rows", "_number_of", "if kind != DOUBLE:", "if False:"),),
        statement="SELECT ROUND(COUNT(*) / 90.0) AS n FROM (SELECT NTILE(2) OVER (ORDER BY late::INTEGER) AS t FROM rental) AS s WHERE t = 1",
        daily=True,
    ),
    Mutant(
        "buckets from the other end",
        (("composition.tiles_of_rows", "_number_of", "if descending:", "if False:"),),
        statement="SELECT COUNT(*) AS n FROM (SELECT days, NTILE(3) OVER (ORDER BY days DESC) AS t FROM rental WHERE days >= 0) AS s WHERE t = 1 AND days > 7",
    ),
    Mutant(
        "the number of any key",
        (
            (
                "composition.values_by_key",
                "_look_up",
                "exp.EQ(this=own_key, expression=_text(tie.around))",
                "exp.true()",
            ),
        ),
        statement="SELECT COUNT(*) AS n FROM rental v WHERE days > (SELECT AVG(days) FROM rental w WHERE w.item_id = v.item_id)",
    ),
    Mutant(
        "the number of a key up to its first blank",
        (
            (
                "composition.values_by_key",
                "_look_up",
                '_call("substring", copy_tree(value), behind, most)',
                '_call("split_part", copy_tree(value), exp.Literal.string(" "), exp.Literal.number(2))',
            ),
        ),
        statement="SELECT COUNT(*) AS n FROM rental v WHERE days > (SELECT AVG(days) FROM rental w WHERE w.place = v.place)",
    ),
    Mutant(
        "moments of rows that have one of two values",
        (
            (
                "composition.respelled_statements",
                "write_pair_statistics",
                "[make_presence(p), make_presence(q)]",
                "[make_presence(p)]",
            ),
        ),
        statement="SELECT REGR_COUNT(days, item_id) AS n FROM rental",
        daily=True,
    ),
    Mutant(
        "rows of a set operation by their first column",
        (
            (
                "composition.found_values",
                "list_found_values",
                "places if len(values) > 1 else",
                "places[:1] if len(values) > 1 else",
            ),
            (
                "composition.found_values",
                "list_found_values",
                "values = [item.unalias() for item in select.expressions]",
                "values = [item.unalias() if not i else exp.Literal.number(7) for i, item in enumerate(select.expressions)]",
            ),
        ),
        statement="SELECT COUNT(*) AS n FROM (SELECT late, place FROM rental WHERE days > 3 INTERSECT SELECT late, place FROM rental) AS t",
    ),
    Mutant(
        "groups of EXCEPT are those of both branches",
        (
            (
                "composition.counted_groups",
                "_read_membership",
                "right = exp.Not(this=right) if isinstance(inner, exp.Except) else right",
                "pass",
            ),
        ),
        statement="SELECT COUNT(*) AS n FROM (SELECT days, note FROM rental WHERE late EXCEPT SELECT days, note FROM rental WHERE days > 4) AS t",
    ),
    Mutant(
        "groups of UNION are those that both branches have",
        (("composition.counted_groups", "_read_membership", "isinstance(inner, exp.Union)", "False"),),
        statement="SELECT COUNT(*) AS n FROM (SELECT note FROM rental WHERE days > 7 UNION SELECT word FROM rental UNION SELECT place FROM rental) AS t",
    ),
    Mutant(
        "groups of few lose the condition around them",
        (("composition.counted_groups", "_read_condition", "if where is not None:", "if False:"),),
        statement="SELECT COUNT(*) AS n FROM (SELECT days, COUNT(*) AS c FROM rental GROUP BY days) AS t WHERE c > 85",
    ),
)


session = world_fixture(POLICY, **TABLES)


def exact(session: Session, sql: str) -> int:
    with duckdb.connect() as con:
        for name in TABLES:
            con.execute(f"CREATE VIEW {name} AS FROM '{present(session.policy.path).parent / name}.parquet'")
        return int(present(con.execute(sql).fetchone())[0])


def answer(session: Session, sql: str) -> float | None:
    """Return the number of a statement; None if it is refused."""
    try:
        (row,) = session.run(sql).table.to_pylist()
    except Error:
        return None
    return float(row["n"])


@pytest.mark.parametrize("mutant", daily(MUTANTS, 3), ids=lambda m: m.name)
def test_a_wrong_reading_is_noticed(session: Session, mutant: Mutant) -> None:
    right, wanted = answer(session, mutant.statement), exact(session, mutant.statement)
    assert right is None or right == pytest.approx(wanted, abs=0.5)
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        wrong = answer(session, f"{mutant.statement} -- {mutant.name}")
    assert wrong is not None
    assert wrong != pytest.approx(wanted, abs=0.5)


def test_a_value_of_nobody_is_hardly_ever_found_where_units_speak_for_several(session: Session) -> None:
    """Half of one of the 90 values is to be expected; with the threshold of one value, a third of all."""
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_groups_contributed = 16)"
    statement = f"SELECT {options} DISTINCT item_id FROM rental WHERE days > 100"
    assert session.run(statement).table.num_rows < 10
    one = ("composition.found_values", "put_least", "math.ceil(scale *", "math.ceil(scale / 16 *")
    with pytest.MonkeyPatch.context() as patch:
        Mutant("the threshold of one value", (one,)).apply(patch)
        assert session.run(f"{statement} AND late").table.num_rows > 10
