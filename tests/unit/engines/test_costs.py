"""What a statement costs an engine is known before it is sent: its size after substitution, and its time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest
from support.nests import JOINED, chained, longer, nested, selected, twice, upper

from dpsql.analysis.column_types import give_types
from dpsql.engines.declared_domains import Domains
from dpsql.engines.duckdb.table_readers import Reader
from dpsql.engines.postgres.postgres_sql import PostgresDialect
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.engines.spark import Planner
from dpsql.engines.spark.spark_sql import SparkDialect
from dpsql.engines.writer import (
    RULES,
    Dialect,
    TargetColumn,
    Untranslatable,
    WrittenQuery,
    write,
    write_query,
)
from dpsql.engines.writer.dialect import ONCE
from dpsql.engines.writer.statement_writer import Writer
from dpsql.engines.writer.written_values import Cost, measure
from dpsql.kernel import tree
from dpsql.kernel.tree import (
    Apply,
    Call,
    Column,
    Constant,
    Derived,
    Expr,
    Item,
    Query,
    Scan,
    Select,
    listed_forms,
)
from dpsql.policy import BudgetPolicy, DatabaseSource, Policy, Table, UnitColumn
from dpsql.types import BIGINT, INTEGER, VARCHAR

COLUMNS = {"id": BIGINT, "s": VARCHAR}
MARK = "MarkedText"
(STRLEN,) = listed_forms()["strlen"]


@pytest.fixture(scope="module")
def schema() -> Iterator[SchemaDatabase]:
    table = Table(name="rows", source=DatabaseSource(None, "rows"), unit=UnitColumn("id"), columns=COLUMNS)
    policy = Policy(budget=BudgetPolicy(epsilon=Fraction(1)), tables={"rows": table})
    readers = {"rows": Reader(table, tuple(COLUMNS.items()), "", ())}
    made = SchemaDatabase(readers, {}, Domains(policy, readers))
    yield made
    made.close()


@pytest.fixture(params=[PostgresDialect, SparkDialect], ids=["postgres", "spark"])
def kind(request: pytest.FixtureRequest) -> type[Dialect]:
    return request.param


def opened(kind: type[Dialect], **limits: int) -> Dialect:
    columns = {n: TargetColumn(f"x{i}", k) for i, (n, k) in enumerate(COLUMNS.items())}
    return kind({"rows": ("(SELECT 1) ", columns)}, **limits)


def text(schema: SchemaDatabase, dialect: Dialect, node: Query) -> str:
    return write(node, dialect, schema, {"rows"}, {}).sql


def written(schema: SchemaDatabase, dialect: Dialect, node: Query) -> WrittenQuery:
    typed = give_types(node, schema.stored_types)
    return write_query(Writer(dialect, schema, {"rows"}, {}, RULES), typed, None)


def cost(schema: SchemaDatabase, dialect: Dialect, node: Query) -> Cost:
    return written(schema, dialect, node).cost


def copied(schema: SchemaDatabase, dialect: Dialect, node: Query) -> int:
    """Return by how much a statement is larger after substitution."""
    made = written(schema, dialect, node)
    return made.cost.size - measure(made.sql, {}, {}).words


@pytest.mark.parametrize("shape", [nested, chained])
@pytest.mark.parametrize("make", [longer, upper])
@pytest.mark.sampled(3, rest="longer")
def test_a_text_grows_with_the_calls_and_not_with_their_product(
    schema: SchemaDatabase, kind: type[Dialect], shape: Callable[..., Query], make: Callable[[Expr], Expr]
) -> None:
    dialect = opened(kind)
    lengths = [len(text(schema, dialect, shape(make, times))) for times in (2, 4, 6)]
    assert lengths[2] - lengths[1] <= 1.2 * (lengths[1] - lengths[0])


def test_every_form_computes_a_long_operand_once(schema: SchemaDatabase, kind: type[Dialect]) -> None:
    """The first operand is long, and its literal stands in the text once, whatever the form."""
    dialect, operand = opened(kind), Column("t0", "x")
    # Some sixty words, with one literal.
    marked = Call("replace", (operand, Constant(MARK, VARCHAR), Constant("b", VARCHAR)))
    for _ in range(12):
        marked = Call("trim", (Call("substring", (marked, Constant(2, INTEGER))), Constant("a", VARCHAR)))
    others = {"VARCHAR": Constant("ab", VARCHAR), "BIGINT": Constant(3, INTEGER)}
    others |= {"#PAD": Constant("é", VARCHAR), "#INTEGER": Constant(2, INTEGER)}
    others |= {"#LENGTH": Constant(1000, INTEGER), "#VARCHAR": Constant("a", VARCHAR)}
    written = 0
    for form in (form for entries in listed_forms().values() for form in entries):
        if form.arguments[:1] != ("VARCHAR",) or not all(a in others for a in form.arguments):
            continue
        arguments = (marked, *(others[a] for a in form.arguments[1:]))
        try:
            sql = text(schema, dialect, selected(Apply(form, arguments)))
        except Untranslatable:
            continue
        assert sql.count(MARK) == 1, form
        written += 1
    assert written > 25


@pytest.mark.parametrize("make", [twice, longer, upper])
def test_a_column_costs_what_stands_behind_it(
    schema: SchemaDatabase, kind: type[Dialect], make: Callable[[Expr], Expr]
) -> None:
    dialect = opened(kind)
    for times in (1, 2, 3, 4):
        found = [cost(schema, dialect, shape(make, times)) for shape in (nested, chained)]
        assert found[1].micros == pytest.approx(found[0].micros)
        assert found[1].size >= found[0].size


def test_the_size_after_substitution_is_limited_before_anything_is_sent(
    schema: SchemaDatabase, kind: type[Dialect]
) -> None:
    """A few hundred characters more, and the engine would hold twice as much."""
    dialect = opened(kind)
    measuring = opened(type("Unlimited", (kind,), {"max_size": 1 << 40, "times": {}}))
    sizes = [copied(schema, measuring, chained(twice, times)) for times in range(1, 16)]
    last = max(times for times, size in enumerate(sizes, 1) if size <= dialect.max_size)
    assert sizes[last - 1] <= dialect.max_size < sizes[last]
    assert sizes[-1] > 100 * dialect.max_size
    assert len(text(schema, dialect, chained(twice, last))) < 3000
    for times in (last + 1, 15):
        with pytest.raises(Untranslatable, match="too long"):
            text(schema, dialect, chained(twice, times))
    with pytest.raises(Untranslatable, match="too long"):
        text(schema, dialect, nested(twice, 30))


@pytest.mark.parametrize("shape", [nested, chained])
@pytest.mark.parametrize("make", [twice, longer, upper])
@pytest.mark.sampled(5)
def test_what_is_far_too_long_is_refused_as_soon_as_what_is_just_too_long(
    schema: SchemaDatabase,
    kind: type[Dialect],
    shape: Callable[..., Query],
    make: Callable[[Expr], Expr],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The texts that are measured, by which the time grows, are those up to the limit."""
    dialect, read = opened(kind), [0]

    def counting(sql: str, *more: Any) -> Cost:
        read[-1] += len(sql)
        return measure(sql, *more)

    monkeypatch.setattr("dpsql.engines.writer.statement_writer.measure", counting)
    found = []
    for times in (*range(1, 30, 7), 34, 38, 39, 200):
        read.append(0)
        try:
            text(schema, dialect, shape(make, times))
        except Untranslatable:
            found.append(read[-1])
    assert len(found) > 2
    assert found[-1] == found[0]  # of 200 nested ones no more than of the first that is refused


