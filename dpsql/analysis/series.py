"""Series in FROM as public relations: GENERATE_SERIES and RANGE of whole numbers, days and points of time.

Their ends are constants, so the rows are public; there are at most 100,000 of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlglot import exp

from dpsql.analysis.compiled_relation import Relation, RelationColumn, Scope
from dpsql.analysis.compiler import StatementCompiler, function_name
from dpsql.analysis.typed_expression import Typed
from dpsql.kernel.tree import (
    Call,
    Cast,
    Column,
    Constant,
    Expr,
    Interval,
    Item,
    Query,
    Range,
    Select,
    Source,
    Values,
)
from dpsql.types import BIGINT, DATE, INTERVAL, TIMESTAMP

MOST_ROWS = 100_000
_NAMES = frozenset({"generate_series", "range"})
_HINT = "generate_series(DATE '2024-01-01', DATE '2024-01-31', INTERVAL 1 DAY)"
_SPANS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}
"""The milliseconds of the units that have one length."""
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_SHORTEST_MONTH = 28 * _SPANS["day"]


def read_series(node: exp.Expr) -> tuple[exp.Anonymous, bool] | None:
    """Return the call of a series that an item of FROM is, and whether it has days; None for other items."""
    call: exp.Expr | None = node.this if isinstance(node, exp.Table) else None
    days = False
    if isinstance(node, exp.Unnest) and len(node.expressions) == 1:
        call = node.expressions[0]
        if isinstance(call, exp.Cast) and call.to.sql("duckdb") == "DATE[]":
            call, days = call.this, True
    found = isinstance(call, exp.Anonymous) and (function_name(call) or "").lower() in _NAMES
    return (call, days) if found and isinstance(call, exp.Anonymous) else None


def compile_series(compiler: StatementCompiler, call: exp.Anonymous, *, days: bool) -> Relation:
    """Compile the call of a series in FROM."""
    name = (function_name(call) or "").lower()
    ends = [compiler.expression(each, Scope(compiler.source)) for each in call.expressions]
    if not 1 <= len(ends) <= 3 or any(end.reads for end in ends):
        raise compiler.source.refuse(f"{name} takes constants: two ends, and a step", call, _HINT)
    if all(end.type.integer for end in ends):
        query, kind = _list_numbers(compiler, call, ends, inclusive=name != "range"), BIGINT
    elif (
        len(ends) == 3
        and ends[2].type == INTERVAL
        and {e.type.name for e in ends[:2]} <= {"DATE", "TIMESTAMP"}
    ):
        query = _list_times(compiler, call, ends, days=days, inclusive=name != "range")
        kind = DATE if days else TIMESTAMP
    else:
        raise compiler.source.refuse(f"{name} is of whole numbers, or of times and an INTERVAL", call, _HINT)
    column = RelationColumn(name, kind)
    return Relation(query, (column,), None, frozenset({frozenset({0})}))


def _refuse_size(compiler: StatementCompiler, call: exp.Expr) -> Exception:
    return compiler.source.refuse(f"a series has at most {MOST_ROWS:,} rows", call)


def _list_numbers(
    compiler: StatementCompiler, call: exp.Expr, ends: Sequence[Typed], *, inclusive: bool
) -> Query:
    numbers = [_evaluate(compiler, f"CAST({end.sql} AS BIGINT)", call) for end in ends]
    start, stop, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    if step == 0:
        raise compiler.source.refuse("the step of a series is not 0", call, _HINT)
    rows = range(start, stop + inclusive * (1 if step > 0 else -1), step)
    return Select((Item(Column("", "i"), "c0"),), _as_range(compiler, call, rows))


def _as_range(compiler: StatementCompiler, call: exp.Expr, rows: range) -> Source:
    """Return the numbers of a range, from the least to the largest."""
    if len(rows) > MOST_ROWS:
        raise _refuse_size(compiler, call)
    first, last, step = (min(rows), max(rows), abs(rows.step)) if rows else (0, -1, 1)
    if max(abs(first), abs(last)) >= 1 << 62:
        raise compiler.source.refuse("an end of this series is too large", call)
    return Range(first, last + 1, step if step > 1 else None)


def _list_times(
    compiler: StatementCompiler, call: exp.Expr, ends: Sequence[Typed], *, days: bool, inclusive: bool
) -> Query:
    first, last = (_evaluate(compiler, f"epoch_ms(CAST({end.sql} AS TIMESTAMP))", call) for end in ends[:2])
    span = ends[2].literal.value if ends[2].literal is not None else None
    found = re.fullmatch(r"(-?\d+) ([a-z]+?)s?", span.text) if isinstance(span, Interval) else None
    if found is None or found[2] not in {*_SPANS, *_MONTHS} or int(found[1]) == 0:
        raise compiler.source.refuse("the step of a series of times is an INTERVAL", call, _HINT)
    amount = int(found[1])
    if found[2] in _SPANS:
        step = amount * _SPANS[found[2]]
        rows = range(first, last + inclusive * (1 if step > 0 else -1), step)
        value: Expr = Call("epoch_ms", (Column("", "i"),))
        return Select((Item(_as_days(value, days=days), "c0"),), _as_range(compiler, call, rows))
    if abs(last - first) // (_SHORTEST_MONTH * abs(amount) * _MONTHS[found[2]]) >= MOST_ROWS:
        raise _refuse_size(compiler, call)
    start, stop = (f"CAST({end.sql} AS TIMESTAMP)" for end in ends[:2])
    times_of = f"{'generate_series' if inclusive else 'range'}({start}, {stop}, {ends[2].sql})"
    listed = compiler.catalog.evaluate(f"list_transform({times_of}, lambda x: epoch_ms(x))")
    times = (
        [datetime(1970, 1, 1) + timedelta(milliseconds=n) for n in listed] if isinstance(listed, list) else []
    )
    cells = tuple((_as_days(Constant(time, TIMESTAMP), days=days),) for time in times)
    if not cells:
        return Select(
            (Item(_as_days(Constant(datetime(1970, 1, 1), TIMESTAMP), days=days), "c0"),), Range(0, 0)
        )
    return Select((Item(Column("w", "c0"), "c0"),), Values(cells, "w", ("c0",)))


def _as_days(value: Expr, *, days: bool) -> Expr:
    return Cast(value, DATE) if days else value


def _evaluate(compiler: StatementCompiler, sql: str, at: exp.Expr) -> int:
    try:
        found = compiler.catalog.evaluate(sql)
    except ValueError:
        found = None
    if not isinstance(found, int):
        raise compiler.source.refuse("an end of this series is no number or time", at, _HINT)
    return found
