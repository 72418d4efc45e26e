#!/usr/bin/env bash
# DuckDB 2.0.0 and 2.0.1, Python package: between two patch releases levenshtein() and its like changed from bytes
# to characters, and hamming() of texts of one length in characters from NULL (an error) to a number.
#
# A guess: a patch release gives the same results, so what was computed with one may be compared with the other.
# Seen: levenshtein(' ', 'é') is 2 in 2.0.0 and 1 in 2.0.1; hamming(' ', 'é') fails and is 1.
# Fails if that changes. Needs Python 3.11 or later and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
for version in 2.0.0 2.0.1; do
  python3 -m pip install --quiet --disable-pip-version-check --target "$folder/$version" "duckdb==$version" 2>/dev/null
  PYTHONPATH="$folder/$version" python3 - <<'END' | tee "$folder/$version.txt"
import duckdb

found = [duckdb.__version__]
for call in ("levenshtein('e', 'é')", "damerau_levenshtein('naive', 'naïve')", "hamming('e', 'é')"):
    found.append(duckdb.sql(f"SELECT TRY({call})").fetchall()[0][0])
print(*found)
END
done
grep -qx '2.0.0 2 2 None' "$folder/2.0.0.txt" && grep -qx '2.0.1 1 1 1' "$folder/2.0.1.txt"
