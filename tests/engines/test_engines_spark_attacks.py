# ruff: noqa: E501  statements read better unbroken
"""What an attacker tried on Spark: each statement's own rows, vouched facts that age, settings, slow texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pytest
from support.stores import SparkStore, compare

from dpsql.engines.spark import check_facts
from dpsql.engines.spark import spark_connection as spark
from dpsql.engines.spark.spark_sql import SparkDialect
from dpsql.engines.writer import Untranslatable
from dpsql.engines.writer.written_values import Value
from dpsql.errors import OperationalError, PolicyError
from dpsql.policy import load
from dpsql.session import Session
from dpsql.types import VARCHAR
from tests.narrow import engine_of, private
from tests.support.exact import exact_of

pytestmark = pytest.mark.spark

POLICY = """
[budget]
epsilon = 100
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
columns = { user_id = "BIGINT", page = "VARCHAR" }
[tables.visits.domain]
page = ["a", "b"]
"""
FACT = """
[database]
engine = "spark"
[budget]
epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "shop.visits"
unit = "user_id"
unique = [["visit_id"]]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> SparkStore:
    return SparkStore(tmp_path_factory.mktemp("attacks"))


@pytest.fixture(scope="module")
def session(place: SparkStore) -> Iterator[Session]:
    """Two of the texts are no UTF-8."""
    source = place.folder / "visits.parquet"
    pages = [b"a", b"a", b"b", b"\xff\xfe", b"a\x80", b"b", None]
    _write(source, pages)
    found = place.session(place.policy(POLICY, {"visits": str(source)}))
    yield found
    found.close()


def _write(path: Path, pages: list[bytes | None]) -> None:
    """Write bytes as texts, which Arrow does not look into."""
    import pyarrow.parquet as pq

    texts = pa.array(pages, pa.binary()).view(pa.string())
    pq.write_table(pa.table({"user_id": pa.array(range(len(pages)), pa.int64()), "page": texts}), path)


def counted(session: Session, keys: str) -> tuple[object, Callable[[], dict[str, int]]]:
    """Prepare a statement whose public rows are these keys."""
    prepared = private(
        session.prepare(
            f"SELECT x.page, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN (VALUES {keys}) AS x(page) "
            "ON v.page = x.page GROUP BY x.page ORDER BY n DESC LIMIT 1"
        )
    )
    compiled = prepared.plan.compiled

    def run() -> dict[str, int]:
        found = engine_of(session).count(compiled)
        return dict(
            zip(exact_of(found).keys.column("k0").to_pylist(), exact_of(found).n[0].tolist(), strict=True)
        )

    return engine_of(session)._translate(compiled), run  # type: ignore[attr-defined]  # RemoteEngine


def test_statements_of_one_text_keep_their_own_public_rows(session: Session) -> None:
    one, first = counted(session, "('a'), ('zz')")
    other, second = counted(session, "('b'), ('yy')")
    assert one.sql != other.sql  # type: ignore[attr-defined]  # the views are named by what is in them
    assert first() == {"a": 2}
    assert second() == {"b": 2}
    assert first() == {"a": 2}


def test_bytes_that_are_no_text_are_null(session: Session) -> None:
    found = compare(
        engine_of(session),  # type: ignore[arg-type]  # RemoteEngine
        'SELECT t1.page AS page, COUNT(*) AS n FROM (SELECT b."page" AS page FROM main."visits" AS b) AS t1 GROUP BY t1.page',
    )
    assert dict(zip(*found.to_pydict().values(), strict=True)) == {"a": 2, "b": 2, None: 3}
    assert engine_of(session).vet("visits")


def test_a_vouched_fact_needs_a_version_where_rows_may_come_unseen(tmp_path: Path) -> None:
    policy = tmp_path / "dpsql.toml"
    policy.write_text(FACT, "utf-8")
    with pytest.raises(PolicyError) as caught:
        check_facts(load(policy))
    assert "data_version" in (caught.value.hint or "")
    for text in (
        'data_version = "1"\n' + FACT,
        FACT + "trust_source = true\n",
        FACT.replace('unit = "user_id"', "public = true"),
    ):
        policy.write_text(text, "utf-8")
        check_facts(load(policy))
    # A folder's own size and time say nothing of the files below it.
    (tmp_path / "rows.parquet").mkdir()
    policy.write_text(FACT.replace("shop.visits", "rows.parquet"), "utf-8")
    with pytest.raises(PolicyError):
        check_facts(load(policy))


@pytest.mark.parametrize(
    "name", [next(iter(spark._PINNED)), "spark.sql.ansi.enabled", list(spark._PINNED)[-1]]
)
@pytest.mark.parametrize("way", ["raises", "ignores"])
def test_a_setting_that_does_not_hold_is_no_session(
    monkeypatch: pytest.MonkeyPatch, session: Session, name: str, way: str
) -> None:
    real = engine_of(session).session.newSession()  # type: ignore[attr-defined]  # SparkEngine

    class Conf:
        def set(self, key: str, value: str) -> None:
            if key != name:
                real.conf.set(key, value)
            elif way == "raises":
                raise RuntimeError(key)

        def get(self, key: str) -> str:
            return "another" if key == name else str(real.conf.get(key))

    bent = SimpleNamespace(conf=Conf(), sql=real.sql, sparkContext=real.sparkContext)
    monkeypatch.setattr(spark, "_start", lambda: bent)
    with pytest.raises(OperationalError) as caught:
        spark.open_session("spark")
    assert caught.value.__cause__ is None


