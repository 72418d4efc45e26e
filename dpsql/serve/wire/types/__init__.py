"""PostgreSQL's types on the wire: names, OIDs, lengths, and which Arrow type each holds; errors of encodings.

The type of a column on the wire follows from its Arrow type. The catalogue names the OID itself, because
`name`, `oid` and `regproc` have no Arrow type of their own.

``encoding`` encodes whole columns and joins them to messages, with ``number_texts`` for what PostgreSQL
writes in a way of its own; ``parameters`` decodes what a client binds.
"""

from __future__ import annotations

import pyarrow as pa

from dpsql.errors import DataError, InterfaceError, NotSupportedError
from dpsql.lazy_dataclass import dataclass
from dpsql.serve.limits import CodedError


class ParameterError(CodedError, DataError):
    """The bytes of a parameter are not a value of its type.

    Its SQLSTATE is `22P02` for text of a wrong form, `22P03` for bytes of a wrong form, `22003` out of range,
    `22007` not a date or time, `22008` a date or time out of range, `22021` not UTF-8, `0A000` for a type
    that no parameter can have.
    """


def out_of_range(type_name: str, sqlstate: str = "22003") -> ParameterError:
    """Return the error for a value that a type cannot hold."""
    return ParameterError(f"a parameter is out of range for type {type_name}", sqlstate)


class ProtocolError(InterfaceError):
    """A message of the client contradicts the protocol."""

    sqlstate = "08P01"


class UnsentType(NotSupportedError):  # noqa: N818  named as the condition, like dpsql's other leaves
    """A column has a type that has no encoding."""

    sqlstate = "0A000"
    hint: str | None = "cast the column to VARCHAR"


@dataclass(frozen=True, slots=True)
class WireType:
    """A type of PostgreSQL's protocol: its OID, its length, and how values are written."""

    oid: int
    name: str
    """As in `pg_type`; the name of an array begins with `_`."""
    length: int
    """`pg_type.typlen`: bytes, -1 for a varying length."""
    arrow: pa.DataType
    """The Arrow type that a column is converted to before it is encoded."""
    element: WireType | None = None
    """The type of an array's elements; None otherwise."""


DECIMAL = pa.decimal128(38, 0)
"""Stands for every decimal type: a column of numbers keeps its own precision and scale."""

_SCALARS: tuple[tuple[int, str, int, pa.DataType, int], ...] = (
    (16, "bool", 1, pa.bool_(), 1000),
    (17, "bytea", -1, pa.binary(), 1001),
    (18, "char", 1, pa.string(), 1002),
    (19, "name", 64, pa.string(), 1003),
    (20, "int8", 8, pa.int64(), 1016),
    (21, "int2", 2, pa.int16(), 1005),
    (23, "int4", 4, pa.int32(), 1007),
    (24, "regproc", 4, pa.uint32(), 1008),
    (25, "text", -1, pa.string(), 1009),
    (26, "oid", 4, pa.uint32(), 1028),
    (28, "xid", 4, pa.uint32(), 1011),
    (29, "cid", 4, pa.uint32(), 1012),
    (114, "json", -1, pa.string(), 199),
    (194, "pg_node_tree", -1, pa.string(), 0),
    (700, "float4", 4, pa.float32(), 1021),
    (701, "float8", 8, pa.float64(), 1022),
    (705, "unknown", -2, pa.string(), 0),
    (1033, "aclitem", 12, pa.string(), 1034),
    (1042, "bpchar", -1, pa.string(), 1014),
    (1043, "varchar", -1, pa.string(), 1015),
    (1082, "date", 4, pa.date32(), 1182),
    (1083, "time", 8, pa.time64("us"), 1183),
    (1114, "timestamp", 8, pa.timestamp("us"), 1115),
    (1184, "timestamptz", 8, pa.timestamp("us", "UTC"), 1185),
    (1186, "interval", 16, pa.month_day_nano_interval(), 1187),
    (1700, "numeric", -1, DECIMAL, 1231),
    (2202, "regprocedure", 4, pa.uint32(), 2207),
    (2205, "regclass", 4, pa.uint32(), 2210),
    (2206, "regtype", 4, pa.uint32(), 2211),
    (2275, "cstring", -2, pa.string(), 1263),
    (2950, "uuid", 16, pa.binary(16), 2951),
    (4089, "regnamespace", 4, pa.uint32(), 4090),
    (4096, "regrole", 4, pa.uint32(), 4097),
)


def _make_types() -> dict[int, WireType]:
    found: dict[int, WireType] = {}
    for oid, name, length, arrow, array in _SCALARS:
        found[oid] = WireType(oid, name, length, arrow)
        if array:
            found[array] = WireType(array, f"_{name}", -1, pa.list_(arrow), found[oid])
    for oid, name, element in ((22, "int2vector", 21), (30, "oidvector", 26)):
        found[oid] = WireType(oid, name, -1, pa.list_(found[element].arrow), found[element])
    return found


TYPES: dict[int, WireType] = _make_types()
"""OID -> type."""

TEXT = TYPES[25]
VECTORS = frozenset({22, 30})
"""Arrays whose text has no braces, and whose first index is 0."""

_ARRAYS = {kind.element.oid: kind.oid for kind in TYPES.values() if kind.element and kind.oid not in VECTORS}
"""OID of a type -> OID of its array."""

