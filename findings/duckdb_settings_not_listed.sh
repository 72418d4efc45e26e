#!/usr/bin/env bash
# DuckDB 2.0.1, Python package: settings that exist are not all in duckdb_settings().
#
# A guess: a program that compares duckdb_settings() before and after an update sees every setting that gives
# values their meaning. Seen: error_on_division_by_zero and regex_match_operator_semantics are listed by 2.0.0
# and not by 2.0.1, where SET still takes them, current_setting() still returns them, and the first still decides
# whether 1 // 0 raises.
# Fails if that changes. Needs Python 3.11 or later and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder/new" duckdb==2.0.1 2>/dev/null
python3 -m pip install --quiet --disable-pip-version-check --target "$folder/old" duckdb==2.0.0 2>/dev/null
for place in old new; do
  PYTHONPATH="$folder/$place" python3 - <<'END' | tee "$folder/$place.txt"
import duckdb

con = duckdb.connect()
names = ("error_on_division_by_zero", "regex_match_operator_semantics")
listed = {name for (name,) in con.execute("SELECT name FROM duckdb_settings()").fetchall()}
con.execute("SET error_on_division_by_zero = false")
value = con.execute("SELECT current_setting('error_on_division_by_zero'), 1 // 0").fetchall()[0]
print(duckdb.__version__, [name in listed for name in names], value)
END
done
grep -qx '2.0.0 \[True, True\] (False, None)' "$folder/old.txt"
grep -qx '2.0.1 \[False, False\] (False, None)' "$folder/new.txt"
