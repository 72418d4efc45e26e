#!/usr/bin/env bash
# DuckDB 2.0.1: bitstring_agg over a range of ids that is one longer takes nearly twice as long for the same rows.
#
# A guess: a bit is set for each row, so the time depends on rows and hardly on the ends of the range; one id
# more adds one bit. Seen for 4,000,000 rows of 1,000,000 ids in one thread, processor time, the least of 7 runs:
# 0.029 s for a range of 1,000,000 ids, 0.055 for 1,000,001, 0.045 for 1,000,004, 0.040 for 1,000,007, and 0.029
# again for 1,000,008. A range of whole bytes is fast, and 7 of 8 ranges are not.
# Fails if 1,000,001 ids take less than 1.3 times as long as 1,000,008. Needs Python 3.11 and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" duckdb==2.0.1 2>/dev/null
PYTHONPATH="$folder" python3 - <<'END'
import time

import duckdb

made = duckdb.connect()
made.execute("SET threads = 1")
made.execute("CREATE TABLE t AS SELECT (hash(range) % 1000000)::BIGINT AS id FROM range(4000000)")


def least(ids):
    query = f"SELECT bit_count(bitstring_agg(id, 0, {ids - 1})) FROM t"
    found = []
    for _ in range(8):
        begin = time.process_time()
        made.execute(query).fetchall()
        found.append(time.process_time() - begin)
    return min(found[1:])


times = {ids: least(ids) for ids in (1000000, 1000001, 1000004, 1000007, 1000008)}
print(duckdb.__version__, {ids: round(each, 3) for ids, each in times.items()})
assert times[1000001] > 1.3 * times[1000008], times
END
