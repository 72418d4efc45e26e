"""PostgreSQL's names of output columns that a query does not name: drivers rely on them."""

from __future__ import annotations

from sqlglot import exp

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.data import SCHEMAS, data
from dpsql.serve.catalog.errors import UnknownQuestion

UNNAMED = "?column?"


def output_name(node: exp.Expr) -> str:
    """Return the name of an output column, as PostgreSQL's `FigureColname` finds it."""
    if isinstance(node, exp.Alias):
        return folded(node.args["alias"])
    return _figure(node)[0] or UNNAMED


def folded(identifier: exp.Expr | str | None) -> str:
    """Return a name; one that is not quoted is in lower case."""
    if isinstance(identifier, exp.Identifier):
        return str(identifier.this) if identifier.args.get("quoted") else str(identifier.this).lower()
    return "" if identifier is None else str(identifier).lower()


def called(node: exp.Expr) -> exp.Anonymous | None:
    """Return the call of a function, without the schema of the catalogue before it; None for other nodes."""
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Anonymous):
        if folded(node.this) not in SCHEMAS:
            raise UnknownQuestion("schema of a function")
        return node.expression
    return node if isinstance(node, exp.Anonymous) else None


def function_name(node: exp.Expr) -> str:
    """Return the name of a function that is called."""
    return folded(node.this)


def trim_function(node: exp.Expr) -> str:
    """Return the name of the function that `trim(LEADING x FROM y)` and the like call."""
    side = str(node.args.get("position") or "BOTH").upper()
    return {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "btrim")


SESSION: dict[type[exp.Expr], str] = {
    exp.CurrentUser: "current_user",
    exp.CurrentRole: "current_role",
    exp.SessionUser: "session_user",
    exp.CurrentCatalog: "current_catalog",
    exp.CurrentSchema: "current_schema",
    exp.CurrentTimestamp: "current_timestamp",
}
"""Functions of the session, which are written without parentheses."""
_FIXED: dict[type[exp.Expr], str] = {
    exp.Coalesce: "coalesce",
    exp.Nullif: "nullif",
    exp.Greatest: "greatest",
    exp.Least: "least",
    exp.Array: "array",
    exp.Exists: "exists",
    exp.Substring: "substring",
    exp.StrPosition: "position",
    exp.Extract: "extract",
    **SESSION,
    exp.CurrentDate: "current_date",
    exp.Tuple: "row",
}


def _figure(node: exp.Expr | None) -> tuple[str, int]:
    """Return a name and how well it fits: 2 for columns and functions, 1 for types, 0 for none."""
    if node is None:
        return "", 0
    fixed = _FIXED.get(type(node))
    if fixed is not None:
        return fixed, 2
    match node:
        case exp.Column():
            return folded(node.this), 2
        case exp.Identifier():
            return folded(node), 2
        case exp.Dot():
            return _figure(node.expression)
        case exp.Anonymous():
            return function_name(node), 2
        case exp.Trim():
            return trim_function(node), 2
        case exp.Paren() | exp.Bracket() | exp.Filter() | exp.Window() | exp.Collate():
            return _figure(node.this)
        case exp.Subquery():
            return _figure_query(node.this)
        case exp.Cast():
            found = _figure(node.this)
            return found if found[1] == 2 else (_type_name(node.to), 1)
        case exp.Case():
            found = _figure(node.args.get("default"))
            return found if found[1] == 2 else ("case", 1)
        case exp.AtTimeZone():
            return "timezone", 2
    return "", 0


def _figure_query(query: exp.Expr) -> tuple[str, int]:
    while isinstance(query, (exp.SetOperation, exp.Subquery)):
        query = query.this
    if isinstance(query, exp.Select) and query.expressions:
        return output_name(query.expressions[0]), 2
    return "", 0


def _type_name(kind: exp.Expr) -> str:
    oid = type_oid(kind)
    if oid is None:
        return ""
    return pg_types.name_of(pg_types.element(oid) or oid if _is_array(kind) else oid) or ""


def _is_array(kind: exp.Expr) -> bool:
    return isinstance(kind, exp.DataType) and kind.this == exp.DType.ARRAY


_TYPES = {
    exp.DType.INT: pg_types.INT4,
    exp.DType.DOUBLE: pg_types.FLOAT8,
    exp.DType.FLOAT: pg_types.FLOAT4,
    exp.DType.DECIMAL: pg_types.NUMERIC,
    exp.DType.CHAR: pg_types.BPCHAR,
    exp.DType.VARBINARY: pg_types.BYTEA,
    exp.DType.TIMESTAMPNTZ: pg_types.TIMESTAMP,
}


def type_oid(kind: exp.Expr) -> int | None:
    """Return the OID of a type in a cast; None if it is not known."""
    if not isinstance(kind, exp.DataType):
        return None
    if kind.this == exp.DType.ARRAY:
        item = type_oid(kind.expressions[0]) if len(kind.expressions) == 1 else None
        if item == pg_types.RECORD:
            return pg_types.RECORD_ARRAY
        return None if item is None else data().arrays.get(item)
    if kind.this == exp.DType.USERDEFINED:
        name = kind.args["kind"]
        if isinstance(name, exp.Dot):
            name = name.expression if folded(name.this) in SCHEMAS else None
        internal = isinstance(name, exp.Identifier) and name.name == "char"
        return pg_types.CHAR if internal else pg_types.named(folded(name))
    name = kind.this.value if isinstance(kind.this, exp.DType) else str(kind.this)
    return _TYPES.get(kind.this) or pg_types.named(name.lower())
