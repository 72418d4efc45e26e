"""Type conversions. Each is written out, so that the engine never converts implicitly.

An implicit conversion raises an error on the first value that does not fit, and the engine's message quotes
that value. dpsql adds a conversion itself only if it cannot fail; for any other, the analyst writes a CAST.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.analysis.catalog import Catalog
from dpsql.analysis.instants import has_zone, instant, may_be_instant, mixed, not_valid
from dpsql.analysis.integers import in_full
from dpsql.analysis.intervals import of_cast
from dpsql.analysis.typed import Typed
from dpsql.kernel.tree import OPAQUE, Cast, IsNull, duckdb_sql
from dpsql.language import Source
from dpsql.types import BIGINT, DOUBLE, HUGEINT, TIMESTAMP, TIMESTAMPTZ, VARCHAR, SqlType

_FROM_TEXT = frozenset({"DATE", "TIMESTAMP", "TIME", "UUID", "ENUM", "DOUBLE", "DECIMAL", "BOOLEAN"})


def cast(value: Typed, sql_type: SqlType, *, lossless: bool = False) -> Typed:
    """Convert an expression: by CAST if that cannot fail, else by TRY_CAST (NULL where it does not fit).

    What is computed in 128 bits is converted as it is, not as the BIGINT to which it would be cut.
    """
    bounds = of_cast(value, sql_type)
    value = value if sql_type == value.type else in_full(value)
    bounded = lossless or _only_bounds(value, sql_type)
    node = Cast(value.node, sql_type.held, safe=not lossless, bounded=bounded)
    return Typed(
        node,
        sql_type,
        link=value.link,
        fact=value.fact,
        borrowed=value.borrowed,
        grains=value.grains,
        bounds=bounds,
        clock=value.clock,
        notes=value.notes,
    )


def _only_bounds(value: Typed, sql_type: SqlType) -> bool:
    """Return whether TRY_CAST needs no TRY around it; TRY would hide a comparison from the optimizer."""
    # A literal is converted once, before any row is read; TRY cannot contain a subquery.
    once = value.literal is not None or OPAQUE in value.reads
    whole = (value.type.integer or value.type == HUGEINT) and (sql_type.integer or sql_type == HUGEINT)
    return once or whole or (value.type.name == "DATE" and sql_type == TIMESTAMP)


def to_type(catalog: Catalog, value: Typed, sql_type: SqlType) -> Typed | None:
    """Convert an expression implicitly; None if that could lose information or fail."""
    if value.type == sql_type:
        return value
    if value.type.name == "NULL":
        return cast(value, sql_type)
    if sql_type == TIMESTAMPTZ:
        return instant(catalog, value)
    if value.text is not None:
        return _from_text(catalog, value, sql_type)
    if sql_type.integer and value.type.integer:
        fits = sql_type.bits > value.type.bits or (
            sql_type.bits == value.type.bits and sql_type.signed == value.type.signed
        )
        if value.type.signed and not sql_type.signed:
            fits = False
        return cast(value, sql_type, lossless=fits)
    if sql_type == HUGEINT and value.type.integer:
        return cast(value, sql_type, lossless=True)
    if sql_type == DOUBLE and (value.type.integer or value.type.name == "DECIMAL"):
        return cast(value, sql_type, lossless=True)
    if sql_type == TIMESTAMP and value.type.name == "DATE":
        return cast(value, sql_type)
    if sql_type == VARCHAR and value.type.name == "ENUM":
        return cast(value, sql_type, lossless=True)
    return None


def _huge(value: Typed) -> Typed:
    return value if value.type == HUGEINT else cast(value, HUGEINT, lossless=True)


def _from_text(catalog: Catalog, value: Typed, sql_type: SqlType) -> Typed | None:
    if sql_type.name not in _FROM_TEXT and not sql_type.integer:
        return None
    if sql_type.name in ("DATE", "TIMESTAMP", "TIME") and has_zone(value.text or ""):
        return None
    converted = cast(value, sql_type)
    try:
        if catalog.evaluate(duckdb_sql(IsNull(converted.node))):
            return None
    except ValueError:
        return None
    return converted


def unify(
    source: Source, catalog: Catalog, left: Typed, right: Typed, at: exp.Expr, *, compare: bool = True
) -> tuple[Typed, Typed]:
    """Convert two expressions to one type, for a comparison or (`compare=False`) for one result column."""
    if compare and left.type.integer and right.type.integer:
        full = in_full(left), in_full(right)
        if any(value.type == HUGEINT for value in full):
            return _huge(full[0]), _huge(full[1])
    if left.type == right.type:
        return left, right
    sql_type = _common(left, right, compare=compare)
    if sql_type is None:
        if compare and left.type.numeric and right.type.numeric:
            return (
                left,
                right,
            )  # DECIMAL against an integer or DECIMAL: lossless, and the binder's check proves it
        raise _mismatch(source, left, right, at)
    a, b = to_type(catalog, left, sql_type), to_type(catalog, right, sql_type)
    if a is None or b is None:
        raise _mismatch(source, left, right, at)
    return a, b


def _common(left: Typed, right: Typed, *, compare: bool) -> SqlType | None:
    a, b = left.type, right.type
    if a.name == "NULL" or b.name == "NULL":
        return b if a.name == "NULL" else a
    texts = [t for t in (left, right) if t.text is not None]
    if len(texts) == 1:
        return b if texts[0] is left else a
    if a.integer and b.integer:
        return _common_integer(a, b, compare=compare)
    if a.numeric and b.numeric:
        if DOUBLE in (a, b) or not compare:
            return DOUBLE
        return None
    if TIMESTAMPTZ in (a, b):
        other = right if a == TIMESTAMPTZ else left
        return TIMESTAMPTZ if (a == b or may_be_instant(other)) else None
    names = {a.name, b.name}
    if names == {"DATE", "TIMESTAMP"}:
        return TIMESTAMP
    if names <= {"ENUM", "VARCHAR"}:
        return VARCHAR
    return None


def _common_integer(a: SqlType, b: SqlType, *, compare: bool) -> SqlType:
    if a.signed == b.signed:
        return a if a.bits >= b.bits else b
    unsigned = b if a.signed else a
    if unsigned.bits < 64:
        return BIGINT
    return HUGEINT if compare else DOUBLE


def _mismatch(source: Source, left: Typed, right: Typed, at: exp.Expr) -> Exception:
    texts = [v.text for v in (left, right) if v.text is not None and v.type == VARCHAR]
    times = [v.type for v in (left, right) if v.type.moment or v.type.name in ("DATE", "TIME")]
    if texts and times:
        return not_valid(source, texts[0], times[0], at)
    if TIMESTAMPTZ in times and len(times) > 1:
        return mixed(source, left, right, at)
    if left.text is not None and left.type == VARCHAR:
        left, right = right, left
    if right.text is not None and left.type != VARCHAR:
        return source.refuse(f"this text is not a valid {left.type}", at, f"write the text as a {left.type}")
    if left.literal is not None:
        left, right = right, left
    target = right.type if right.type.name != "NULL" else VARCHAR
    if left.type == VARCHAR and right.literal is None:
        target = right.type
    return source.refuse(
        f"{left.type} and {right.type} are compared only after a conversion that you write",
        at,
        f"write CAST(... AS {target}) around the {left.type} (NULL where it does not convert)",
    )
