#!/usr/bin/env bash
# DuckDB 2.0.1, Python package: a type made by CREATE TYPE name AS base is not known by its name afterwards.
#
# A guess: CREATE TYPE regclass AS UINTEGER lets the binder follow the types of another system, since DESCRIBE and
# typeof() tell `regclass` for a column, a cast, and what is derived from them. Seen: every one of them tells
# UINTEGER, even DESCRIBE of the table that was declared with the name; only an ENUM and a STRUCT are told from
# their base, by their content. Types that differ in their names alone have to be followed outside of DuckDB.
# Fails if that changes. Needs Python 3.11 or later and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" duckdb==2.0.1 2>/dev/null
PYTHONPATH="$folder" python3 - <<'END' | tee "$folder/told.txt"
import duckdb

con = duckdb.connect()
con.execute("CREATE TYPE regclass AS UINTEGER")
con.execute("CREATE TABLE t(c regclass)")
con.execute("INSERT INTO t VALUES (1)")
print(con.execute("DESCRIBE t").fetchall()[0][1])
print(con.execute("SELECT data_type FROM duckdb_columns() WHERE table_name = 't'").fetchall()[0][0])
print(con.execute("DESCRIBE SELECT CAST(1 AS regclass) AS x").fetchall()[0][1])
print(con.execute("SELECT typeof(c) FROM t").fetchall()[0][0])
END
grep -cx UINTEGER "$folder/told.txt" | grep -qx 4
