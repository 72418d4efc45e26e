"""Sums, averages and medians on PostgreSQL and Spark, over the engine's own query that counts the units.

`python -m tests.benchmarks --only engine_sums`, with both extras. Of two million rows, whatever size is asked
for, dpsql's compiled query is counted in turn with `COUNT(DISTINCT unit)` of the same engine and the same
groups. The processor time is that of the engine's processes.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa

from dpsql.policy import load
from dpsql.session import Session
from tests.benchmarks.measures import Figure, Goal, Pairs
from tests.narrow import engine_of, private

from . import Setting

sys.path.append(str(Path(__file__).parents[2] / "engines"))

from support.servers import MissingError, postgres

TITLE = "Sums on other engines"
GOAL = "a sum, an average or a median takes at most 4 (PostgreSQL) or 6 (Spark) times the engine's own count"

ROWS, UNITS, GROUPS = 2_000_000, 200_000, 10
LIMITS = {"postgres": 4, "spark": 6}
COLUMNS = {"i": "INTEGER", "b": "BIGINT", "x": "DOUBLE", "d": "DECIMAL(9,2)"}
CALLS = (*(f"{name}({column})" for name in ("SUM", "AVG", "MEDIAN") for column in COLUMNS),)
MADE = (
    f"SELECT CAST(hash(r, 1) % {UNITS} AS BIGINT) AS id, CAST(hash(r, 2) % {GROUPS} AS INTEGER) AS k, "
    "CAST(hash(r, 3) % 501 AS INTEGER) AS i, CAST(hash(r, 4) % 501 AS BIGINT) AS b, "
    "hash(r, 5) % 50001 / 100 AS x, CAST(hash(r, 6) % 50001 / 100 AS DECIMAL(9, 2)) AS d "
    f"FROM range({ROWS}) AS t(r)"
)
POLICY = """
[database]
engine = "{engine}"
[budget]
epsilon = 1e9
default_epsilon = 1
ledger = "{name}.sqlite"
[tables.many]
source = '{source}'
unit = "id"
trust_source = true
not_null = ["k"]
rows_per_unit = 50
domain.k = {{ from = 0, to = 9 }}
"""
POLICY += "".join(f"bounds.{column} = {{{{ from = 0, to = 500 }}}}\n" for column in COLUMNS)
POLICY += '[tables.many.columns]\nid = "BIGINT"\nk = "INTEGER"\n'
POLICY += "".join(f'{column} = "{kind}"\n' for column, kind in COLUMNS.items())

Ask = Callable[[str], object]
"""Runs the text of a query on the engine, with `{}` in the place of the table."""


def figures(setting: Setting) -> Iterator[Figure]:
    """Measure both engines, as far as they are on this machine."""
    for name, session, own, process in opened_engines(setting.folder / "engine_sums"):
        yield from _measured(name, session, own, process, setting.rounds)


def opened_engines(
    folder: Path, made: str = MADE, policy: str = POLICY
) -> Iterator[tuple[str, Session, Ask, int]]:
    """Open each engine that is on this machine on made rows, one after the other, with its process."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, opened, package in (
        ("postgres", _postgres, "adbc_driver_postgresql"),
        ("spark", _spark, "pyspark"),
    ):
        if importlib.util.find_spec(package) is None:
            continue
        with ExitStack() as stack:
            try:
                session, own, process = stack.enter_context(opened(folder, made, policy))
            except MissingError:
                continue
            yield name, session, own, process


def _measured(name: str, session: Session, own: Ask, process: int, rounds: int) -> Iterator[Figure]:
    engine = engine_of(session)
    for call in CALLS:
        for keys, by in (("", ""), ("k, ", " GROUP BY k")):
            plan = private(session.prepare(f"SELECT {keys}{call} AS v FROM many{by}")).plan
            ours = partial(engine.count, plan.compiled)
            floor = partial(own, f"SELECT {keys}COUNT(DISTINCT id) AS n FROM {{}} AS m{by}")
            ours(), floor()
            run = beside_engine(ours, floor, process, rounds)
            what = f"{name}: {call}{' by 10 groups' if by else ''}"
            yield run.figure(TITLE, what, goal=Goal("ratio", LIMITS[name]))


