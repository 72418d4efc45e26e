"""Writes customers.parquet and purchases.parquet from the CDNOW data that the package `lifetimes` ships.

    python examples/cases/shop/make_data.py FOLDER

A line of the file is a purchase: the customer, the day, how many CDs, and the dollars. Nothing is made up or
left out; the first purchase of a customer is computed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))
from public_packages import CDNOW, read_packaged_file

PURCHASES = """
SELECT CAST(words[1] AS INTEGER) AS customer_id, CAST(strptime(words[2], '%Y%m%d') AS DATE) AS day,
       CAST(words[3] AS INTEGER) AS cds, CAST(words[4] AS DECIMAL(8, 2)) AS dollars
FROM (SELECT string_split_regex(trim(line), ' +') AS words
      FROM read_csv('{file}', columns = {{'line': 'VARCHAR'}}, delim = '|', header = false, skip = 1))
ORDER BY ALL
"""
CUSTOMERS = (
    "SELECT customer_id, min(day) AS first_day FROM purchases GROUP BY customer_id ORDER BY customer_id"
)


def main(folder: Path) -> None:
    """Write both files into the folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as con, tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "purchases.txt"
        file.write_bytes(read_packaged_file(CDNOW))
        con.execute(f"CREATE TABLE purchases AS {PURCHASES.format(file=file)}")
        con.execute(f"COPY purchases TO '{folder / 'purchases.parquet'}'")
        con.execute(f"COPY ({CUSTOMERS}) TO '{folder / 'customers.parquet'}'")
        for table in ("customers", "purchases"):
            (rows,) = con.execute(f"SELECT COUNT(*) FROM '{folder / table}.parquet'").fetchone() or ()
            print(f"{table}.parquet: {rows:,} rows")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
