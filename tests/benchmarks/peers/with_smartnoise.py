"""SmartNoise SQL, which rewrites a statement, has pandas count, and adds noise to what is counted."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from worker import EPSILON, LARGEST, LIMITED, ROWS, TOP, WHOLE

Rows = Iterable[tuple[float, ...]]


def prepared(file: str) -> tuple[str, dict[str, Callable[[], Rows]]]:
    """Return the version, and what answers each question."""
    import pyarrow.parquet
    import snsql
    import yaml  # noqa: F401  that it is not there is an answer

    folder = Path(tempfile.mkdtemp())
    frame = pyarrow.parquet.read_table(file, columns=["user_id", "item", "kind", "amount"]).to_pandas()
    frame["amount"] = frame["amount"].astype(float)

    def ask(sql: str) -> list[Any]:
        """Ask with the most rows of a user, which is the only bound that it knows."""
        metadata = _described(folder)
        for parts in (1, 2):
            privacy = snsql.Privacy(epsilon=EPSILON / parts, delta=1e-9)
            reader = snsql.from_df(frame, privacy=privacy, metadata=str(metadata))
            if reader.get_privacy_cost(sql)[0] <= EPSILON * (1 + 1e-9):
                return list(reader.execute(sql))[1:]
        raise ValueError("its price is more than epsilon")

    def top() -> Rows:
        sql = "SELECT item, COUNT(DISTINCT user_id) AS n FROM made.events GROUP BY item ORDER BY n DESC"
        return [(row[0], row[1]) for row in ask(f"{sql} LIMIT {TOP}")]

    def counts() -> Rows:
        sql = "SELECT kind, COUNT(DISTINCT user_id) AS n FROM made.events GROUP BY kind"
        return [(row[0], row[1]) for row in ask(sql)]

    def sums() -> Rows:
        rows = ask("SELECT kind, SUM(amount) AS s FROM made.events GROUP BY kind")
        return [(row[0], row[1]) for row in rows]

    whole = {question: partial(_of_whole, file, folder, question) for question in WHOLE}
    return version("smartnoise-sql"), {"top": top, "counts": counts, "sums": sums, **whole}


_STATEMENTS = {
    "COUNT": "SELECT COUNT(*) AS n FROM made.events",
    "SUM": "SELECT SUM(amount) AS n FROM made.events",
    "AVG": "SELECT AVG(amount) AS n FROM made.events",
    "TOP 10": f"SELECT item, COUNT(*) AS n FROM made.events GROUP BY item ORDER BY n DESC LIMIT {TOP}",
    "GROUP BY": "SELECT kind, COUNT(*) AS n FROM made.events GROUP BY kind",
}


def _described(folder: Path, *, sample: bool = True) -> Path:
    import yaml

    described: dict[str, Any] = {
        "row_privacy": False,
        "max_ids": ROWS,
        "sample_max_ids": sample,
        "censor_dims": False,
        "clamp_counts": False,
        "user_id": {"type": "int", "private_id": True},
        "item": {"type": "int"},
        "kind": {"type": "int"},
        "amount": {"type": "float", "lower": 0, "upper": LARGEST},
    }
    metadata = folder / "metadata.yaml"
    metadata.write_text(yaml.safe_dump({"": {"made": {"events": described}}}))
    return metadata


def _of_whole(file: str, folder: Path, question: str) -> Rows:
    """Answer from the exact aggregates of the rewritten statement, which DuckDB counts on limited rows."""
    import duckdb
    import snsql

    if not _CONNECTED:
        connection = duckdb.connect()
        connection.execute("CREATE SCHEMA made")
        columns = "user_id, item, kind, CAST(amount AS DOUBLE) AS amount"
        connection.execute(f"CREATE TABLE made.events AS SELECT {columns} FROM ({LIMITED.format(file=file)})")
        _CONNECTED.append(connection)
    connection, sql, metadata = _CONNECTED[0], _STATEMENTS[question], _described(folder, sample=False)
    for parts in (1, 2):
        privacy = snsql.Privacy(epsilon=EPSILON / parts, delta=1e-9, alphas=[0.05])
        reader = snsql.from_connection(connection, privacy=privacy, metadata=str(metadata), engine="postgres")
        if reader.get_privacy_cost(sql)[0] <= EPSILON * (1 + 1e-9):
            break
    if question not in _EXACT:
        inner, _ = reader._rewrite(sql)
        found = connection.execute(reader.reader.serializer.serialize(inner))
        _EXACT[question] = [[c[0] for c in found.description or ()], *found.fetchall()]
    rows = list(reader.execute(sql, pre_aggregated=_EXACT[question]))[1:]
    half = None if question == "AVG" else reader.get_simple_accuracy(sql, 0.05)[-1]
    made = []
    for row in rows:
        key, value = (row[0], row[1]) if len(row) > 1 else (0, row[0])
        made.append((key or 0, value, *(() if half is None else (value - half, value + half))))
    return made


_CONNECTED: list[Any] = []
_EXACT: dict[str, list[Any]] = {}
