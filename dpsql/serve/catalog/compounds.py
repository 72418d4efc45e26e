"""The rules of arrays, records and conversions between types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.casts import cast, string
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.functions import PREFIX
from dpsql.serve.catalog.names import folded, type_oid
from dpsql.serve.catalog.pg_types import TEXT, UNKNOWN
from dpsql.serve.catalog.values import Scope, Value, refuse_others

if TYPE_CHECKING:
    from dpsql.serve.catalog.context import Context


MAX_OPERANDS = 100


def joined(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `x || y || z`: texts, or arrays and elements."""
    operands: list[exp.Expr] = []
    while isinstance(node, exp.DPipe):
        refuse_others(node.args, ("this", "expression", "safe"), "concatenation")
        operands.append(node.expression)
        node = node.this
    operands.append(node)
    values = [t.expression(operand, scope) for operand in reversed(operands)]
    if len(values) > MAX_OPERANDS:
        raise UnknownQuestion("concatenation")
    if any(pg_types.element(value.type) is not None for value in values):
        whole = values[0]
        for value in values[1:]:
            whole = _joined_arrays(t, whole, value)
        return whole
    texts = " || ".join(t.convert(value, TEXT).sql for value in values)
    return Value(f"{PREFIX}show_short({texts})", TEXT)


def _joined_arrays(t: Context, first: Value, second: Value) -> Value:
    arrays = [pg_types.element(side.type) is not None for side in (first, second)]
    whole = first.type if arrays[0] else second.type
    item = pg_types.element(whole)
    if item is None:
        return Value(f"({t.convert(first, TEXT).sql} || {t.convert(second, TEXT).sql})", TEXT)
    sides = []
    for side, is_array in zip((first, second), arrays, strict=True):
        as_array = is_array or (side.literal or "").startswith("{") or side.sql == "NULL"
        sides.append(t.convert(side, whole).sql if as_array else f"[{t.convert(side, item).sql}]")
    return Value(f"{PREFIX}show_joined_arrays({sides[0]}, {sides[1]})", whole)


def array(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `ARRAY[..]` and `ARRAY(SELECT ..)`."""
    refuse_others(node.args, ("expressions", "bracket_notation", "value_constructor"), "array")
    members = node.expressions
    if len(members) == 1 and isinstance(members[0], exp.Query):
        inner = t.query(members[0].unnest(), scope)
        if len(inner.columns) != 1:
            raise UnknownQuestion("columns in ARRAY")
        return Value(f"ARRAY({inner.sql})", pg_types.array_of(inner.columns[0].type))
    oid, sqls = t.common([t.expression(part, scope) for part in members])
    oid = TEXT if oid == UNKNOWN else oid
    whole = f"[{', '.join(sqls)}]"
    if oid == pg_types.RECORD:
        return Value(whole, pg_types.RECORD_ARRAY)
    return Value(cast(whole, pg_types.array_of(oid)), pg_types.array_of(oid))


def row(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `(x, y)`."""
    members = [t.decided(t.expression(part, scope)) for part in node.expressions]
    return Value(f"row({', '.join(member.sql for member in members)})", pg_types.RECORD)


_COUNTED_FROM_ZERO = frozenset({pg_types.INT2VECTOR, pg_types.OIDVECTOR})


def subscript(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `x[i]`; the vectors of the catalogue are counted from zero."""
    refuse_others(node.args, ("this", "expressions", "offset", "safe", "returns_list_for_maps"), "subscript")
    value = t.expression(node.this, scope)
    item = pg_types.element(value.type)
    if item is None or len(node.expressions) != 1:
        raise UnknownQuestion("subscript")
    place = node.expressions[0]
    first = 1 if value.type in _COUNTED_FROM_ZERO else 0
    if isinstance(place, exp.Slice):
        ends = [
            t.convert(t.expression(end, scope), pg_types.INT4).sql for end in (place.this, place.expression)
        ]
        return Value(f"list_slice({value.sql}, {ends[0]} + {first}, {ends[1]} + {first})", value.type)
    index = t.convert(t.expression(place, scope), pg_types.INT4).sql
    return Value(f"{PREFIX}show_element({value.sql}, {index} + {first})", item)


def field(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `(x).field`."""
    value = t.expression(node.this, scope)
    name = folded(node.expression)
    oid = dict(value.fields).get(name)
    if oid is None:
        raise UnknownQuestion("field")
    return Value(f"struct_extract({value.sql}, {string(name)})", oid)


def conversion(t: Context, node: exp.Expr, scope: Scope) -> Value:
    """Translate `CAST(x AS type)` and `x::type`."""
    refuse_others(node.args, ("this", "to"), "cast")
    oid = type_oid(node.args["to"])
    if oid is None:
        raise UnknownQuestion("type")
    value = t.expression(node.this, scope)
    if oid == pg_types.RECORD_ARRAY:
        return Value(value.sql, oid)
    found = t.convert(value, oid)
    lengths = [part.this for part in node.args["to"].expressions if isinstance(part, exp.DataTypeParam)]
    if oid in (pg_types.VARCHAR, pg_types.BPCHAR) and (lengths or oid == pg_types.BPCHAR):
        length = int(str(lengths[0].this)) if lengths else 1
        return Value(f"left({found.sql}, {length})", oid)
    return found
