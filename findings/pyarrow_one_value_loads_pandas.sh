#!/usr/bin/env bash
# pyarrow 26.0.1 with pandas 3.1.1: the first value that is converted to Arrow loads pandas, where it is installed.
#
# A guess: pa.scalar(3) or pa.array([1, 2]) has nothing to do with pandas, and takes microseconds. Seen: `import
# pyarrow` does not load pandas, but the first conversion of any Python or numpy value does, to see whether the
# value is one of pandas': some 400 modules, in more time than the import of pyarrow itself (.28 and .15 s of a
# processor, once). Tables that come from a buffer, from IPC or from an engine's own Arrow export load nothing;
# pa.Array.from_buffers is the way for numbers. A program that asks one question and ends is slower by that, and
# only in environments that have pandas.
#
# Output seen (modules differ by version; times by machine are not shown):
#   import pyarrow                    pandas not loaded
#   pa.scalar(3)                      pandas loaded
#   pa.array([1, 2])                  pandas loaded
#   pa.array(numpy.arange(2))         pandas loaded
#   pa.table({'a': [1]})              pandas loaded
#   pa.Array.from_buffers             pandas not loaded
#   pa.schema                         pandas not loaded
# Fails if that changes. Needs Python 3.11 or later and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder/site" pyarrow==26.0.1 pandas==3.1.1 numpy 2>/dev/null
cat >"$folder/one.py" <<'END'
import sys

import numpy
import pyarrow as pa

name, text = sys.argv[1:]
eval(text)
print(f"{name:33} pandas {'loaded' if 'pandas' in sys.modules else 'not loaded'}")
END
while IFS='|' read -r name text; do
  PYTHONPATH="$folder/site" python3 "$folder/one.py" "$name" "$text"
done <<'END' | tee "$folder/seen.txt"
import pyarrow|None
pa.scalar(3)|pa.scalar(3)
pa.array([1, 2])|pa.array([1, 2])
pa.array(numpy.arange(2))|pa.array(numpy.arange(2))
pa.table({'a': [1]})|pa.table({'a': [1]})
pa.Array.from_buffers|pa.Array.from_buffers(pa.int64(), 2, [None, pa.py_buffer(numpy.arange(2).tobytes())])
pa.schema|pa.schema([('a', pa.int64())])
END
for name in 'import pyarrow' 'pa.Array.from_buffers' 'pa.schema'; do
  grep -qF "$(printf '%-33s pandas not loaded' "$name")" "$folder/seen.txt"
done
for name in 'pa.scalar(3)' 'pa.array([1, 2])' 'pa.array(numpy.arange(2))' "pa.table({'a': [1]})"; do
  grep -qxF "$(printf '%-33s pandas loaded' "$name")" "$folder/seen.txt"
done