def beside_engine(
    ours: Callable[[], object], floor: Callable[[], object], process: int, rounds: int
) -> Pairs:
    """Measure both in turn; the processor time is that of the engine's processes."""
    pairs = [(_seconds(ours, process), _seconds(floor, process)) for _ in range(rounds)]
    return Pairs([a for a, _ in pairs], [b for _, b in pairs])


def _write(folder: Path, name: str, engine: str, source: str, policy: str) -> Session:
    path = folder / f"{name}.toml"
    path.write_text(policy.format(engine=engine, name=name, source=source), "utf-8")
    return Session(load(path))


@contextmanager
def _postgres(folder: Path, made_rows: str, policy: str) -> Iterator[tuple[Session, Ask, int]]:
    """Start a server with the rows; its process is the one above those that serve connections."""
    from adbc_driver_postgresql import dbapi

    with postgres() as address:
        with duckdb.connect() as made, dbapi.connect(address, autocommit=True) as owner:
            rows = made.sql(made_rows).to_arrow_table()
            if "d" in rows.column_names:
                rows = rows.set_column(rows.column_names.index("d"), "d", rows["d"].cast(pa.string()))
            with owner.cursor() as cursor:
                cursor.adbc_ingest("incoming", rows, mode="create")
                listed = ", ".join(
                    "CAST(d AS numeric(9,2)) AS d" if name == "d" else name for name in rows.column_names
                )
                cursor.execute(f"CREATE TABLE public.many AS SELECT {listed} FROM incoming")
                cursor.execute("DROP TABLE incoming")
                cursor.execute("ANALYZE public.many")
        with closing(_write(folder, "postgres", address, "public.many", policy)) as session:
            engine = engine_of(session)
            with engine.connection() as connection:  # type: ignore[attr-defined]  # PostgresEngine
                ((backend,),) = connection.ask("SELECT pg_backend_pid() AS p")
                yield session, lambda sql: connection.table(sql.format("public.many")), _parent(backend)


@contextmanager
def _spark(folder: Path, made_rows: str, policy: str) -> Iterator[tuple[Session, Ask, int]]:
    path = folder / "many.parquet"
    with duckdb.connect() as made:
        made.execute(f"COPY ({made_rows}) TO '{path}' (ROW_GROUP_SIZE 250000)")
    with closing(_write(folder, "spark", "spark", str(path), policy)) as session:
        spark = engine_of(session).session  # type: ignore[attr-defined]  # SparkEngine
        yield session, lambda sql: spark.sql(sql.format(f"parquet.`{path}`")).toArrow(), os.getpid()


def _seconds(work: Callable[[], object], process: int) -> tuple[float, float]:
    begin, busy = time.perf_counter(), _busy(process)
    work()
    return time.perf_counter() - begin, _busy(process) - busy


def _busy(process: int) -> float:
    """Return the processor seconds of a process and those below it, of such that have ended as well.

    It is 0 where the system does not list processes as files.
    """
    every = {int(name): found for name in _listed() if (found := _status(name)) is not None}
    ticks, below = 0, [process]
    for each in below:
        ticks += every.get(each, (0, 0))[1]
        below += [other for other, (parent, _) in every.items() if parent == each]
    return ticks / os.sysconf("SC_CLK_TCK")


def _listed() -> list[str]:
    folder = Path("/proc")
    return [each.name for each in folder.iterdir() if each.name.isdigit()] if folder.exists() else []


def _status(process: str) -> tuple[int, int] | None:
    """Return the parent of a process, and its ticks with those of its children that have ended."""
    try:
        words = (Path("/proc") / process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(words[1]), sum(map(int, words[11:15]))


def _parent(process: object) -> int:
    found = _status(str(process))
    return found[0] if found is not None else 0