_BY_ARROW: dict[pa.DataType, int] = {
    pa.bool_(): 16,
    **dict.fromkeys((pa.int8(), pa.uint8(), pa.int16()), 21),
    **dict.fromkeys((pa.uint16(), pa.int32()), 23),
    **dict.fromkeys((pa.uint32(), pa.int64()), 20),
    pa.uint64(): 1700,
    **dict.fromkeys((pa.float16(), pa.float32()), 700),
    pa.float64(): 701,
    **dict.fromkeys((pa.null(), pa.string(), pa.large_string(), pa.string_view()), 25),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), 17),
    **dict.fromkeys((pa.date32(), pa.date64()), 1082),
    pa.month_day_nano_interval(): 1186,
    pa.uuid(): 2950,
}


def wire_type(column_type: pa.DataType, oid: int | None = None) -> WireType:
    """Return the type that a column of results has on the wire.

    An `oid` that is not known here, or that cannot hold the column, is left aside. Structures, maps and
    nested lists are JSON in text. Raises `UnsentType` for a type without any encoding.

    >>> wire_type(pa.int64()).name, wire_type(pa.list_(pa.string())).name, wire_type(pa.string(), 19).name
    ('int8', '_text', 'name')
    """
    wanted = TYPES.get(oid) if oid is not None else None
    if wanted is not None and _can_hold(wanted, column_type):
        return wanted
    return TYPES[_oid_of(column_type)]


def _oid_of(kind: pa.DataType) -> int:
    """Return the OID that belongs to an Arrow type."""
    known = _BY_ARROW.get(kind)
    if known is not None:
        return known
    if pa.types.is_dictionary(kind):
        return _oid_of(kind.value_type)
    if pa.types.is_timestamp(kind):
        return 1114 if kind.tz is None else 1184
    if _is_list(kind) and not is_nested(kind.value_type):
        return _ARRAYS[_oid_of(kind.value_type)]
    if is_nested(kind):
        return TEXT.oid
    kinds = ((pa.types.is_decimal, 1700), (pa.types.is_time, 1083), (pa.types.is_fixed_size_binary, 17))
    for is_kind, oid in kinds:
        if is_kind(kind):
            return oid
    raise UnsentType(f"a column of type {kind} cannot be sent")


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_nested(kind: pa.DataType) -> bool:
    """Return whether values of this type have parts: structures, maps, lists."""
    return bool(pa.types.is_struct(kind) or pa.types.is_map(kind) or _is_list(kind))


def _can_hold(wanted: WireType, given: pa.DataType) -> bool:
    """Return whether values of the given Arrow type can be encoded as `wanted`."""
    if pa.types.is_null(given) or given == wanted.arrow:
        return True
    if wanted.element is not None:
        if wanted.oid in VECTORS and pa.types.is_string(given):
            return True
        return _is_list(given) and _can_hold(wanted.element, given.value_type)
    if pa.types.is_string(wanted.arrow):
        return wire_type(given).oid == TEXT.oid
    if wanted.name == "uuid":
        return bool(given == pa.uuid() or pa.types.is_string(given))
    if pa.types.is_integer(wanted.arrow):
        return bool(pa.types.is_integer(given))
    if pa.types.is_decimal(wanted.arrow):
        return bool(pa.types.is_integer(given) or pa.types.is_decimal(given))
    return _oid_of(given) == wanted.oid or (wanted.oid == 701 and _oid_of(given) == 700)


INTEGERS = {"int2": 16, "int4": 32, "int8": 64, "oid": 32, "xid": 32, "cid": 32}
"""Types of whole numbers -> bits."""
UNSIGNED = frozenset({"oid", "xid", "cid"})
REFERENCES = frozenset({"regproc", "regprocedure", "regclass", "regtype", "regnamespace", "regrole"})
"""Types of catalogue entries: a name in text, an OID in binary."""
MAX_ITEMS = 10_000
"""Elements of an array that is a parameter."""

_PARAMETERS = frozenset({16, 17, 19, 20, 21, 23, 25, 26, 700, 701, 705, 1042, 1043, 1082, 1083, 1114, 1184})
_PARAMETERS |= {18, 28, 29, 114, 1700, 2950} | {t.oid for t in TYPES.values() if t.name in REFERENCES}


def parameter_wire_type(oid: int) -> WireType:
    """Return the type that a client announced for a parameter; raise `ParameterError` for one never taken.

    0 means that the client leaves the type open; the value then arrives as text.
    """
    kind = TYPES.get(oid or 705)
    scalar = kind.element if kind is not None and kind.element and kind.oid not in VECTORS else kind
    if kind is None or scalar is None or scalar.oid not in _PARAMETERS:
        named = f"type {kind.name}" if kind is not None else f"the type with OID {oid}"
        raise ParameterError(
            f"a parameter cannot have {named}", "0A000", "send it as text, a number, a date or a time"
        )
    return kind


def parameter_type(oid: int) -> pa.DataType | None:
    """Return the Arrow type of a parameter with an announced OID; None if the client leaves it open."""
    kind = parameter_wire_type(oid)
    return None if kind.oid == 705 else kind.arrow


def parameter_oid(kind: pa.DataType) -> int:
    """Return the OID that the server announces for a parameter.

    >>> parameter_oid(pa.float64()), parameter_oid(pa.null())
    (701, 25)
    """
    return wire_type(kind).oid
