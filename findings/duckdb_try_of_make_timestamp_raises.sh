#!/usr/bin/env bash
# DuckDB 2.0.0: TRY(make_timestamp(x)) raises for the least BIGINT, though TRY is to give NULL for what fails.
#
# TRY(expression) returns NULL where the expression fails on a row, so a guess is that it covers every function that
# is computed from a row's value. `make_timestamp` of microseconds out of range raises through it, for a column as for
# a constant; 2.0.1 returns a time outside of the range of TIMESTAMP instead (before 290309-12-22 BC). Whoever relies on
# TRY for a query that no row can make fail compares the number with the ends of the range first.
#
# Output seen:
#   duckdb 2.0.0
#   TRY of a cast that fails: [(None,)]
#   TRY(make_timestamp(x)) raises: Conversion Error: Date out of range in timestamp conversion
#   duckdb 2.0.1
#   TRY(make_timestamp(x)): 290309-12-21 (BC) 19:59:05.224192
#   with the range compared first: [(None,)]
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
for version in 2.0.0 2.0.1; do
  python3 -m venv "$place/$version"
  "$place/$version/bin/pip" install --quiet "duckdb==$version" 2>/dev/null
  "$place/$version/bin/python" - <<'PY'
import duckdb

print("duckdb", duckdb.__version__)
con = duckdb.connect()
least = "(SELECT CAST('-9223372036854775808' AS BIGINT) AS x)"
if duckdb.__version__ == "2.0.0":
    caught = con.execute("SELECT TRY(CAST(v AS BIGINT)) FROM (VALUES ('x')) t(v)").fetchall()
    print("TRY of a cast that fails:", caught)
    assert caught == [(None,)]
    try:
        con.execute(f"SELECT TRY(make_timestamp(x)) FROM {least}").fetchall()
    except duckdb.ConversionException as error:
        print("TRY(make_timestamp(x)) raises:", error)
    else:
        raise SystemExit("it does not raise any more")
else:
    ((found,),) = con.execute(f"SELECT TRY(make_timestamp(x))::VARCHAR FROM {least}").fetchall()
    print("TRY(make_timestamp(x)):", found)
    assert found == "290309-12-21 (BC) 19:59:05.224192", found
    inside = "x >= -9223372022400000000 AND x <= 9223372036854775806"
    guarded = con.execute(f"SELECT CASE WHEN {inside} THEN make_timestamp(x) END FROM {least}").fetchall()
    print("with the range compared first:", guarded)
    assert guarded == [(None,)]
PY
done
