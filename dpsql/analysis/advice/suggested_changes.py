"""Advise on calls that are not known or not released, by calls that ask the same or nearly so."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.foreign_forms import count_instead
from dpsql.analysis.advice.foreign_functions import SHORT_PARTS
from dpsql.analysis.advice.listed_rows import split_options
from dpsql.analysis.advice.refused_statement import Advice, RefusedStatement, add_clause, change_all
from dpsql.analysis.aggregate_functions import aggregate_calls, aggregate_name
from dpsql.analysis.released.released_calls import is_released
from dpsql.errors import Fix, Obstacle
from dpsql.language import find_nodes, write_name
from dpsql.policy import UnitColumn, fold

_VALUES = frozenset(
    {"any_value", "arbitrary", "first", "last", "min", "max", "collect_set", "collect_list", "json_agg"}
    | {
        "list",
        "array_agg",
        "string_agg",
        "group_concat",
        "listagg",
        "jsonb_agg",
        "json_arrayagg",
        "wm_concat",
        "grouparray",
        "array_unique_agg",
        "groupuniqarray",
    }
)
"""Aggregates that show values of single units."""
_AROUND = r"(?i)^DISTINCT\s+|\s+(?:IGNORE|RESPECT)\s+NULLS\b|\s+HAVING\s+(?:MAX|MIN)\s.*"
"""What stands beside the value of such an aggregate."""
_SHAPES = frozenset({"skewness", "kurtosis", "kurtosis_pop", "skew", "kurt", "mad", "iqr"})
"""Aggregates that say how values are spread, otherwise than quantiles do."""
_ANY = frozenset({"first", "last", "any_value", "arbitrary"})
"""Aggregates that show some value of many."""
_TESTS = frozenset({"bool_or", "logical_or", "bool_and", "logical_and"})


def advise_on_values(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Advise on an aggregate that is not released; None where nothing released is like it."""
    name, call = (aggregate_name(node) or "").lower(), of.call(node)
    counted = None if call is None else _count_list(of, name, call)
    if counted is not None:
        return counted
    if call is None or of.text[call[1] :].lstrip().upper().startswith(("FILTER", "OVER")):
        return None
    start, end, arguments = call
    within = re.match(r"(?i)\s*WITHIN\s+GROUP\s*\(\s*ORDER\s+BY\s+([\w.]+)[^()]*\)", of.text[end:])
    if not arguments and within is not None:  # the value stands behind
        end, arguments = end + within.end(), (within[1],)
    select = node.find_ancestor(exp.Select)
    divided = name in ("mode", "histogram") and select is not None and select.args.get("group") is not None
    if (name in _VALUES or divided) and arguments and "privacy unit" not in one.message:
        value = re.sub(_AROUND, "", arguments[0].split(" ORDER BY ")[0])
        if select is not None and value.split(".")[-1] in {n.unit for n in of.list_tables(select)}:
            return count_instead(of, node, one)
        ends = re.fullmatch(r"(?i)(.+?)\s+ORDER\s+BY\s+(.+?)(\s+DESC)?", arguments[0])
        if ends is not None and ends[1] == ends[2] and name in ("first", "last"):
            made = f"{'MIN' if (name == 'first') == (ends[3] is None) else 'MAX'}({value})"
            return made, Fix(made, start, end)
        if name in _ANY and select is not None and select.args.get("group") is None:
            return f"MODE({value})", Fix(f"MODE({value})", start, end, asks=f"the most frequent {value}")
        return _add_group_key(of, node, value, start, end)
    bounds = _find_ends(of, select, arguments[0]) if name == "histogram" and len(arguments) == 2 else None
    if bounds is not None:
        return _add_group_key(of, node, f"width_bucket({arguments[0]}, {bounds}, {arguments[1]})", start, end)
    if arguments and arguments[0][:9].upper() == "DISTINCT ":
        text = of.text[start:end]
        written = text.replace(arguments[0], arguments[0][9:].strip(), 1)
        return written, Fix(written, start, end, asks="rows with equal values count each")
    if len(arguments) != 1:
        return None
    if name in _TESTS:
        condition = arguments[0] if name.endswith("or") else f"NOT ({arguments[0]})"
        asks = f"how many rows {'meet' if name.endswith('or') else 'do not meet'} the condition"
        written = f"COUNT_IF({condition})"
        return written, Fix(written, start, end, asks=asks)
    return None


