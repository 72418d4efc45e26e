#!/usr/bin/env bash
# DuckDB 2.0.1, Python package: TRY_CAST of a CSV column that is read as text can raise.
#
# A guess: TRY_CAST gives NULL for what it cannot convert, and with all_varchar = true the reader converts nothing.
# Seen: where a column is selected by TRY_CAST alone, the optimizer (type_pushdown) gives the cast's type to the
# reader, which converts strictly: ConversionException. With a WHERE over the text, or with the optimizer off, the
# same TRY_CAST gives NULL. So whether a text is NULL or an error depends on what else is in the statement.
# Fails if that changes. Needs Python 3.11 or later and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder/packages" duckdb==2.0.1 2>/dev/null
cd -- "$folder"
printf 'ms\n5\nx\n7\n' >v.csv
PYTHONPATH="$folder/packages" python3 - <<'END' | tee "$folder/seen.txt"
import duckdb

con = duckdb.connect()
text = "SELECT TRY_CAST(ms AS INTEGER) AS ms FROM read_csv('v.csv', all_varchar = true)"


def asked(sql: str) -> object:
    try:
        return con.execute(sql).fetchall()
    except duckdb.ConversionException as error:
        return type(error).__name__


print(duckdb.__version__, "alone", asked(text))
print(duckdb.__version__, "with WHERE", asked(f"{text} WHERE ms IS NOT NULL"))
con.execute("SET disabled_optimizers = 'type_pushdown'")
print(duckdb.__version__, "optimizer off", asked(text))
END
grep -qx '2.0.1 alone ConversionException' seen.txt
grep -qx '2.0.1 with WHERE \[(5,), (None,), (7,)\]' seen.txt
grep -qx '2.0.1 optimizer off \[(5,), (None,), (7,)\]' seen.txt
