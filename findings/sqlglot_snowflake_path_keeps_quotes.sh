#!/usr/bin/env bash
# sqlglot 30.30.0 with DuckDB 2.0.1: Snowflake's `event:kind::string` becomes a text with the quotes of JSON around it.
#
# A guess: the usual way to read a text of a VARIANT column in Snowflake, a path with `::string`, is translated to
# DuckDB's `->>`, or to what gives the same text. Seen: it becomes CAST(event -> '$.kind' AS TEXT), and a cast of JSON
# to TEXT is its source: '"click"', with quotes. So `= 'click'` is true for no row and groups are named '"click"'.
# A number is right either way, which hides it. No error and no warning, with `unsupported_level=RAISE` too.
# Fails if that changes. Needs Python 3.11 and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" sqlglot==30.30.0 duckdb==2.0.1 2>/dev/null
PYTHONPATH="$folder" python3 - <<'END' | tee "$folder/out.txt"
import duckdb
import sqlglot

duckdb.sql("""CREATE TABLE log AS SELECT '{"kind": "click", "size": 7}'::JSON AS event""")
for value in ("event:kind::string", "event:kind::varchar = 'click'", "event:size::int"):
    written = sqlglot.transpile(
        f"SELECT {value} FROM log", read="snowflake", write="duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE
    )[0]
    print(written, "gives", duckdb.sql(written).fetchall()[0][0])
END
diff - "$folder/out.txt" <<'END'
SELECT CAST(event -> '$.kind' AS TEXT) FROM log gives "click"
SELECT CAST(event -> '$.kind' AS TEXT) = 'click' FROM log gives False
SELECT CAST(event -> '$.size' AS INT) FROM log gives 7
END
