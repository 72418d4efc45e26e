#!/usr/bin/env bash
# smartnoise-sql 1.0.10: whether a SUM is answered depends on the unit in which its column is written.
#
# A guess: noise is scaled to the bounds of a column, so salaries up to 20,000,000 are summed like the same salaries in
# thousands, with the same relative noise. Seen: where (upper - lower) * max_ids / epsilon is above 10,000,000, both price
# and answer are refused (ValueError: Noise scale is too large), however large the sum is. Whoever has amounts in cents, bytes or a currency of large numbers divides the column first.
#
# Output seen:
#   1.0.10 bound 20000000 refused: Noise scale is too large
#   1.0.10 bound 20000 answered
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

SUM = "SELECT SUM(salary) AS n FROM made.t"
for high in (20_000_000, 20_000):
    frame = pandas.DataFrame({"id": range(2000), "salary": [0.1 * high] * 2000})
    columns = {
        "id": {"type": "int", "private_id": True},
        "salary": {"type": "float", "lower": 0.0, "upper": float(high)},
    }
    table = {"max_ids": 1, "row_privacy": False, "censor_dims": False} | columns
    privacy = snsql.Privacy(epsilon=1.0, delta=1e-6, alphas=[0.05])
    reader = snsql.from_df(frame, privacy=privacy, metadata={"": {"made": {"t": table}}})
    try:
        reader.execute(SUM)
        said = "answered"
    except ValueError as error:
        said = f"refused: {str(error)[:24]}"
    print(version("smartnoise-sql"), "bound", high, said)
END
grep -qx '1.0.10 bound 20000000 refused: Noise scale is too large' "$folder/seen.txt"
grep -qx '1.0.10 bound 20000 answered' "$folder/seen.txt"
