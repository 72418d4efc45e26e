#!/usr/bin/env bash
# OpenDP 0.16.0, Python package with Polars 1.36.1: truncate_num_groups(k, by=[..]) keeps k - 1 groups of each
# identifier, and its default, keep="sample", cannot be released.
#
# A guess: "the number of groups to keep for each identifier" is k, and a query that summarize() accepts, with its
# noise, can be collected. Seen: 1,000 identifiers in four groups each; with keep="first", k = 1 leaves no group at
# all, k = 4 three of four, k = 5 all four, since ranks from 1 on are compared by "less than". The noise is that of k
# groups, so this costs accuracy, not privacy. With keep="sample" summarize() answers, and release().collect() fails
# on a column name that is there twice. Whoever wants k groups asks for k + 1 with keep="first", at the noise of k + 1.
#
# Output seen:
#   0.16.0 first 1 [False, False, False, False]
#   0.16.0 first 4 [True, True, True, False]
#   0.16.0 first 5 [True, True, True, True]
#   0.16.0 sample 4 summarized, then OpenDPException: multiple fields with name 'kind' found
# Fails if that changes. Needs Python 3.11 or later and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder/lib" \
  "opendp[polars]==0.16.0" polars==1.36.1 2>/dev/null
PYTHONPATH="$folder/lib" python3 -W ignore - <<'END' | tee "$folder/seen.txt"
from importlib.metadata import version

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")
kinds = [f"k{k}" for k in range(4)]
data = pl.DataFrame({"unit": [u for u in range(1000) for _ in kinds], "kind": kinds * 1000}).lazy()


def query(k: int, keep: str):
    context = dp.Context.compositor(
        data=data,
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("unit")),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
    )
    limited = context.query().truncate_per_group(1, by=["kind"]).truncate_num_groups(k, by=["kind"], keep=keep)
    return limited.group_by("kind").agg(dp.len(signed=True)).with_keys(pl.LazyFrame({"kind": kinds}))


for k in (1, 4, 5):
    found = query(k, "first").release().collect().sort("kind")
    print(version("opendp"), "first", k, [count > 500 for count in found["len"]])
asked = query(4, "sample")
asked.summarize()
try:
    asked.release().collect()
except dp.OpenDPException as error:
    text = "multiple fields with name 'kind' found"
    print(version("opendp"), "sample 4 summarized, then OpenDPException:", text if text in str(error) else error)
END
grep -qx '0.16.0 first 1 \[False, False, False, False\]' "$folder/seen.txt"
grep -qx '0.16.0 first 4 \[True, True, True, False\]' "$folder/seen.txt"
grep -qx '0.16.0 first 5 \[True, True, True, True\]' "$folder/seen.txt"
grep -qx "0.16.0 sample 4 summarized, then OpenDPException: multiple fields with name 'kind' found" "$folder/seen.txt"
