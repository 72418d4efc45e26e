"""Values on the wire: PostgreSQL's types, and their text and binary formats.

``oids`` says which type a column has; ``encoding`` encodes whole columns, with ``numbers`` and ``datetimes``
for what PostgreSQL writes in a way of its own; ``rows`` joins columns to messages; ``parameters``, with
``parameter_text``, decodes what a client binds.
"""

from dpsql.serve.wire.types.oids import (
    ParameterError,
    ProtocolError,
    UnsentType,
    WireType,
    parameter_oid,
    parameter_type,
    wire_type,
)
from dpsql.serve.wire.types.parameters import decode_parameter
from dpsql.serve.wire.types.rows import RowEncoder, format_codes, row_description

__all__ = [
    "ParameterError",
    "ProtocolError",
    "RowEncoder",
    "UnsentType",
    "WireType",
    "decode_parameter",
    "format_codes",
    "parameter_oid",
    "parameter_type",
    "row_description",
    "wire_type",
]
