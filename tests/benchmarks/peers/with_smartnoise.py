"""SmartNoise SQL, which rewrites a statement, has pandas count, and adds noise to what is counted."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from worker import EPSILON, LARGEST, ROWS, TOP

Rows = Iterable[tuple[int, float]]


def prepared(file: str) -> tuple[str, dict[str, Callable[[], Rows]]]:
    """Return the version, and what answers each question."""
    import pyarrow.parquet
    import snsql
    import yaml

    frame = pyarrow.parquet.read_table(file, columns=["user_id", "item", "kind", "amount"]).to_pandas()
    frame["amount"] = frame["amount"].astype(float)
    folder = Path(tempfile.mkdtemp())

    def ask(sql: str) -> list[Any]:
        """Ask with the most rows of a user, which is the only bound that it knows."""
        described: dict[str, Any] = {
            "row_privacy": False,
            "max_ids": ROWS,
            "censor_dims": False,
            "clamp_counts": False,
            "user_id": {"type": "int", "private_id": True},
            "item": {"type": "int"},
            "kind": {"type": "int"},
            "amount": {"type": "float", "lower": 0, "upper": LARGEST},
        }
        metadata = folder / "metadata.yaml"
        metadata.write_text(yaml.safe_dump({"": {"made": {"events": described}}}))
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

    return version("smartnoise-sql"), {"top": top, "counts": counts, "sums": sums}
