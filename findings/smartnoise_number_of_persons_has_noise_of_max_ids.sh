#!/usr/bin/env bash
# smartnoise-sql 1.0.10: COUNT(DISTINCT id) of the private identifier has noise for max_ids persons, though a person
# changes it by one.
#
# A guess: max_ids is how many rows of a person count, so it scales the noise of COUNT(*), and the number of persons has
# noise for one. Seen: get_simple_accuracy of the number of persons is max_ids times ln 20 at epsilon 1, as that of
# COUNT(*): 2.996 for max_ids = 1, 8.987 for 3, 59.9 for 20. COUNT(DISTINCT id) without GROUP BY is the same number with
# max_ids = 1, which is metadata of the table and not of the query: whoever asks both gives the table twice.
#
# Output seen:
#   1.0.10 max_ids 1 persons 2.996 rows 2.996
#   1.0.10 max_ids 3 persons 8.987 rows 8.987
#   1.0.10 max_ids 20 persons 59.915 rows 59.915
# Fails if that changes. Needs Python 3.11 to 3.13 and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check smartnoise-sql==1.0.10 2>/dev/null
"$folder/env/bin/python" -W ignore - <<'END' | tee "$folder/seen.txt"
from importlib.metadata import version

import pandas
import snsql

frame = pandas.DataFrame({"id": [i // 3 for i in range(3000)], "x": [1.0] * 3000})
for most in (1, 3, 20):
    columns = {"id": {"type": "int", "private_id": True}, "x": {"type": "float", "lower": 0.0, "upper": 1.0}}
    table = {"max_ids": most, "row_privacy": False, "censor_dims": False} | columns
    privacy = snsql.Privacy(epsilon=1.0, delta=1e-6, alphas=[0.05])
    reader = snsql.from_df(frame, privacy=privacy, metadata={"": {"made": {"t": table}}})
    persons, rows = (
        reader.get_simple_accuracy(f"SELECT {count} AS n FROM made.t", 0.05)[-1] for count in ("COUNT(DISTINCT id)", "COUNT(*)")
    )
    print(version("smartnoise-sql"), "max_ids", most, f"persons {persons:.3f} rows {rows:.3f}")
END
grep -qx '1.0.10 max_ids 1 persons 2.996 rows 2.996' "$folder/seen.txt"
grep -qx '1.0.10 max_ids 3 persons 8.987 rows 8.987' "$folder/seen.txt"
grep -qx '1.0.10 max_ids 20 persons 59.915 rows 59.915' "$folder/seen.txt"
