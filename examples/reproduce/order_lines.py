"""Lines of orders as TPC-H has them, with the customer in each row: the benchmark's own, or made ones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

__all__ = ["COLUMNS", "OrderLines", "order_lines"]

COLUMNS = "l_returnflag, l_linestatus, l_quantity, l_extendedprice, l_discount, l_tax, l_shipdate"

_FIRST_ORDER, _LAST_ORDER = date(1992, 1, 1), date(1998, 8, 2)
_NOW = date(1995, 6, 17)
"""What TPC-H takes for the current date: it decides what was returned and what is still open."""

_MADE = f"""
SELECT customer AS l_custkey,
  CASE WHEN receipt > DATE '{_NOW}' THEN 'N' WHEN returned THEN 'R' ELSE 'A' END AS l_returnflag,
  CASE WHEN ship > DATE '{_NOW}' THEN 'O' ELSE 'F' END AS l_linestatus,
  CAST(quantity AS DECIMAL(15, 2)) AS l_quantity,
  CAST(quantity * (90000 + part // 10 % 20001 + 100 * (part % 1000)) / 100 AS DECIMAL(15, 2))
    AS l_extendedprice,
  CAST(discount / 100 AS DECIMAL(15, 2)) AS l_discount,
  CAST(tax / 100 AS DECIMAL(15, 2)) AS l_tax,
  ship AS l_shipdate
FROM (SELECT *, DATE '{_FIRST_ORDER}' + CAST(shipped AS INTEGER) AS ship,
  DATE '{_FIRST_ORDER}' + CAST(received AS INTEGER) AS receipt FROM made)
"""


@dataclass(frozen=True, slots=True)
class OrderLines:
    """One Parquet file of order lines; the privacy unit is the customer, `l_custkey`."""

    path: Path
    role: str
    rows: int
    customers: int
    """Those who have lines."""
    most: int
    """Lines of the customer who has most."""


def order_lines(data: Path | None, path: Path, seed: int, customers: int = 8000) -> OrderLines:
    """Write the lines of `lineitem.parquet` with their orders' customers, or make some, and look at them."""
    with duckdb.connect() as connection:
        files = [] if data is None else [data / f"{name}.parquet" for name in ("lineitem", "orders")]
        if files and all(file.exists() for file in files):
            role = "TPC-H's lineitem with the customers of its orders"
            connection.execute(
                f"COPY (SELECT o_custkey AS l_custkey, {COLUMNS} FROM '{files[0]}' JOIN '{files[1]}' "
                f"ON l_orderkey = o_orderkey) TO '{path}'"
            )
        else:
            role = "made on the spot; stands in for TPC-H's lineitem, whose distributions it has"
            connection.register("made", _draws(seed, customers))
            connection.execute(f"COPY ({_MADE}) TO '{path}'")
        per_customer = f"SELECT COUNT(*) AS n FROM '{path}' GROUP BY l_custkey"
        looked = f"SELECT CAST(SUM(n) AS BIGINT), COUNT(*), MAX(n) FROM ({per_customer})"
        (found,) = connection.sql(looked).fetchall()
    return OrderLines(path, role, *found)


def _draws(seed: int, customers: int) -> pa.Table:
    """Draw the lines as TPC-H's specification says: a third of the customers never orders."""
    rng = np.random.default_rng(seed)
    orders = 10 * customers
    buyers = np.arange(1, customers + 1)
    buyers = buyers[buyers % 3 > 0]
    days = (_LAST_ORDER - _FIRST_ORDER).days
    lines = rng.integers(1, 8, orders)
    order = np.repeat(np.arange(orders), lines)
    rows = len(order)
    shipped = rng.integers(0, days + 1, orders)[order] + rng.integers(1, 122, rows)
    return pa.table(
        {
            "customer": rng.choice(buyers, orders)[order],
            "part": rng.integers(1, 200_001, rows),
            "quantity": rng.integers(1, 51, rows),
            "discount": rng.integers(0, 11, rows),
            "tax": rng.integers(0, 9, rows),
            "shipped": shipped,
            "received": shipped + rng.integers(1, 31, rows),
            "returned": rng.random(rows) < 0.5,
        }
    )
