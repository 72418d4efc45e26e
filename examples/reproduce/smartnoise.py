"""SmartNoise SQL on the same rows: a program for whichever Python has `smartnoise-sql` and `duckdb`.

    python smartnoise.py REQUEST.json ANSWER.json

SmartNoise rewrites each statement. DuckDB computes the exact aggregates of the rewritten one, once;
SmartNoise is given their rows as many times as there are runs (`execute(.., pre_aggregated=..)`), and draws
noise for each of them anew. Its random choice of a customer's rows is off, since DuckDB has no `ORDER BY
RANDOM()` in a window: the bound must leave nothing to choose. SmartNoise takes its epsilon for each number
that it measures, so a statement's epsilon is divided by how many there are.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any


def answers(asked: dict[str, Any]) -> dict[str, Any]:
    """Answer every statement so many times; of one that SmartNoise refuses, say why."""
    try:
        import duckdb  # noqa: PLC0415  that it is not there is an answer
        import snsql  # noqa: PLC0415
        import yaml  # noqa: PLC0415
    except ImportError as error:
        return {"missing": f"{sys.executable}: {error}"}

    connection = duckdb.connect()
    columns = ", ".join(f"CAST({c} AS DOUBLE) / {d['divided_by']} AS {c}" for c, d in asked["bounds"].items())
    keys = ", ".join(asked["keys"] + asked["dates"])
    connection.execute(
        f"CREATE VIEW {asked['table']} AS SELECT {asked['unit']}, {keys}, {columns} FROM '{asked['rows']}'"
    )
    with tempfile.TemporaryDirectory() as folder:
        metadata = Path(folder) / "metadata.yaml"
        metadata.write_text(yaml.safe_dump({"": {"main": {asked["table"]: _described(asked)}}}))

        def reader(epsilon: float) -> Any:  # noqa: ANN401  a class of a package that may not be there
            privacy = snsql.Privacy(epsilon=epsilon, delta=1e-9)
            return snsql.from_connection(
                connection, privacy=privacy, metadata=str(metadata), engine="postgres"
            )

        def run(sql: str) -> dict[str, Any]:
            try:
                measured = round(reader(1.0).get_privacy_cost(sql)[0])
                one = reader(asked["epsilon"] / measured)
                inner, _ = one._rewrite(sql)  # noqa: SLF001  the statement whose results `execute` takes
                found = connection.execute(one.reader.serializer.serialize(inner))
                names, exact = [c[0] for c in found.description or ()], found.fetchall()
                drawn = one.execute(sql, pre_aggregated=[names, *exact * asked["runs"]])[1:]
            except Exception as error:  # noqa: BLE001  what SmartNoise refuses it refuses in many classes
                return {"refused": str(error).partition("\n")[0]}
            plain, size = [list(map(_plain, row)) for row in drawn], len(exact)
            return {"measured": measured, "rows": [plain[i : i + size] for i in range(0, len(plain), size)]}

        found = {name: run(sql) for name, sql in asked["statements"].items()}
    return {"version": version("smartnoise-sql"), "answers": found}


def _described(asked: dict[str, Any]) -> dict[str, Any]:
    """Write the table's metadata; all groups are shown, as a known domain's are."""
    described: dict[str, Any] = {
        "row_privacy": False,
        "max_ids": asked["rows_per_unit"],
        "sample_max_ids": False,
        "censor_dims": False,
        "clamp_counts": False,
        "clamp_columns": True,
        asked["unit"]: {"type": "int", "private_id": True},
    }
    described |= {key: {"type": "string"} for key in asked["keys"]}
    described |= {key: {"type": "datetime"} for key in asked["dates"]}
    for column, bound in asked["bounds"].items():
        low, high = (bound[end] / bound["divided_by"] for end in ("low", "high"))
        described[column] = {"type": "float", "lower": low, "upper": high}
    return described


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, str) else float(value)  # type: ignore[arg-type]  # numbers


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    request, answer = map(Path, sys.argv[1:])
    answer.write_text(json.dumps(answers(json.loads(request.read_text()))))
