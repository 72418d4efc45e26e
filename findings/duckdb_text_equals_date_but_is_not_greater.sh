#!/usr/bin/env bash
# DuckDB 2.0.1: a column of texts is compared with a DATE by `=`, `<>` and IN, row by row through a cast, but not by
# `>` or BETWEEN, which are refused as types that do not go together.
#
# A guess: whether two types are compared depends on the types alone, so either all comparisons bind or none does; or
# the text is compared as a text. Seen: `k = DATE '2024-01-01'` casts each text to a DATE, and the first one that is
# none ends the query with a Conversion Error; `k > DATE '2024-01-01'` and BETWEEN are Binder Errors that ask for a
# cast, whatever the texts are. So a filter that works on one month's file ends with an error on another's.
# Fails if that changes. Needs Python 3.11 and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder/lib" duckdb==2.0.1 2>/dev/null
PYTHONPATH="$folder/lib" python3 - <<'END' | tee "$folder/out.txt"
import duckdb

DAY, DAYS, MORE = "DATE '2024-01-01'", "(VALUES ('2024-01-01'))", "(VALUES ('2024-01-01'), ('unknown'))"


def asked(condition, rows):
    try:
        return duckdb.sql(f"SELECT count(*) FROM {rows} t(k) WHERE {condition}").fetchall()[0][0]
    except duckdb.Error as error:
        return type(error).__name__


for form in (f"k = {DAY}", f"k IN ({DAY})", f"k > {DAY}", f"k BETWEEN {DAY} AND {DAY}"):
    print(form, "|", asked(form, DAYS), "|", asked(form, MORE))
END
grep -qxF "k = DATE '2024-01-01' | 1 | ConversionException" "$folder/out.txt"
grep -qxF "k IN (DATE '2024-01-01') | 1 | ConversionException" "$folder/out.txt"
grep -qxF "k > DATE '2024-01-01' | BinderException | BinderException" "$folder/out.txt"
grep -qxF "k BETWEEN DATE '2024-01-01' AND DATE '2024-01-01' | BinderException | BinderException" "$folder/out.txt"
