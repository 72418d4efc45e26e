"""Public rows as a table of Arrow, from which Spark makes a view."""

from __future__ import annotations

import pyarrow as pa

from dpsql.engines.writer import PublicRelation
from dpsql.engines.writer.value import type_family

_ARROW = {"I": pa.int64(), "B": pa.decimal128(38, 0), "0": pa.string(), "S": pa.string()}


def arrow_rows(public: PublicRelation) -> pa.Table:
    """Return public rows with the Arrow types of Spark's columns."""
    arrays = [
        column.cast(_ARROW.get(type_family(target.type), column.type)).combine_chunks()
        for column, target in zip(public.rows.columns, public.columns, strict=True)
    ]
    return pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])
