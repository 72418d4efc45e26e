#!/usr/bin/env bash
# DuckDB 2.0.1 reads the text '5/1/13' as the 13th of January of the year 5, and refuses '5/1/2013'.
#
# A guess: the only form of a DATE is YYYY-MM-DD, as its own error message says, so that both texts are refused (or,
# with two digits of a year, that both are days of 2013). Seen: the first number is taken as a year however short it
# is, with `/` as well as `-`; TRY_CAST gives the year 5, too, so a load that counts the NULLs of TRY_CAST finds none.
# Fails if that changes. Needs Python 3.11 and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder/lib" duckdb==2.0.1 2>/dev/null
PYTHONPATH="$folder/lib" python3 - <<'END' | tee "$folder/out.txt"
import duckdb

for text in ("5/1/13", "5-1-13", "5/1/2013"):
    print(text, duckdb.sql(f"SELECT TRY_CAST('{text}' AS DATE)").fetchall()[0][0])
try:
    duckdb.sql("SELECT DATE '5/1/2013'").fetchall()
except duckdb.ConversionException as error:
    print("expected format is (YYYY-MM-DD)" in str(error))
END
grep -qxF "5/1/13 0005-01-13" "$folder/out.txt"
grep -qxF "5-1-13 0005-01-13" "$folder/out.txt"
grep -qxF "5/1/2013 None" "$folder/out.txt"
grep -qxF "True" "$folder/out.txt"