def test_a_subquery_in_a_subquery_counts_at_each_level(schema: SchemaDatabase, kind: type[Dialect]) -> None:
    """Engines copy what is within at each level: the memory for planning grows with the square."""
    dialect = opened(kind)
    few, many = (cost(schema, dialect, nested(longer, times)).size for times in (8, 16))
    assert many > 3 * few
    assert text(schema, dialect, nested(longer, 12))
    with pytest.raises(Untranslatable, match="too long"):
        text(schema, dialect, nested(longer, 40))


def test_what_belongs_to_a_select_is_not_moved_into_a_subquery(
    schema: SchemaDatabase, kind: type[Dialect]
) -> None:
    """COUNT(*) in a subquery counts its rows; so does a window."""
    dialect = opened(kind)
    texts: list[Expr] = [tree.Cast(tree.Aggregate("count"), VARCHAR)]
    texts += [tree.Cast(tree.Window(Call("row_number", ())), VARCHAR)]
    for node in texts:
        long = Apply(JOINED, (node, Constant("a" * 5000, VARCHAR)))
        assert ONCE not in text(schema, dialect, selected(upper(long)))
        assert ONCE in text(schema, dialect, selected(upper(twice(longer(Column("t0", "x"))))))


@pytest.mark.parametrize(
    ("limits", "accepted"),
    [({}, 19), ({"longest": 65_536 // 4}, 77), ({"timeout": 10}, 4), ({"timeout": 1}, 0)],
)
def test_the_time_of_the_longest_text_is_limited(
    schema: SchemaDatabase, limits: dict[str, int], accepted: int
) -> None:
    """A change of case takes PostgreSQL .18 s for 64 KiB; a row takes 4 s, or a tenth of the time limit."""
    dialect = opened(PostgresDialect, **limits)

    def changes(times: int) -> Query:
        nodes = [upper(Apply(JOINED, (Column("t0", "x"), Constant(str(i), VARCHAR)))) for i in range(times)]
        inner = Select((Item(Column("b", "s", True), "x"),), Scan("rows", "b"))
        return Select(tuple(Item(n, f"x{i}") for i, n in enumerate(nodes)), Derived(inner, "t0"))

    if accepted:
        assert text(schema, dialect, changes(accepted))
    with pytest.raises(Untranslatable, match="takes too long"):
        text(schema, dialect, changes(accepted * 5 // 4 + 2))


def test_a_change_of_case_counts_wherever_its_column_is_named(schema: SchemaDatabase) -> None:
    """The text has one call, and a row takes as many as there are names."""
    dialect = opened(PostgresDialect)

    def named(times: int) -> Query:
        items = tuple(Item(Apply(STRLEN, (Column("t1", "x"),)), f"x{i}") for i in range(times))
        return Select(items, Derived(selected(upper(Column("t0", "x"))), "t1"))

    assert text(schema, dialect, named(19)).count("translate(") == 1
    with pytest.raises(Untranslatable, match="takes too long"):
        text(schema, dialect, named(22))


def test_names_in_a_literal_are_no_names() -> None:
    names = {'"a"."b"': Cost(1000, 1000)}
    assert measure("""f('"a"."b"', E'it''s \\\\ "a"."b"')""", names, {}).words == 4
    assert measure('f("a"."b")', names, {}).words == 1001


def test_planning_that_takes_longer_than_its_time_is_given_up() -> None:
    ended = threading.Event()
    planner = Planner(0.05, threads=1)
    assert not planner.run(lambda: ended.wait(60))
    assert not planner.run(lambda: True), "the thread that plans is still counted"
    ended.set()
    planner = Planner(60, threads=1)
    assert planner.run(lambda: True)
    assert not planner.run(lambda: bool(1 // 0))
    assert planner.run(lambda: True)
