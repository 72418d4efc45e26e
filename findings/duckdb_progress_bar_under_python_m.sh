#!/usr/bin/env bash
# DuckDB 2.0.1, Python package: whether it draws a progress bar depends on which module imports it first.
#
# A guess: the bar is for interactive sessions, and a script whose output goes into a pipe never has one. Seen:
# the package looks for `__file__` of the main module when it is imported. Under `python -m package.module` the
# package is imported before the main module has one, so if the package's own __init__ imports duckdb, every
# connection of the process has enable_progress_bar = true, and a query of more than two seconds writes the bar
# into standard output, in front of what the program prints. The same module as a script has no bar.
# Fails if that changes. Needs Python 3.11 or later and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder/site" duckdb==2.0.1 2>/dev/null
mkdir -p "$folder/early" "$folder/late"
echo 'import duckdb' > "$folder/early/__init__.py"
: > "$folder/late/__init__.py"
cat > "$folder/early/report.py" <<'END'
import duckdb

print(duckdb.connect().execute("SELECT current_setting('enable_progress_bar')").fetchall()[0][0])
END
cp "$folder/early/report.py" "$folder/late/report.py"
cd "$folder"
export PYTHONPATH="$folder/site"
for call in "-m early.report" "-m late.report" "early/report.py"; do
  # shellcheck disable=SC2086  two words
  echo "python $call: $(python3 $call)"
done | tee seen.txt
# The bar itself, in a pipe: all it takes is a query that runs longer than progress_bar_time (2 seconds).
cat > early/slow.py <<'END'
import duckdb

con = duckdb.connect()
con.execute("SET threads = 1")
query = "SELECT count(*) FROM range({}) a, range(60000) b WHERE (a.range * b.range) % 7 = 3"
con.execute(query.format(20_000)).fetchall()
print("the answer")
END
python3 -m early.slow | tr '\r' '\n' | grep -c '%' > bars.txt || true
echo "lines of a bar in the pipe: $(cat bars.txt)"
grep -qx 'python -m early.report: True' seen.txt
grep -qx 'python -m late.report: False' seen.txt
grep -qx 'python early/report.py: False' seen.txt
test "$(cat bars.txt)" -gt 0
