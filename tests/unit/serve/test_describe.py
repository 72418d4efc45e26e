"""What is announced of a statement is what is delivered, and announcing costs nothing."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from dpsql.errors import QueryRefused
from dpsql.language import split_script
from dpsql.serve.client import Client
from dpsql.serve.service import Service
from dpsql.serve.users import User
from tests.serve import frontend as f
from tests.serve.bench import Bench, Real
from tests.serve.bench import run as run_bench
from tests.served import ROOT, client_of, clinic, run, serving

COOKBOOK = split_script((ROOT / "examples" / "cookbook.sql").read_text())
FREE = [
    "SHOW TABLES",
    "SHOW PRIVACY BUDGET",
    "SHOW RELEASES",
    "DESCRIBE visits",
    "DESCRIBE diagnoses",
    "EXPLAIN (FORMAT JSON) SELECT COUNT(*) FROM patients",
    "EXPLAIN SELECT COUNT(*) AS n, n * 2 AS m FROM patients",
    "SELECT * FROM diagnoses",
    "SELECT chapter, chapter, COUNT(*), SUM(1), AVG(1.5), MIN(code) FROM public.diagnoses GROUP BY chapter",
    "SELECT table_name, ordinal_position FROM information_schema.columns",
    "SELECT 1, 2.5 AS d, 'x' AS t, NULL AS n, DATE '2024-01-01' AS day",
    "SELECT visit_date FROM dp_domain(visits.visit_date)",
    "SELECT * FROM visits LIMIT 0",
    "SELECT * FROM (SELECT * FROM public.visits) AS q WHERE 0 = 1",
    "SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic LIMIT 0",
    "SELECT clinic FROM visits GROUP BY 1 ORDER BY 1",
]
BUYER = User("buyer", "buyer", auto_charge=True)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(clinic(tmp_path_factory.mktemp("clinic")), BUYER) as made:
        yield made


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    made = client_of(service, BUYER)
    yield made
    made.close()


def spent(service: Service) -> object:
    ledger = service.generation.database.ledger
    return ledger.budget().spent, len(ledger.entries()), ledger.count_failures("buyer")


@pytest.mark.parametrize("columns", ["", "interval"])
@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_the_columns_of_every_statement_are_known_before_it_runs(
    service: Service, columns: str, every: int
) -> None:
    """Every day those of each twelfth of the cookbook."""
    client = client_of(service, BUYER, dp_columns=columns)
    for text in [*FREE, *COOKBOOK[::every]]:
        before = spent(service)
        described = run(client.describe(text))
        assert spent(service) == before, text
        answer = run(client.answer(text))
        assert described.columns == answer.columns, text
        assert [(c.name, c.type) for c in answer.columns] == [(f.name, f.type) for f in answer.table.schema]
        assert described.parameters == ()


def test_the_ends_of_intervals_are_columns_where_they_are_wanted(service: Service) -> None:
    client = client_of(service, BUYER, dp_columns="interval")
    answer = run(client.answer("SELECT region, COUNT(*) AS n, n AS again FROM patients GROUP BY region"))
    names = ["region", "n", "again", "n_low", "n_high", "again_low", "again_high"]
    assert answer.table.column_names == names
    assert answer.release is not None
    assert answer.table.column("n_low").equals(answer.release.table.column("n_low"))
    low = "SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS n_low FROM patients"
    assert run(client.answer(low)).table.column_names == ["n", "n_low", "n_high"]


I32, I64, F64, TEXT = pa.int32(), pa.int64(), pa.float64(), pa.string()


@pytest.mark.parametrize(
    ("text", "types", "values"),
    [
        ("SELECT COUNT(*) AS n FROM visits WHERE minutes > $1", None, [30]),
        ("SELECT COUNT(*) AS n FROM visits WHERE $1 < minutes AND visits.clinic = $2", None, [30, "Summit"]),
        ("SELECT COUNT(*) AS n FROM visits WHERE clinic IN ($1, $2) AND cost <= $3", None, ["a", "b", 10.0]),
        (
            "SELECT visit_date, COUNT(*) AS n FROM visits WHERE visit_date BETWEEN $1 AND $2 GROUP BY 1",
            [pa.date32(), pa.date32()],
            [datetime.date(2024, 1, 1), datetime.date(2024, 1, 9)],
        ),
        (
            "SELECT code FROM diagnoses WHERE chapter ILIKE $1 LIMIT $2 OFFSET $3",
            [TEXT, I64, I64],
            ["a", 3, 1],
        ),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = $1) clinic, COUNT(*) AS n FROM visits "
            "GROUP BY clinic HAVING n >= $2 LIMIT $3",
            [F64, F64, I64],
            [0.01, 100.0, 5],
        ),
        ("SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic HAVING COUNT(*) > $1", [F64], [5.0]),
        ("SELECT $1::int AS a, CAST($2 AS double precision) AS b, $3 AS c", [I32, F64, TEXT], [1, 2.5, "x"]),
        ('SELECT \'$1\' AS a, $1 AS b, "code" AS "$2" FROM diagnoses -- $3', [TEXT], ["y"]),
        (
            "SELECT n, n * $1 AS m FROM (SELECT COUNT(*) AS n FROM patients) WHERE n > $2",
            [F64, F64],
            [2.0, 1.0],
        ),
        ("EXPLAIN SELECT COUNT(*) FROM visits WHERE minutes < $1", None, [5]),
        ("SELECT region FROM patients GROUP BY region LIMIT $1", [I64], [2]),
    ],
)
@pytest.mark.sampled(4)
def test_parameters_have_types_and_do_not_change_the_columns(
    client: Client, text: str, types: list[pa.DataType] | None, values: list[object]
) -> None:
    described = run(client.describe(text))
    if types is not None:
        assert described.parameters == tuple(types)
    assert len(described.parameters) == len(values)
    answer = run(client.answer(text, values, described.parameters))
    assert answer.columns == described.columns
    assert run(client.describe(text, (), values)).columns == described.columns


def test_a_column_beside_a_parameter_gives_it_its_type(client: Client) -> None:
    text = "SELECT COUNT(*) FROM visits WHERE minutes > $1 AND visit_date < $2 AND note LIKE $3 AND cost = $4"
    table = run(client.answer("SELECT minutes, visit_date, note, cost FROM visits LIMIT 0")).table
    assert run(client.describe(text)).parameters == tuple(table.schema.types)


@pytest.mark.parametrize(
    ("announced", "value", "delivered"),
    [(I64, 5, I64), (I64, 2**40, I64), (F64, 1.5, F64), (F64, 1e300, F64), (I32, 7, I32), (TEXT, "5", TEXT)],
)
def test_a_literal_has_the_announced_type_whatever_its_value(
    client: Client, announced: pa.DataType, value: object, delivered: pa.DataType
) -> None:
    described = run(client.describe("SELECT $1 AS x", [announced]))
    assert described.parameters == (announced,)
    answer = run(client.answer("SELECT $1 AS x", [value], [announced]))
    assert described.columns == answer.columns
    assert answer.columns[0].type == delivered
    assert answer.table.column("x").to_pylist() == [value]


def test_a_number_of_any_scale_is_a_decimal(client: Client) -> None:
    described = run(client.describe("SELECT $1 AS x", [pa.decimal128(38, 10)]))
    assert pa.types.is_decimal(described.columns[0].type)
    for value in (Decimal("12.345"), Decimal(12), Decimal("1e20")):
        answer = run(client.answer("SELECT $1 AS x", [value], [pa.decimal128(38, 10)]))
        assert pa.types.is_decimal(answer.columns[0].type)
        assert answer.table.column("x").to_pylist() == [value]


def test_what_is_refused_is_refused_before_it_is_run(client: Client, service: Service) -> None:
    before = spent(service)
    with pytest.raises(QueryRefused) as caught:
        run(client.describe("SELECT nosuch FROM visits WHERE minutes > $1"))
    assert caught.value.sqlstate == "42703"
    assert spent(service) == before


def test_values_may_be_accepted_where_no_dummy_is(client: Client) -> None:
    text = "SELECT visit_date, COUNT(*) AS n FROM visits WHERE visit_date = $1 AND visit_date > $2 GROUP BY 1"
    days = [datetime.date(2024, 1, 9), datetime.date(2024, 1, 1)]
    with pytest.raises(QueryRefused, match="no value in the public domain"):
        run(client.describe(text))
    assert run(client.describe(text, (), days)).columns[0].type == pa.date32()
    assert run(client.answer(text, days, [pa.date32(), pa.date32()])).table.num_rows == 1


@pytest.mark.parametrize("values", [[], [b"1970"]])
def test_columns_that_changed_since_parse_are_told_uncharged(tmp_path: Path, values: list[bytes]) -> None:
    """`dp_columns` is set between Parse and Execute, over the wire."""
    text = f"SELECT COUNT(*) AS n FROM patients{' WHERE birth_year > $1' if values else ''}"
    with serving(clinic(tmp_path), User("alice", "alice")) as service:
        bench = Real()
        bench.real = service

        async def main(_: Bench) -> tuple[list[f.Message], list[f.Message], object]:
            alice = await bench.log_in(dp_epsilon="0.5")
            await alice.ask(f.parse(text, "s"), f.SYNC)
            await alice.ask(f.query("SET dp_columns = 'interval'"))
            changed = await alice.ask(f.bind(values, statement="s"), f.execute(), f.SYNC)
            between = spent(service)
            await alice.ask(f.query("RESET dp_columns"))
            return changed, await alice.ask(f.bind(values, statement="s"), f.execute(), f.SYNC), between

        before = spent(service)
        changed, again, between = run_bench(main, bench)
    assert f.fields(next(body for tag, body in changed if tag == b"E"))["C"] == "55000"
    assert between == before
    assert sum(tag == b"D" for tag, _ in again) == 1
