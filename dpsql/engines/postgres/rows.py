"""Public rows as a part of a statement: nothing is written on the server, so a read-only role suffices."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dpsql.engines.postgres.dialect import PostgresDialect
from dpsql.engines.postgres.forms import string_literal
from dpsql.engines.writer import PublicRelation, Translated
from dpsql.engines.writer.value import type_family


def executable_sql(statement: Translated, dialect: PostgresDialect) -> str:
    """Return a statement's SQL with its public rows."""
    return _with(
        statement, [_relation(p, dialect, [_array(c) for c in p.rows.columns]) for p in statement.public]
    )


def display_sql(statement: Translated, dialect: PostgresDialect) -> str:
    """Return a statement's SQL for display: with the number of public rows, not with the rows."""
    parts = [f"({p.rows.num_rows} public rows: {p.sql})" for p in statement.public]
    return _with(statement, parts)


def _with(statement: Translated, parts: list[str]) -> str:
    if not parts:
        return statement.sql
    named = ", ".join(f'"{p.name}" AS {part}' for p, part in zip(statement.public, parts, strict=True))
    return f"WITH {named} {statement.sql}"


def _relation(public: PublicRelation, dialect: PostgresDialect, arrays: list[str]) -> str:
    listed, cells, names = [], [], []
    for i, (column, array) in enumerate(zip(public.columns, arrays, strict=True)):
        letter = type_family(column.type)
        array_type = "text" if letter == "0" else dialect.type_name(column.type)
        listed.append(f"CAST({array} AS {array_type}[])")
        cells.append(f"r.c{i}{' COLLATE ' + chr(34) + 'C' + chr(34) if letter == 'S' else ''} AS c{i}")
        names.append(f"c{i}")
    return f"(SELECT {', '.join(cells)} FROM unnest({', '.join(listed)}) AS r({', '.join(names)}))"


def _array(column: pa.ChunkedArray) -> str:
    """Write a column as the text literal of an array."""
    array = column.combine_chunks()
    if pa.types.is_null(array.type):
        array = pa.nulls(len(array), pa.string())
    cells = array if pa.types.is_string(array.type) else array.cast(pa.string())
    cells = pc.replace_substring(pc.replace_substring(cells, "\\", "\\\\"), '"', '\\"')
    cells = pc.binary_join_element_wise('"', cells, '"', "")
    cells = pc.fill_null(cells, "NULL")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(cells)], pa.int32()), cells), ",")
    return string_literal("{" + (joined[0].as_py() or "") + "}")


def storage_types(found: pa.Table) -> pa.Table:
    """Convert the driver's extension types (NUMERIC, UUID) to texts."""
    columns = []
    for column in found.columns:
        array = column.combine_chunks()
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
            if pa.types.is_fixed_size_binary(array.type):
                array = pa.array([None if v is None else v.hex() for v in array.to_pylist()], pa.string())
        columns.append(array)
    return pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