def advise_on_aggregate(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Advise on an aggregate that is no known function."""
    name, at = one.message.split(" ", 1)[0].lower(), of.query.source.position(node)
    call = of.outline.call_around(at, name) if name in _VALUES | _SHAPES else None
    if call is None or not call[2]:
        return None
    counted = _count_list(of, name, call)
    if counted is not None:
        return counted
    if name in _SHAPES:
        written = f"QUANTILE_CONT({call[2][0]}, [0.05, 0.25, 0.5, 0.75, 0.95])"
        asks = f"the {call[2][0]} below which these shares of the rows are"
        return written, Fix(written, call[0], call[1], asks=asks)
    select = node.find_ancestor(exp.Select)
    if select is not None and call[2][0].split(".")[-1] in {n.unit for n in of.list_tables(select)}:
        return count_instead(of, node, one)
    return _add_group_key(of, node, call[2][0], call[0], call[1])


def _count_list(of: RefusedStatement, name: str, call: tuple[int, int, tuple[str, ...]]) -> Advice | None:
    """Write `size(collect_set(x))` and `array_length(array_agg(DISTINCT x))` as counts."""
    around = re.search(
        r"(?i)\b(?:size|cardinality|array_size|array_length|length|len|array_count)\s*\(\s*\Z",
        of.text[: call[0]],
    )
    behind = re.match(r"\s*(?:,\s*1\s*)?\)", of.text[call[1] :])
    if around is None or behind is None or name not in _VALUES or len(call[2]) != 1:
        return None
    value = re.sub(r"(?i)\ADISTINCT\s+", "", call[2][0])
    distinct = "DISTINCT " * ("set" in name or "uni" in name or value != call[2][0])
    written = f"COUNT({distinct}{value})"
    return written, Fix(written, around.start(), call[1] + behind.end())


def _find_ends(of: RefusedStatement, select: exp.Select | None, value: str) -> str | None:
    """Return the least and the greatest value of a column, as the policy declares them, with a comma."""
    for named in of.list_tables(select) if select is not None else ():
        column = named.column(value.rsplit(".", maxsplit=1)[-1])
        bounds = None if column is None else named.table.bounds.get(column) or named.table.domain.get(column)
        low = getattr(bounds, "low", getattr(bounds, "start", None))
        high = getattr(bounds, "high", getattr(bounds, "stop", None))
        if low is not None and high is not None:
            return f"{low}, {high}"
    return None


def _add_group_key(of: RefusedStatement, node: exp.Expr, value: str, start: int, end: int) -> Advice | None:
    """Make the expression a group key: one row for each of its values."""
    select, block = node.find_ancestor(exp.Select), of.outline.block(start)
    group = select.args.get("group") if select is not None else None
    # An item of the select list alone, of a block whose keys are expressions.
    plain = select is not None and any(i.unalias() is node for i in select.expressions)
    if select is None or block is None or not plain or select.args.get("having") is not None:
        return None
    units = {n.unit for n in of.list_tables(select) if n.unit is not None}
    inside = {id(part) for part in node.walk()}
    counted = any(
        is_released(c) for i in select.expressions for c in aggregate_calls(i) if id(c) not in inside
    )
    if not counted and len(units) != 1:
        return None
    count = "" if counted else f", COUNT(DISTINCT {_qualify_unit(of, select, *units)}) AS n"
    items = [] if block.from_ is None else of.outline.items(block.select.end + 1, block.from_.start)
    start, end = next((item for item in items if item[0] <= start and end <= item[1]), (start, end))
    named = next((i.alias for i in select.expressions if i.unalias() is node and i.alias), "")
    shown = f"{value} AS {write_name(named)}" if named else value
    fix = Fix(shown + count, start, end, asks=f"one row for each {value}")
    if group is None:
        at = block.before(TokenType.GROUP_BY)
        return f"GROUP BY {value}", replace(fix, also=(add_clause(of.text, at, f"GROUP BY {value}"),))
    clause = block.clause(TokenType.GROUP_BY)
    if clause is None or not group.expressions or group.args.get("rollup") or group.args.get("cube"):
        return None
    at = len(of.text[: block.stop(clause)].rstrip())
    return f"GROUP BY .., {value}", replace(fix, also=(Fix(f", {value}", at, at),))


def _qualify_unit(of: RefusedStatement, select: exp.Select, unit: str) -> str:
    """Return a unit's column, with its table where there are several."""
    named = of.list_tables(select)
    return next(f"{n.alias}.{unit}" for n in named if n.unit == unit) if len(named) > 1 else unit


_SAME_PARTS = {
    "dayofyear": "doy",
    "isoweek": "week",
    "weekofyear": "week",
    "isodayofweek": "isodow",
    "dayofweekiso": "isodow",
    "dayofmonth": "day",
}
"""Parts of a date as other systems call them."""
_SUNDAYS = ("dayofweek", "weekday", "dow")
"""Parts that count days of a week from a number that differs from system to system."""


def advise_on_date_part(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Suggest dpsql's own name for an unknown date part in a call of EXTRACT or DATE_PART."""
    at = of.query.source.position(node)
    of_dates = one.message.lower().startswith(("date_part is", "datepart is"))
    names = ("extract", "date_part", "datepart") if of_dates else ()
    call = next((c for name in names if (c := of.outline.call_around(at, name)) is not None), None)
    if call is None:
        return None
    start, end, arguments = call
    whole = ", ".join(arguments)
    split = re.match(r"(?is)\s*'?(\w+)'?\s*(?:\bFROM\b|,)\s*", whole)
    if split is None:
        return None
    part, value = split[1].lower(), whole[split.end() :].strip()
    return _rename_part(of, part, value, start, end)


def _rename_part(of: RefusedStatement, part: str, value: str, start: int, end: int) -> Advice | None:
    known = _SAME_PARTS.get(part, SHORT_PARTS.get(part))
    if known is not None:
        written = f"EXTRACT({known.upper()} FROM {value})"
        return written, Fix(written, start, end)
    if part in _SUNDAYS:
        written = f"EXTRACT(DOW FROM {value})"
        return written, Fix(written, start, end, asks="days of the week from 0, a Sunday, to 6")
    return None


def advise_on_share(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the share of a quantile as a part of 1, where it is written in per cent."""
    at = of.query.source.position(node)
    token = next((t for t in of.outline.tokens if t.start == at), None)
    if not isinstance(node, exp.Literal) or node.is_string or token is None:
        return None
    share = f"{float(node.name) / 100:g}"
    if not 0.01 < float(share) <= 1:
        return None
    return share, Fix(share, token.start, token.end + 1)


def advise_on_missing_value(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write a column before the share of a quantile, where the share alone is there."""
    name = one.message.partition(" ")[0]
    call = of.outline.call_around(of.query.source.position(node), name)
    select = node.find_ancestor(exp.Select)
    if call is None or len(call[2]) != 1 or select is None or "0.5" not in one.message:
        return None
    if not re.fullmatch(r"[0-9.]+", call[2][0]):
        written = f"{name}({call[2][0]}, 0.5)"
        return written, Fix(written, call[0], call[1], guess="0.5")
    named = [column for table in of.list_tables(select) for column in table.table.bounds]
    if not named:
        return None
    written = f"{name}({named[0]}, {call[2][0]})"
    return written, Fix(written, call[0], call[1], guess=named[0])


def exchange_share(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """`PERCENTILE_CONT(cost) WITHIN GROUP (ORDER BY 0.5)` has its value and its share exchanged."""
    names = re.findall(r"(\w+)\s*\(", of.text[: of.query.source.position(node)])
    call = of.outline.call_around(of.query.source.position(node), names[-1]) if names else None
    if call is not None and len(call[2]) == 2 and re.fullmatch(r"0?\.\d+|[01]", call[2][0]):
        written = f"{of.text[call[0] : of.text.index('(', call[0])]}({call[2][1]}, {call[2][0]})"
        return written, Fix(written, call[0], call[1])
    form = r"(?i)\(\s*([\w.]+)\s*\)(\s*WITHIN\s+GROUP\s*\(\s*ORDER\s+BY\s+)(0?\.[0-9]+)"
    found = re.search(form, of.text)
    if found is None or found.start(1) != of.query.source.position(node):
        return None
    written = f"({found[3]}){found[2]}{found[1]}"
    return f"{written[1:]}", Fix(written, *found.span())


def write_part_out(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write a short name of a part of a date out: DATE_TRUNC('mon', day)."""
    call = of.outline.call_around(of.query.source.position(node), one.message.split(" ", 1)[0])
    tokens = [] if call is None else [t for t in of.outline.tokens if call[0] < t.start < call[1]]
    for token in tokens:
        near = difflib.get_close_matches(token.text.lower(), _PARTS, 1, 0.75)
        part = SHORT_PARTS.get(token.text.lower()) or (
            near[0] if near and near[0] != token.text.lower() else None
        )
        if part is not None and token.token_type == TokenType.STRING:
            return f"'{part}'", Fix(f"'{part}'", token.start, token.end + 1)
    return None


def write_interval(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the first argument of `time_bucket('1 hour', day)` as an INTERVAL."""
    call = of.call(node)
    width = None if call is None else re.fullmatch(r"'\s*(\d+)\s+([A-Za-z]+)\s*'", call[2][0])
    if call is None or width is None:
        return None
    written = f"time_bucket({', '.join([f'INTERVAL {width[1]} {width[2].upper()}', *call[2][1:]])})"
    return written, Fix(written, call[0], call[1])


_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "decade", "century")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)


def write_month_number(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Compare the month of a date with its number, where it is compared with its name."""
    named = {n.name for n in node.find_all(exp.Literal) if n.is_string}
    whole = [len(name) > 2 and any(d.startswith(name.lower()) for d in _WEEKDAYS) for name in named]
    called = re.search(r"(?i)\b(?:weekday|dayofweek|dow|isodow|day_of_week|day)(?=\s*\()", of.text)
    if named and all(whole) and called is not None:
        days = [t for t in of.outline.tokens if t.token_type == TokenType.STRING and len(t.text) > 2]
        full = [(t, d) for t in days for d in _WEEKDAYS if d.startswith(t.text.lower())]
        short = [Fix(f"'{day.capitalize()}'", t.start, t.end + 1) for t, day in full]
        return "dayname(..)", Fix("dayname", *called.span(), also=tuple(short))
    texts = {n.name for n in node.find_all(exp.Literal) if n.is_string and n.name.lower() in _MONTHS}
    tokens = [t for t in of.outline.tokens if t.token_type == TokenType.STRING and t.text in texts]
    if "MONTH" not in of.text.upper():
        return None
    return change_all([Fix(str(_MONTHS.index(t.text.lower()) + 1), t.start, t.end + 1) for t in tokens])


def write_type_of_date(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write DATE before a text from which an INTERVAL is taken."""
    at = of.query.source.position(node)
    token = next((t for t in of.outline.tokens if t.start >= at and t.token_type == TokenType.STRING), None)
    if token is None or not re.fullmatch(r"\d{4}-\d\d-\d\d", token.text):
        return None
    calls = re.finditer(r"(?i)\bDATE_?(?:ADD|SUB)\(\s*(?='\d{4}-\d\d-\d\d'\s*,)", of.text)
    also = tuple(Fix("DATE ", m.end(), m.end()) for m in calls if m.end() != token.start)
    return f"DATE '{token.text}'", Fix("DATE ", token.start, token.start, also=also)


def select_units_of_table(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the subquery that `patient_id IN visits` means, or `IN visits.patient_id`."""
    at = of.query.source.position(node)
    named = re.search(r"(?i)\bIN\s+(\w+)\.(\w+)", of.text)
    if named is not None and named[1].isascii() and of.policy.table(named[1]) is not None:
        listed = f"(SELECT {named[2]} FROM {named[1]})"
        return f"IN {listed}", Fix(listed, named.start(1), named.end(2))
    token = next((t for t in of.outline.tokens if t.start >= at and t.token_type == TokenType.VAR), None)
    for query in find_nodes(of.original(node).root(), exp.CTE):
        if token is not None and fold(query.alias) == fold(token.text) and len(query.this.named_selects) == 1:
            written = f"(SELECT {write_name(query.this.named_selects[0])} FROM {token.text})"
            return f"IN {written}", Fix(written, token.start, token.end + 1)
    table = of.policy.table(token.text) if token is not None and token.text.isascii() else None
    unit = table.unit.column if table is not None and isinstance(table.unit, UnitColumn) else None
    if token is None or unit is None:
        return None
    written = f"(SELECT {unit} FROM {token.text})"
    return f"IN {written}", Fix(written, token.start, token.end + 1)


def write_pivot_out(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write each column that PIVOT makes as an aggregate with FILTER."""
    block, text = of.outline.block(0), of.text
    word = next((t for t in of.outline.tokens if t.text.upper() == "PIVOT"), None)
    call = None if word is None else of.outline.call(word.start)
    if word is None or call is None or block is None or block.from_ is None:
        return None
    form = r"(?is)\(\s*(.+?)(?:\s+AS\s+\w+)?\s+FOR\s+(\w+)\s+IN\s*\((.+)\)\s*\)"
    said = re.fullmatch(form, text[word.end + 1 : call + 1].strip())
    options, begin = split_options(of, block)
    if said is None or "," in said[1]:
        return None
    items = dict[str, str]()
    for listed in re.split(r"\s*,\s*(?=[\[\"'\d])", said[3].strip()):
        each = re.fullmatch(
            r"""(?i)(?:'([^']+)'|\[([^\]]+)\]|"([^"]+)"|(\d+))(?:\s+AS\s+["\[]?(\w+)["\]]?)?""", listed
        )
        if each is None:
            return None  # a subquery
        value = each[1] or each[2] or each[3] or each[4]
        same = each[4] or f"'{value}'"
        named = write_name(each[5] or value)
        items[each[5] or value] = f"{said[1]} FILTER (WHERE {said[2]} = {same}) AS {named}"
    rows, keys, rest = text[block.from_.start : word.start].strip(), "", text[call + 1 :]
    inner = re.fullmatch(r"(?is)FROM\s*\(\s*SELECT\s+([\w\s,.]+?)\s+(FROM\s.+)\)(?:\s+(?:AS\s+)?\w+)?", rows)
    if inner is not None:  # what it selects besides are the groups
        read = set(re.findall(r"\w+", said[1].lower())) | {said[2].lower()}
        keys = ", ".join(
            k.strip() for k in inner[1].split(",") if k.strip().lower().split(".")[-1] not in read
        )
        rest = re.sub(r"(?i)\A\s*(?:AS\s+)?(?!ORDER\b|LIMIT\b|WHERE\b)\w+", "", rest)
        rows = f"{inner[2].strip()}{f' GROUP BY {keys}' if keys else ''}"
    parts = [*([keys] if keys else []), *items.values()]
    selected = text[begin : block.from_.start].strip()
    if selected != "*":
        names = [re.sub(r"(?i)\A\w+\.(?=\W|\w)|[\[\]\"]", "", name).strip() for name in selected.split(",")]
        if inner is None or not all(name in items or name in keys.split(", ") for name in names):
            return None
        parts = [items.get(name, name) for name in names]
    listed = ", ".join(parts)
    made = f"SELECT {options}{listed} {rows}{rest}"
    return made, Fix(text[: block.select.start] + made, 0, len(text))
