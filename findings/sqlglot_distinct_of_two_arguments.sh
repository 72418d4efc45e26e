#!/usr/bin/env bash
# sqlglot 30.30.0 with DuckDB 2.0.1: DISTINCT in an aggregate of two arguments does not survive from DuckDB's SQL to
# DuckDB's SQL.
#
# A guess: a statement that DuckDB runs, read and written in one dialect, is the same statement. Seen: DISTINCT is read
# as one argument that holds both. corr and covar_pop are not read at all (their second argument is missing), and
# of functions that sqlglot has no class for, such as regr_slope or arg_max_null, the two arguments are written as one
# row inside a CASE, which DuckDB does not bind. quantile_cont, max with a number and string_agg come through.
# Whoever rewrites trees takes the expressions out of the Distinct node and puts them behind it as arguments.
#
# Output seen:
#   regr_slope 0.3636 BinderException
#   arg_max_null 4 BinderException
#   corr 0.9342 ParseError
#   covar_pop 3.0 ParseError
#   quantile_cont 2.5 2.5
# Fails if that changes. Needs Python 3.11 or later and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder/site" duckdb==2.0.1 sqlglot==30.30.0 2>/dev/null
PYTHONPATH="$folder/site" python3 - <<'END' | tee "$folder/seen.txt"
import duckdb
import sqlglot

con = duckdb.connect()
con.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, 1), (2, 4), (3, 4), (4, 9), (1, 1)) AS t(a, b)")


def answer(text):
    value = con.execute(text).fetchall()[0][0]
    return round(value, 4) if isinstance(value, float) else value


for call in ("regr_slope(DISTINCT a, b)", "arg_max_null(DISTINCT a, b)", "corr(DISTINCT a, b)",
             "covar_pop(DISTINCT a, b)", "quantile_cont(DISTINCT a, 0.5)"):
    text = f"SELECT {call} FROM t"
    try:
        again = answer(sqlglot.transpile(text, read="duckdb", write="duckdb")[0])
    except (duckdb.Error, sqlglot.errors.SqlglotError) as error:
        again = type(error).__name__
    print(call.split("(")[0], answer(text), again)
END
grep -qx 'regr_slope 0.3636 BinderException' "$folder/seen.txt"
grep -qx 'arg_max_null 4 BinderException' "$folder/seen.txt"
grep -qx 'corr 0.9342 ParseError' "$folder/seen.txt"
grep -qx 'covar_pop 3.0 ParseError' "$folder/seen.txt"
grep -qx 'quantile_cont 2.5 2.5' "$folder/seen.txt"
