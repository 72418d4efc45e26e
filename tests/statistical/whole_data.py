"""Five sets of rows of units, each with the policy that `dpsql init` writes for it.

The clinic is the repository's, lines of orders are drawn as TPC-H's specification says, and three are files
of pairs of a unit and an item in a folder that the caller names. Their items get prices by their order, from
.50 to 100: most are low.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples"))

from reproduce.order_lines import order_lines  # noqa: E402 -- found by the line above

CUSTOMERS = 15_000
"""A third of them never orders, as in TPC-H."""

_PRICE = "CAST(0.5 * pow(200, pow(rank * 0.6180339887498949 % 1, 2)) AS DECIMAL(9, 2))"
_PRICED = f"""
SELECT p.*, q.price FROM '{{0}}' p
JOIN (SELECT item, {_PRICE} AS price
  FROM (SELECT item, row_number() OVER (ORDER BY item) AS rank FROM '{{0}}' GROUP BY item)) q USING (item)
"""
_REVENUE = """
SELECT l_custkey AS customer_id, l_custkey * 2654435761 % 4294967296 * 25 // 4294967296 AS nation,
  CAST(l_extendedprice * (1 - l_discount) AS DECIMAL(12, 2)) AS revenue, l_shipdate
FROM '{}'
"""


_LONG_AGO = 1_700_000_000


@dataclass(frozen=True)
class Whole:
    """One table of rows of units, and what is asked of all of them."""

    name: str
    unit: str
    total: str
    """The column whose values are added."""
    average: str
    largest: str
    """The key of the ten groups with most rows."""
    key: str
    """The key of all groups."""
    domains: tuple[str, ...] = ()
    """Public values, as options of `dpsql init`."""
    public: str = ""
    """What DuckDB makes the public table of: the name of its one column says what its values are."""
    file: str = ""
    """The name of the file of pairs."""
    bounds: str = "price = { from = 0, to = 100 }"
    """Bounds of values that an owner may declare."""
    source: str = field(default=_PRICED, repr=False)


CLINICS = (
    "Coast Road,Lighthouse,Dune Park,Bridge Street,Watermeadow,Ferry Lane,Market Square,Clock Tower,"
    "Abbey Gate,Lake View,Boathouse,Summit,Quarry Hill,Harbour Street,West Gate,Pine Ridge,"
    "Old Mill,Embankment,Orchard,Ferry Landing"
)

SETS = (
    Whole(
        "clinic",
        "patient_id",
        "cost",
        "minutes",
        "diagnosis_code",
        "clinic",
        (f"clinic={CLINICS}", "diagnosis_code=listed.value"),
        f"SELECT code AS value FROM '{ROOT}/data/diagnoses.parquet'",
        bounds="cost = { from = 0, to = 200 }\nminutes = { from = 1, to = 120 }",
        source="SELECT patient_id, visit_date, diagnosis_code, clinic, cost, minutes FROM "
        f"'{ROOT}/data/visits.parquet'",
    ),
    Whole(
        "gowalla", "user_id", "price", "price", "item", "item % 50", ("item=0..40980",), file="gowalla10core"
    ),
    Whole(
        "retail", "transaction_id", "price", "price", "item", "item % 50", ("item=0..16469",), file="retail"
    ),
    Whole(
        "msweb",
        "user_id",
        "price",
        "price",
        "item",
        "item",
        ("item=listed.value",),
        "SELECT DISTINCT item AS value FROM '{}'",
        file="msweb",
    ),
    Whole(
        "orders",
        "customer_id",
        "revenue",
        "revenue",
        "nation",
        "nation",
        ("nation=0..24",),
        source=_REVENUE,
        bounds="revenue = { from = 0, to = 105000 }",
    ),
)
"""Lines of orders are grouped by one key for both; their table is small and has few groups."""


def made(whole: Whole, folder: Path, data: Path | None, *, bounded: bool = False) -> Path | None:
    """Write the rows of a set and the policy for them into a new folder; None: its file is not there.

    The policy is that of `dpsql init`; if it is `bounded`, the owner declares bounds of values in it.
    """
    given = None
    if whole.file:
        given = None if data is None else data / f"{whole.file}.parquet"
        if given is None or not given.exists():
            return None
    elif whole.name == "orders":
        given = order_lines(None, folder / "lines.parquet", 1, CUSTOMERS).path
    rows, listed, policy = folder / "whole.parquet", folder / "listed.parquet", folder / "dpsql.toml"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({whole.source.format(given)}) TO '{rows}'")
        if whole.public:
            connection.execute(f"COPY ({whole.public.format(given)}) TO '{listed}'")
    for path in folder.glob("*.parquet"):  # a file that changed a moment ago has its counts not kept
        os.utime(path, (_LONG_AGO, _LONG_AGO))
    sources = [str(rows), *([str(listed)] if whole.public else [])]
    options = ["--unit", f"whole={whole.unit}", *(["--public", "listed"] if whole.public else [])]
    for domain in whole.domains:
        options += ["--domain", f"whole.{domain}"]
    written = [*options, "--epsilon", "10", "--default-epsilon", "0.25"]
    run_dpsql("-p", str(policy), "init", *sources, *written)
    if bounded:
        text = policy.read_text("utf-8")
        head = "[tables.whole.bounds]\n"
        assert text.count(head) == 1
        policy.write_text(text.replace(head, f"{head}{whole.bounds}\n"), "utf-8")
    return policy


def run_dpsql(*arguments: str) -> None:
    """Run a command of dpsql."""
    command = [sys.executable, "-m", "dpsql.cli", *arguments]
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
