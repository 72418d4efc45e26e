"""Read a recursive common table expression that counts up as the series of its values.

`days AS (SELECT DATE '2024-01-01' AS d UNION ALL SELECT d + INTERVAL 1 DAY FROM days WHERE d < '2024-02-01')`
has the first value and those a step behind one that meets the condition: the last is the first that does not.
Steps are whole: numbers, or days and more, of which months begin at a day that each month has.
"""

from __future__ import annotations

from datetime import date, timedelta

from sqlglot import exp

from dpsql.language.syntax_trees import MARK, copy_tree, list_given
from dpsql.lazy_pattern import lazy_pattern

_DAY = lazy_pattern(r"\d{4}-\d\d-\d\d")
_COUNT = lazy_pattern(r"[1-9]\d{0,2}")
_STEPS = {"DAY": 1, "WEEK": 7, "MONTH": 1, "QUARTER": 3, "YEAR": 12}
_OF_MONTHS = ("MONTH", "QUARTER", "YEAR")
_MOST = 20_000
"""How many days are counted."""
_LAST_OF_EACH, _LAST_YEAR = 28, 9000


def read_recursive_series(clause: exp.With, dialect: str) -> None:
    """Write the series of a WITH as such; a clause in which nothing else is recursive is no more."""
    if not clause.args.get("recursive") and dialect != "tsql":  # there the word is not written
        return
    for cte in clause.expressions:
        series = _read_series(cte)
        if series is not None:
            cte.set("this", series)
    names = [cte.alias.lower() for cte in clause.expressions]
    read = [{table.name.lower() for table in cte.this.find_all(exp.Table)} for cte in clause.expressions]
    if all(tables.isdisjoint(names[i:]) for i, tables in enumerate(read)):
        clause.set("recursive", False)


def _read_series(cte: exp.CTE) -> exp.Select | None:
    both, alias = cte.this, cte.args["alias"]
    if not isinstance(both, exp.Union) or list_given(both) != {"this", "expression"}:
        return None
    first, next_ = both.this, both.expression
    if not isinstance(first, exp.Select) or not isinstance(next_, exp.Select):
        return None
    if list_given(first) - {"kind"} != {"expressions"}:
        return None
    if list_given(next_) - {"kind"} != {"expressions", "from_", "where"}:
        return None
    if len(first.expressions) != 1 or len(next_.expressions) != 1 or len(alias.columns) > 1:
        return None
    table, condition = next_.args["from_"].this, next_.args["where"].this
    item = next_.expressions[0].unalias()
    name = alias.columns[0].name if alias.columns else first.expressions[0].alias
    item = item.this if isinstance(item, exp.Cast) and item.to.this == exp.DataType.Type.DATE else item
    item = item.unnest()
    if not isinstance(table, exp.Table) or table.name.lower() != cte.alias.lower() or not name:
        return None
    if list_given(table) - {"alias"} != {"this"} or table.alias_column_names:
        return None
    if not isinstance(item, exp.Add) or not isinstance(condition, (exp.LT, exp.LTE)):
        return None
    sides = [item.this.unnest(), condition.this.unnest()]
    if any(not isinstance(side, exp.Column) or side.name.lower() != name.lower() for side in sides):
        return None
    ends = _find_ends(first.expressions[0].unalias(), condition, item.expression.unnest())
    if ends is None:
        return None
    step = copy_tree(item.expression.unnest())
    call = exp.Anonymous(this=f"{MARK}generate_series", expressions=[*ends, step])
    listed = exp.TableAlias(this=exp.to_identifier("dpsql_list"), columns=[exp.to_identifier(name)])
    value: exp.Expr = exp.column(name, "dpsql_list")
    if isinstance(step, exp.Interval):  # the column has the type of the first value
        value = exp.Cast(this=value, to=exp.DataType.build("DATE"))
    made = exp.Select(expressions=[exp.alias_(value, name)])
    made.set("from_", exp.From(this=exp.Table(this=call, alias=listed)))
    made.meta["select"] = -1
    return made


def _find_ends(start: exp.Expr, condition: exp.Expr, step: exp.Expr) -> list[exp.Expr] | None:
    """Return the first value and the last that there may be; None if that is not known."""
    if isinstance(step, exp.Literal):
        numbers = [start, condition.expression, step]
        if any(not isinstance(n, exp.Literal) or n.is_string or not n.name.isdecimal() for n in numbers):
            return None
        first, last, by = (int(n.name) for n in numbers)
        last += by - isinstance(condition, exp.LT)
        return None if by == 0 else [exp.Literal.number(first), exp.Literal.number(max(last, first))]
    first_day, end = _read_day(start), _read_day(condition.expression)
    unit = step.args.get("unit") if isinstance(step, exp.Interval) else None
    word = "" if unit is None else unit.name.upper().rstrip("S")
    if first_day is None or end is None or word not in _STEPS or not _COUNT.fullmatch(step.this.name):
        return None
    by, months = int(step.this.name) * _STEPS[word], word in _OF_MONTHS
    if (months and first_day.day > _LAST_OF_EACH) or end.year > _LAST_YEAR:
        return None
    day = first_day
    for _ in range(_MOST):
        if day > end or (day == end and isinstance(condition, exp.LT)):
            return [exp.cast(exp.Literal.string(each.isoformat()), "DATE") for each in (first_day, day)]
        month = day.year * 12 + day.month - 1 + by
        day = day.replace(year=month // 12, month=month % 12 + 1) if months else day + timedelta(by)
    return None


def _read_day(node: exp.Expr) -> date | None:
    """Return the day that a constant is; None for other expressions."""
    node = node.unnest()
    node = node.this if isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.DATE else node
    text = node.name if isinstance(node, exp.Literal) and node.is_string else ""
    try:
        return date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None
