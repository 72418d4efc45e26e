"""Lists of a row and series in FROM: UNNEST, subqueries over the items of a list, GENERATE_SERIES and RANGE.

`(SELECT e.value.x FROM UNNEST(l) AS e WHERE e.key = 'a')` is `list_transform(list_filter(l, ..), ..)[1]`. A
row without such an item, and one without a list, has NULL; for EXISTS, FALSE. Nothing here fails on a row.

Their ends are constants, so the rows are public; there are at most 100,000 of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlglot import exp

from dpsql.analysis.compiled_relation import CELL, From, Origin, Relation, Scope
from dpsql.analysis.compiler import StatementCompiler, call_name, check_arguments
from dpsql.analysis.facts_of_values import build_typed
from dpsql.analysis.scalar_rules import compile_condition
from dpsql.analysis.typed_expression import Typed, UnitRole, make_column
from dpsql.kernel.tree import (
    Call,
    Case,
    Cast,
    Column,
    Constant,
    Element,
    Expr,
    Interval,
    IsNull,
    Item,
    Join,
    Lambda,
    ListOf,
    Parameter,
    Paren,
    Query,
    Range,
    Select,
    Source,
    Unnest,
    Values,
)
from dpsql.language import fill_form, find_nodes
from dpsql.policy import Assumed, fold
from dpsql.types import BIGINT, BOOLEAN, DATE, INTERVAL, NULL, TIMESTAMP, SqlType

_VALUES = frozenset({"VARCHAR", "BIGINT", "INTEGER", "DATE", "BOOLEAN", "TIMESTAMP"})
_ITEMS = frozenset({"VARCHAR", "BIGINT", "INTEGER", "SMALLINT", "TINYINT", "DATE", "BOOLEAN", "UUID"})
_LIST_HINT = "(SELECT e.value FROM UNNEST(items) AS e WHERE e.key = 'a')"
_PARAMETER = "p"


def read_list_lookup(node: exp.Expr) -> exp.Select | None:
    """Return the SELECT over the items of one list that a subquery is; None for other subqueries."""
    select = node.this.unnest() if isinstance(node, exp.Exists) else node.unnest()
    if not isinstance(select, exp.Select) or select.args.get("joins"):
        return None
    first = select.args.get("from_")
    items = first.this if first is not None else None
    if not isinstance(items, exp.Unnest) or len(items.expressions) != 1:
        return None
    return select if isinstance(items.expressions[0], (exp.Column, exp.Dot)) else None


def compile_list_lookup(
    compiler: StatementCompiler, select: exp.Select, scope: Scope, *, exists: bool
) -> Typed:
    """Compile a subquery over the items of a list of the row around it."""
    check_arguments(compiler.source, select, frozenset({"expressions", "from_", "where"}))
    unnest = select.args["from_"].this
    check_arguments(compiler.source, unnest, frozenset({"expressions", "alias"}))
    listed = compiler.expression(unnest.expressions[0], scope)
    item = listed.type.item
    if item is None:
        raise compiler.source.refuse(f"UNNEST does not take {listed.type}", unnest)
    inner = Scope(compiler.source, intercept=_make_reader(unnest, item))
    found: Expr = listed.node
    parts = [listed]
    where = select.args.get("where")
    if where is not None:
        condition = compile_condition(compiler, where.this, inner)
        found = Call("list_filter", (found, Lambda(_PARAMETER, condition.node)))
        parts.append(condition)
    if exists:
        ones = Call("list_transform", (found, Lambda(_PARAMETER, Constant(1, BIGINT))))
        there = IsNull(Element(ones, Constant(1, BIGINT)), negated=True)
        return build_typed(Paren(there), BOOLEAN, *parts)
    if len(select.expressions) != 1:
        raise compiler.source.refuse("a subquery used as a value selects one value", select, _LIST_HINT)
    value = compiler.expression(select.expressions[0].unalias(), inner)
    if value.type.name not in _VALUES:
        raise compiler.source.refuse(f"a list of {value.type} is not made", select.expressions[0], _LIST_HINT)
    values = Call("list_transform", (found, Lambda(_PARAMETER, value.node)))
    first = build_typed(Paren(Element(values, Constant(1, BIGINT))), value.type, *parts, value)
    note = Assumed("of several items of a list that meet the condition, the first is taken")
    return replace(first, unit=UnitRole.NONE, notes=(*first.notes, note))


def _make_reader(unnest: exp.Unnest, item: SqlType) -> Callable[[exp.Expr], Typed | None]:
    """Return what reads the names that the items of a list have, as fields of one item."""
    alias = unnest.args.get("alias")
    table = fold(alias.name) if alias is not None and alias.this is not None else ""
    columns = [fold(c.name) for c in alias.args.get("columns") or ()] if alias is not None else []

    def read(node: exp.Expr) -> Typed | None:
        names = _list_names(node)
        if not names:
            return None
        if names[0] == table and (len(names) > 1 or item.name != "STRUCT"):
            names = names[1:]
        if columns and names[:1] == columns[:1]:
            names = names[1:]
        kind, path = item, tuple[str, ...]()
        for name in names:
            fields = {fold(known): (known, of) for known, of in kind.fields}
            if name not in fields or not fields[name][0].replace("_", "a").isalnum():
                return None
            path, kind = (*path, fields[name][0]), fields[name][1]
        return Typed(Parameter(_PARAMETER, path), kind)

    return read


def _list_names(node: exp.Expr) -> list[str]:
    """Return the folded names of a column with what stands before it, or of a field of one."""
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        return [fold(part.name) for part in node.parts]
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        before = _list_names(node.this)
        return [*before, fold(node.expression.name)] if before else []
    return []


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
    found = isinstance(call, exp.Anonymous) and call_name(call) in _NAMES
    return (call, days) if found and isinstance(call, exp.Anonymous) else None


def compile_series(compiler: StatementCompiler, call: exp.Anonymous, *, days: bool) -> Relation:
    """Compile the call of a series in FROM."""
    name = call_name(call)
    if not 1 <= len(call.expressions) <= 3 or find_nodes(call, exp.Column):
        raise compiler.source.refuse(f"{name} takes constants: two ends, and a step", call, _HINT)
    ends = [compiler.expression(each, Scope(compiler.source)) for each in call.expressions]
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
    column = Typed(CELL, kind, name=name)
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


def compile_unnest(compiler: StatementCompiler, left: From, join: exp.Expr, kind: str) -> From:
    """Compile CROSS JOIN UNNEST: it repeats each row for the items of its list, so none stays unique.

    `LEFT JOIN UNNEST(..) ON TRUE` keeps a row without items, with NULL: its list then has NULL as an item.
    """
    node = join.this
    check_arguments(compiler.source, node, frozenset({"expressions", "alias"}))
    on = join.args.get("on")
    whole = kind in ("INNER", "LEFT") and isinstance(on, exp.Boolean) and bool(on.this)
    if not (kind == "CROSS" or whole) or len(node.expressions) != 1:
        raise compiler.source.refuse(
            "UNNEST takes one list and no condition", join, "FROM t, UNNEST(t.list) AS i(item)"
        )
    if left.owner is not None and left.owner.row:
        raise compiler.source.refuse("each row is a privacy unit, and UNNEST would repeat it", join)
    value = compiler.expression(node.expressions[0], left.scope)
    if value.type.item is None or value.type.item.name not in _ITEMS:
        raise compiler.source.refuse(f"UNNEST does not take {value.type}", node)
    alias = node.args.get("alias")
    name = alias.name if alias is not None and alias.this is not None else "unnest"
    columns = [c.name for c in alias.args.get("columns") or ()] if alias is not None else []
    generated = compiler.alias()
    item = make_column(generated, "c0", value.type.item)
    origin = Origin(name, (columns[0] if columns else "unnest",), (item,))
    items = value.guarded_node
    if kind == "LEFT":
        some = compiler.expression(fill_form("len(a) > 0", {"a": node.expressions[0]}), left.scope)
        nothing = ListOf((Cast(Constant(None, NULL), value.type.item),))
        items = Case(((some.guarded_node, items),), nothing)
    repeated = Join(left.source, "CROSS", Unnest(items, generated))
    return From(repeated, left.scope.join(origin), left.owner, left.unit, repeats=True)