def test_a_spark_that_does_not_obey_a_setting_is_no_session(session: Session) -> None:
    """A server keeps settings it does not know: what they do is asked."""
    real = engine_of(session).session.newSession()  # type: ignore[attr-defined]  # SparkEngine
    assert spark._pin_settings(real)

    def rounded(text: str) -> object:
        real.conf.set("spark.sql.legacy.decimal.retainFractionDigitsOnTruncate", "false")
        return real.sql(text)

    assert not spark._pin_settings(SimpleNamespace(conf=real.conf, sql=rounded))
    assert spark._pin_settings(real)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"spark.ui.enabled": "true"},
        {"spark.ui.enabled": "false", "spark.eventLog.enabled": "true"},
        {"spark.ui.enabled": "false", "spark.extraListeners": "a.Listener"},
    ],
)
def test_a_running_spark_that_others_watch_is_refused(
    monkeypatch: pytest.MonkeyPatch, session: Session, settings: dict[str, str]
) -> None:
    real = engine_of(session).session.newSession()  # type: ignore[attr-defined]  # SparkEngine
    context = SimpleNamespace(getConf=lambda: settings)
    watched = SimpleNamespace(conf=real.conf, sql=real.sql, sparkContext=context)
    monkeypatch.setattr(spark, "_start", lambda: watched)
    with pytest.raises(PolicyError) as caught:
        spark.open_session("spark")
    assert "spark.ui.enabled" in (caught.value.hint or "")
    assert not spark._exposes_statements(real)


def test_spark_leaves_nothing_beside_the_callers_files(session: Session) -> None:
    real = engine_of(session).session  # type: ignore[attr-defined]  # SparkEngine
    warehouse = real.conf.get("spark.sql.warehouse.dir")
    spilled = real.sparkContext.getConf().get("spark.local.dir")
    assert "dpsql-scratch-" in warehouse
    assert Path(spilled).parent.stat().st_mode & 0o777 == 0o700, (
        "rows that Spark spills are the owner's alone"
    )
    assert real.sql("SELECT '${spark.app.name}' AS x").collect()[0][0] == "${spark.app.name}"


def test_an_address_has_no_fragment() -> None:
    with pytest.raises(PolicyError):
        spark.open_session("sc://127.0.0.1:15002/#;token=x")


TEXTS = ("", "a", "aa", "aba", "ab", "b", "Éa", "aÉ", "ÉaÉ", "%", "a%b", "xay", "É")
TAKEN: dict[str, list[str | None]] = {
    "": [],
    "a": ["a"],
    "%": [None],
    "%%": [None, None],
    "a%": ["a", None],
    "a%%": ["a", None, None],
    "%a": [None, "a"],
    "%a%": [None, "a", None],
    "a%a": ["a", None, "a"],
    "É%%É": ["É", None, None, "É"],
}


def test_like_is_written_without_regular_expressions(session: Session) -> None:
    dialect = SparkDialect({})
    real = engine_of(session).session  # type: ignore[attr-defined]  # SparkEngine
    cells = ", ".join(f"({dialect.constant(t, VARCHAR)})" for t in TEXTS)
    written = [dialect.like(Value("s", VARCHAR), parts) for parts in TAKEN.values()]
    assert not any("LIKE" in text for text in written)
    frame = real.sql(f"SELECT s, {', '.join(written)} FROM VALUES {cells}, (CAST(NULL AS STRING)) AS r(s)")
    found = {row[0]: list(row[1:]) for row in frame.collect()}
    with duckdb.connect() as connection:
        for text, got in found.items():
            wanted = connection.execute(f"SELECT {', '.join('$1 LIKE ?' for _ in TAKEN)}".replace("$1", "?"), [
                part for pattern in TAKEN for part in (text, pattern)
            ]).fetchall()[0]  # fmt: skip
            assert got == list(wanted), text
    assert len(found) == len(TEXTS) + 1


@pytest.mark.parametrize("parts", [[""], ["a", ""], [None, "a", None, "b", None], [None, "a", ""] * 500])
def test_a_like_that_may_take_minutes_is_refused(parts: list[str | None]) -> None:
    with pytest.raises(Untranslatable) as caught:
        SparkDialect({}).like(Value("s", VARCHAR), parts)
    assert caught.value.hint is not None


@pytest.mark.parametrize("text", ["DATE 'infinity'", "TIMESTAMP '-infinity'"])
def test_an_infinite_date_is_no_constant(session: Session, text: str) -> None:
    """DuckDB's client shows it as the last or first one there is, which is taken."""
    taken = text.replace("-infinity", "0001-01-01").replace("infinity", "9999-12-31")
    kind = text.partition(" ")[0]
    sql = f'SELECT t1.k AS k, (CASE WHEN t1.k > 1 THEN CAST({{}} AS {kind}) END IS NULL) AS x FROM (SELECT b."user_id" AS k FROM main."visits" AS b) AS t1'
    seen = compare(engine_of(session), sql.format(taken)).column(1).to_pylist()  # type: ignore[arg-type]  # RemoteEngine
    assert len(seen) == 7
    assert False in seen
    with pytest.raises(Untranslatable):
        compare(engine_of(session), sql.format(text))  # type: ignore[arg-type]  # RemoteEngine
