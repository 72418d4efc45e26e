#!/usr/bin/env bash
# DuckDB 2.0.1, Python package: PARTITION BY and ORDER BY of a window take no subquery that has a window inside,
# at whatever depth, though the subquery is a scope of its own.
#
# A guess: "window functions are not allowed in window definitions" concerns windows of the same SELECT. Seen:
# the same scalar subquery is taken as an argument of the window function, in the SELECT list beside it, and under
# a name of a derived table; in PARTITION BY or ORDER BY it is a parser error, also where the inner window stands
# in a derived table of the subquery.
# Fails if that changes. Needs Python 3.11 or later and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder/new" duckdb==2.0.1 2>/dev/null
PYTHONPATH="$folder/new" python3 - <<'END' | tee "$folder/seen.txt"
import duckdb

con = duckdb.connect()
con.execute("CREATE TABLE t AS SELECT 1 AS a UNION ALL SELECT 2")
inner = "(SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY a) AS r FROM t) AS s)"
for name, sql in {
    "argument": f"SELECT sum({inner}) OVER (PARTITION BY a) FROM t",
    "derived table": f"SELECT count(*) OVER (PARTITION BY x) FROM (SELECT {inner} AS x FROM t) AS q",
    "PARTITION BY": f"SELECT count(*) OVER (PARTITION BY {inner}) FROM t",
    "ORDER BY": f"SELECT count(*) OVER (ORDER BY {inner}) FROM t",
}.items():
    try:
        print(name, con.execute(sql).fetchall())
    except duckdb.ParserException as error:
        print(name, str(error).splitlines()[0])
END
grep -qx 'argument \[(2,), (2,)\]' "$folder/seen.txt"
grep -qx 'derived table \[(2,), (2,)\]' "$folder/seen.txt"
grep -qx 'PARTITION BY Parser Error: window functions are not allowed in window definitions' "$folder/seen.txt"
grep -qx 'ORDER BY Parser Error: window functions are not allowed in window definitions' "$folder/seen.txt"
