#!/usr/bin/env bash
# sqlglot 30.30.0 with DuckDB 2.0.1: PostgreSQL's TO_CHAR(d, 'Day') becomes STRFTIME(d, '%uay'), which is the text '1ay'.
#
# A guess: a transpiler that translates formats of dates knows the patterns for names of days and months, which
# reports group by, or leaves alone what it does not know. Seen: of 'Day' and 'Dy' the first letter is read as the
# pattern D, the number of the day of the week, and the rest is copied: each Monday is '1ay'. 'Month' and 'Mon' are
# copied whole, so every date is in one group, 'Month'. 'DD' and 'YYYY' in the same format are translated. No error
# and no warning: sqlglot's `unsupported_level=RAISE` changes nothing.
# Fails if that changes. Needs Python 3.11 and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" sqlglot==30.30.0 duckdb==2.0.1 2>/dev/null
PYTHONPATH="$folder" python3 - <<'END' | tee "$folder/out.txt"
import duckdb
import sqlglot

for pattern in ("Day", "Dy", "Month", "DD Mon YYYY", "YYYY-MM-DD"):
    asked = f"SELECT TO_CHAR(DATE '2024-03-04', '{pattern}')"
    written = sqlglot.transpile(
        asked, read="postgres", write="duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE
    )[0]
    print(f"{pattern}: {duckdb.sql(written).fetchall()[0][0]}")
END
diff - "$folder/out.txt" <<'END'
Day: 1ay
Dy: 1y
Month: Month
DD Mon YYYY: 04 Mon 2024
YYYY-MM-DD: 2024-03-04
END
