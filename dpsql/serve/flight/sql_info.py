"""What Flight SQL's clients ask about the server: what it supports, and the types of its columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

_VALUE = pa.dense_union([
    pa.field("string_value", pa.string()),
    pa.field("bool_value", pa.bool_()),
    pa.field("bigint_value", pa.int64()),
    pa.field("int32_bitmask", pa.int32()),
    pa.field("string_list", pa.list_(pa.string())),
    pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
])  # fmt: skip
INFO = pa.schema(
    [pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", _VALUE, nullable=False)]
)
_TEXT, _FLAG, _NUMBER, _MASK = range(4)

_NO_TRANSACTIONS = 0
_CASE_INSENSITIVE = 1


def info(version: str, timeout: int, asked: Sequence[int] = ()) -> pa.Table:
    """Return what the server supports, or what of it is asked for; `timeout` is that of a statement."""
    known: dict[int, tuple[int, object]] = {
        0: (_TEXT, "dpsql"),
        1: (_TEXT, version),
        2: (_TEXT, pa.__version__),
        3: (_FLAG, True),  # read only
        4: (_FLAG, True),  # SQL
        5: (_FLAG, False),  # Substrait
        8: (_MASK, _NO_TRANSACTIONS),
        9: (_FLAG, True),  # cancelling
        10: (_FLAG, False),  # ingestion
        100: (_MASK, timeout * 1000),
        500: (_FLAG, False),  # creating and dropping catalogs, schemas, tables
        501: (_FLAG, False),
        502: (_FLAG, False),
        503: (_NUMBER, _CASE_INSENSITIVE),
        504: (_TEXT, '"'),
        505: (_NUMBER, _CASE_INSENSITIVE),
        506: (_FLAG, False),  # not every table may be selected from without more ado
        526: (_FLAG, True),  # ORDER BY columns that are not selected
    }
    names = [name for name in (asked or known) if name in known]
    columns: list[list[object]] = [[] for _ in _VALUE]
    kinds, offsets = [], []
    for name in names:
        kind, value = known[name]
        kinds.append(kind)
        offsets.append(len(columns[kind]))
        columns[kind].append(value)
    children = [pa.array(values, _VALUE.field(place).type) for place, values in enumerate(columns)]
    value = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(offsets, pa.int32()),
        children,
        [_VALUE.field(place).name for place in range(_VALUE.num_fields)],
    )
    return pa.Table.from_arrays([pa.array(names, pa.uint32()), value], schema=INFO)


TYPES = pa.schema([
    pa.field("type_name", pa.string(), nullable=False),
    pa.field("data_type", pa.int32(), nullable=False),
    pa.field("column_size", pa.int32()),
    pa.field("literal_prefix", pa.string()),
    pa.field("literal_suffix", pa.string()),
    pa.field("create_params", pa.list_(pa.field("item", pa.string(), nullable=False))),
    pa.field("nullable", pa.int32(), nullable=False),
    pa.field("case_sensitive", pa.bool_(), nullable=False),
    pa.field("searchable", pa.int32(), nullable=False),
    pa.field("unsigned_attribute", pa.bool_()),
    pa.field("fixed_prec_scale", pa.bool_(), nullable=False),
    pa.field("auto_increment", pa.bool_()),
    pa.field("local_type_name", pa.string()),
    pa.field("minimum_scale", pa.int32()),
    pa.field("maximum_scale", pa.int32()),
    pa.field("sql_data_type", pa.int32(), nullable=False),
    pa.field("datetime_subcode", pa.int32()),
    pa.field("num_prec_radix", pa.int32()),
    pa.field("interval_precision", pa.int32()),
])  # fmt: skip
_KNOWN: tuple[tuple[str, int, int | None, str | None], ...] = (
    ("BOOLEAN", -7, 1, None),
    ("SMALLINT", 5, 5, None),
    ("INTEGER", 4, 10, None),
    ("BIGINT", -5, 19, None),
    ("DOUBLE", 8, 15, None),
    ("DECIMAL", 3, 38, None),
    ("VARCHAR", 12, None, "'"),
    ("BLOB", -4, None, "'"),
    ("DATE", 91, 10, "DATE '"),
    ("TIME", 92, 15, "TIME '"),
    ("TIMESTAMP", 93, 26, "TIMESTAMP '"),
)
"""Types: name, number of XDBC, size, what a literal begins with."""
_NULLABLE, _SEARCHABLE = 1, 3


def types(asked: int | None = None) -> pa.Table:
    """Return the types of columns, or the one of a number."""
    rows = [
        {
            "type_name": name,
            "data_type": number,
            "column_size": size,
            "literal_prefix": prefix,
            "literal_suffix": None if prefix is None else "'",
            "nullable": _NULLABLE,
            "case_sensitive": name == "VARCHAR",
            "searchable": _SEARCHABLE,
            "fixed_prec_scale": False,
            "sql_data_type": number,
        }
        for name, number, size, prefix in _KNOWN
        if asked is None or asked == number
    ]
    return pa.Table.from_pylist(rows, schema=TYPES)
