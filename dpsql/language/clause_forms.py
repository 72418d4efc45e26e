"""Read clauses, constant intervals and formats of dates of other dialects as the forms that dpsql knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp

from dpsql.language.select_parts import list_conjuncts
from dpsql.language.syntax_trees import MARK, copy_tree, walk_tree
from dpsql.lazy_pattern import lazy_pattern

_AGGREGATES = frozenset({"count", "sum", "avg", "min", "max"})
_ONE_TIME = frozenset({exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ})


def split_joins(table: exp.Table) -> tuple[exp.Table, list[exp.Expr]]:
    """Return a table without the joins that the parser hangs on it, and the joins."""
    joins = [copy_tree(join) for join in table.args.get("joins") or ()]
    bare = copy_tree(table)
    bare.set("joins", None)
    return bare, joins


def flatten_joins(select: exp.Select) -> None:
    """Leave out parentheses around the first joins of FROM."""
    first = select.args.get("from_")
    group = first.this if isinstance(first, exp.From) else None
    if not isinstance(first, exp.From) or not isinstance(group, exp.Subquery):
        return
    if isinstance(group.this, exp.Table) and not group.args.get("alias"):
        table, joins = split_joins(group.this)
        more = [*(group.args.get("joins") or ()), *(select.args.get("joins") or ())]
        first.set("this", table)
        select.set("joins", [*joins, *more])


def filter_window(node: exp.Window) -> exp.Expr | None:
    """Write FILTER of a window as a CASE in its argument: what is NULL, these aggregates leave out."""
    call, where = node.this.this, node.this.expression.this
    if read_name(call) not in _AGGREGATES or len(call.expressions) != 1:
        return None
    argument = call.expressions[0]
    if isinstance(argument, (exp.Distinct, exp.Kwarg, exp.Order)):
        return None
    value = exp.Literal.number(1) if isinstance(argument, exp.Star) else argument
    made, inner = copy_tree(node), copy_tree(call)
    inner.set("expressions", [exp.Case(ifs=[exp.If(this=copy_tree(where), true=copy_tree(value))])])
    made.set("this", inner)
    return made


def select_series(select: exp.Select, *, rows: bool) -> None:
    """Move the only item of a SELECT to FROM, if it is a series that is unnested or cast.

    PostgreSQL's `generate_series(..)::DATE` has a row for each; in DuckDB no list becomes one day. `rows`
    says that a series has rows as it stands.
    """
    if len(select.expressions) != 1 or _has_rows_before_unnest(select):
        return
    item = select.expressions[0].unalias()
    cast = (
        item if isinstance(item, exp.Cast) and item.to.this in _ONE_TIME and not item.to.expressions else None
    )
    call = cast.this if cast is not None else item
    call = call.this if isinstance(call, exp.Explode) else call if cast is not None or rows else None
    if call is None or read_name(call) not in ("generate_series", "range"):
        return
    name = exp.to_identifier(select.expressions[0].alias or "unnest", quoted=True)
    alias = exp.TableAlias(this=exp.to_identifier("dpsql_list"), columns=[name])
    listed = exp.Unnest(expressions=[copy_tree(call)], alias=alias, offset=False)
    if select.args.get("from_") is None:
        select.set("from_", exp.From(this=listed))
    else:
        select.append("joins", exp.Join(this=listed))
    column = exp.Column(this=copy_tree(name), table=exp.to_identifier("dpsql_list"))
    made: exp.Expr = column if cast is None else exp.Cast(this=column, to=copy_tree(cast.to))
    item.replace(made)


def _has_rows_before_unnest(select: exp.Select) -> bool:
    """Return whether a clause reads the rows that a select list has before its UNNEST."""
    return any(select.args.get(name) is not None for name in ("group", "having", "qualify"))


def unnest_series(item: exp.Table | exp.Lateral) -> exp.Expr | None:
    """Return a series of FROM whose ends are no constants, as PostgreSQL has it, as the items of a list.

    They are queries, or columns of the items before it, with LATERAL or without.
    """
    call, read = item.this, (exp.Query, exp.Column)
    if read_name(call) not in ("generate_series", "range"):
        return None
    if isinstance(item, exp.Table) and not any(isinstance(n, read) for n in walk_tree(call)):
        return None
    given = {name: value for name, value in item.args.items() if name in ("alias", "joins") and value}
    return exp.Unnest(expressions=[copy_tree(call)], offset=False, **given)


def move_unnest(select: exp.Select) -> None:
    """Move UNNEST from a select list to FROM; of two, DuckDB pairs the items, so they stay."""
    found = [n for item in select.expressions if isinstance(n := item.unalias(), exp.Explode)]
    if len(found) != 1 or select.args.get("from_") is None or _has_rows_before_unnest(select):
        return
    if any(isinstance(n, exp.Window) for item in select.expressions for n in walk_tree(item)):
        return
    item = found[0]
    name = item.parent.alias if isinstance(item.parent, exp.Alias) else "unnest"
    alias = exp.TableAlias(
        this=exp.to_identifier("dpsql_list"), columns=[exp.to_identifier(name, quoted=True)]
    )
    join = exp.Join(this=exp.Unnest(expressions=[copy_tree(item.this)], alias=alias, offset=False))
    select.append("joins", join)
    column = exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier("dpsql_list"))
    item.replace(column)


def read_name(node: exp.Expr) -> str:
    """Return the name of a function call in small letters; "" for other nodes."""
    this = node.this if isinstance(node, exp.Anonymous) else None
    return this[len(MARK) :].lower() if isinstance(this, str) and this.startswith(MARK) else ""


def read_ordered_set(name: str, arguments: list[exp.Expr]) -> exp.Expr | None:
    """Return `QUANTILE_CONT(x, 0.5 ORDER BY x)` with WITHIN GROUP, as DuckDB reads it; None for others."""
    if name not in ("quantile_cont", "quantile_disc") or len(arguments) != 2:
        return None
    value, order = arguments
    if not isinstance(order, exp.Order) or len(order.expressions) != 1:
        return None
    (term,) = order.expressions
    if term.this != value:
        return None
    call = f"{MARK}{name.replace('quantile', 'percentile')}"
    sort = exp.Ordered(this=copy_tree(value), desc=bool(term.args.get("desc")))
    within = exp.Order(expressions=[sort])
    return exp.WithinGroup(
        this=exp.Anonymous(this=call, expressions=[copy_tree(order.this)]), expression=within
    )


_PLACES = {"OFFSET": 0, "SAFE_OFFSET": 0, "ORDINAL": 1, "SAFE_ORDINAL": 1}
"""The number of the first place of a list."""


def read_place(node: exp.Bracket) -> exp.Expr | None:
    """Return BigQuery's `APPROX_QUANTILES(x, n)[OFFSET(k)]` as the quantile that it is; None for others."""
    call, place = node.this, node.expressions[0]
    zero = _PLACES.get(place.name.removeprefix(MARK).upper())
    if read_name(call) != "approx_quantiles" or len(call.expressions) != 2 or zero is None:
        return None
    numbers = [call.expressions[1], *place.expressions]
    if len(numbers) != 2 or not all(isinstance(n, exp.Literal) and n.name.isdecimal() for n in numbers):
        return None
    parts, at = int(numbers[0].name), int(numbers[1].name) - zero
    if not 0 <= at <= parts or parts == 0:
        return None
    share = [] if at in (0, parts) else [exp.Literal.number(f"{at / parts:.12g}")]
    name = "min" if at == 0 else "max" if at == parts else "quantile_disc"
    return exp.Anonymous(this=f"{MARK}{name}", expressions=[copy_tree(call.expressions[0]), *share])


def move_subqueries(select: exp.Select) -> None:
    """Move conditions with a subquery from ON: of an inner join to WHERE, of a LEFT JOIN into its right item.

    The latter only where the condition names columns of the right item alone, with its alias.
    """
    joins = select.args.get("joins") or []
    sides = [str(join.args.get("side") or "").upper() for join in joins]
    moved: list[exp.Expr] = []
    for place, (join, side) in enumerate(zip(joins, sides, strict=True)):
        parts = list_conjuncts(join.args.get("on"))
        own = [part for part in parts if _has_subquery(part)]
        if not own or join.args.get("using") or str(join.args.get("kind") or "").upper() not in ("", "INNER"):
            continue
        alias, item = join.this.alias_or_name, join.this
        if not side and not {"RIGHT", "FULL"} & {*sides[place + 1 :]}:
            moved += own
        elif side == "LEFT" and alias and all(_names_only(part, alias) for part in own):
            inner = exp.Select(expressions=[exp.Star()], from_=exp.From(this=copy_tree(item)))
            inner.set("where", exp.Where(this=exp.and_(*(copy_tree(part) for part in own), copy=False)))
            inner.meta["select"] = -1
            named = exp.TableAlias(this=exp.to_identifier(alias))
            join.set("this", exp.Subquery(this=inner, alias=named))
        else:
            continue
        left = [copy_tree(part) for part in parts if part not in own]
        join.set("on", exp.and_(*left, copy=False) if left else None)
        if not left:
            if side:
                join.set("on", exp.true())
            else:
                join.set("kind", "CROSS")
    if moved:
        where = select.args.get("where")
        every = [*([] if where is None else [where.this]), *moved]
        select.set("where", exp.Where(this=exp.and_(*(copy_tree(each) for each in every), copy=False)))


def compare_rows(node: exp.In) -> exp.Expr | None:
    """Write `(a, b) IN (SELECT ..)` as EXISTS, of a list of constants as comparisons; None for other forms.

    IN of a query is NULL where EXISTS is false, so only where both leave out the row.
    """
    row, query = node.this.unnest() if node.this is not None else None, node.args.get("query")
    if not isinstance(row, exp.Tuple):
        return None
    width = len(row.expressions)
    if query is None:
        listed = [each.unnest() for each in node.expressions]
        if any(not isinstance(each, exp.Tuple) or len(each.expressions) != width for each in listed):
            return None
        return exp.Paren(this=exp.or_(*(_equate(row, each) for each in listed), copy=False))
    inner = query.this if isinstance(query, exp.Subquery) else query
    if not isinstance(inner, exp.Query) or len(inner.selects) != width or not _is_kept(node):
        return None
    names = [exp.to_identifier(str(i + 1), quoted=True) for i in range(width)]
    alias = exp.TableAlias(this=exp.to_identifier("dpsql_rows"), columns=[copy_tree(n) for n in names])
    equal = [
        exp.EQ(this=exp.Column(this=n, table=exp.to_identifier("dpsql_rows")), expression=copy_tree(a))
        for n, a in zip(names, row.expressions, strict=True)
    ]
    found = exp.Select(expressions=[exp.Literal.number(1)])
    found.set("from_", exp.From(this=exp.Subquery(this=copy_tree(inner), alias=alias)))
    found.set("where", exp.Where(this=exp.and_(*equal, copy=False)))
    return exp.Exists(this=found)


def _equate(row: exp.Tuple, other: exp.Tuple) -> exp.Expr:
    """Return the comparison of two rows, of which a NULL equals a NULL."""
    pairs = zip(row.expressions, other.expressions, strict=True)
    parts = (exp.NullSafeEQ(this=copy_tree(a), expression=copy_tree(b)) for a, b in pairs)
    return exp.Paren(this=exp.and_(*parts, copy=False))


def _is_kept(node: exp.Expr) -> bool:
    """Return whether a row is kept where a condition is true, and not where it is false or NULL."""
    around = node.parent
    while isinstance(around, (exp.And, exp.Or, exp.Paren)):
        node, around = around, around.parent
    return isinstance(around, (exp.Where, exp.Having, exp.Qualify)) or (
        isinstance(around, exp.If) and around.this is node
    )


def _has_subquery(node: exp.Expr) -> bool:
    return any(isinstance(each, exp.Query) and not isinstance(each, exp.Table) for each in walk_tree(node))


def _names_only(node: exp.Expr, alias: str) -> bool:
    """Return whether the columns outside of subqueries are those of one item, by its alias."""
    outside = walk_tree(node, lambda each: isinstance(each, exp.Query))
    names = [each.table.lower() for each in outside if isinstance(each, exp.Column)]
    return all(name == alias.lower() for name in names)


def _convert_to_char(text: str) -> str | None:
    """Return PostgreSQL's format as strftime's; None if a code pads or depends on the locale."""
    names = re.sub("FMMonth|FMDay|Mon|Dy", "", text)
    if re.search("MON|DAY|DY", names, re.IGNORECASE):
        return None
    return _convert(text, rf"FMMonth|FMDay|Mon|Dy|{_CODES}", _TO_CHAR)


def _convert_to_upper_char(text: str) -> str | None:
    """Return PostgreSQL's format with names in capitals as strftime's, whose result is put into capitals.

    >>> _convert_to_upper_char("MON-YYYY"), _convert_to_upper_char("MON yyyy 'x'")
    ('%b-%Y', None)
    """
    if any(char.islower() for char in text) or not re.search("MON(?!TH)|DY|FMMONTH|FMDAY", text):
        return None
    return _convert(text, rf"FMMONTH|FMDAY|MON|DY|{_CODES}", _TO_CHAR)


def _convert_date_format(text: str) -> str | None:
    """Return MySQL's or Java's format as strftime's; None if a code pads; names are English."""
    if "%" in text:
        return _convert(text, "%.|.", _MYSQL, case=True)
    return _convert(text, "'[^']*'|([A-Za-z])\\1*|.", _JAVA, case=True)


def _convert_strftime(text: str) -> str | None:
    """Return the format if its codes are digits or names, which are English in all dialects."""
    return _convert(text, "%.|.", _STRFTIME, case=True)


_CODES = r'IYYY|YYYY|SSSS+|HH24|HH12|HH|DDD|IW|YY|MM|DD|MI|SS|US|FF6|"[^"]*"|[A-Z]+|.'
_TO_CHAR = {"YYYY": "%Y", "YY": "%y", "MM": "%m", "DD": "%d", "HH24": "%H", "MI": "%M", "SS": "%S"}
_TO_CHAR |= dict.fromkeys(("HH", "HH12"), "%I")
_TO_CHAR |= {"US": "%f", "FF6": "%f", "DDD": "%j", "IYYY": "%G", "IW": "%V"}
_TO_CHAR |= {"MON": "%b", "DY": "%a", "FMMONTH": "%B", "FMDAY": "%A"}
_JAVA = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "DDD": "%j"}
_JAVA |= {"MMM": "%b", "MMMM": "%B", "EEE": "%a", "EEEE": "%A"}
_STRFTIME = {f"%{c}": f"%{c}" for c in "YmdHMSyjGVbBaA"} | {"%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%%": "%%"}
_MYSQL: dict[str, str | None] = {
    **_STRFTIME,
    "%i": "%M",
    "%s": "%S",
    "%f": "%f",
    "%M": "%B",
    "%W": "%A",
    "%x": "%G",
    "%v": "%V",
}
_MYSQL |= dict.fromkeys(("%G", "%V", "%F", "%B", "%A"))


def _convert(text: str, pattern: str, codes: Mapping[str, str | None], *, case: bool = False) -> str | None:
    out = []
    for match in re.finditer(pattern, text, re.DOTALL if case else re.DOTALL | re.IGNORECASE):
        word = match[0] if case else match[0].upper()
        if word in codes:
            code = codes[word]
            if code is None:
                return None
            out.append(code)
        elif len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
            out.append(match[0][1:-1].replace("%", "%%"))
        elif len(word) == 1 and not word.isalpha() and word != "%":
            out.append(word)
        else:
            return None
    return "".join(out)


FORMATS: Mapping[str, Callable[[str], str | None]] = {
    "TO_CHAR": _convert_to_char,
    "TO_CHAR_UPPER": _convert_to_upper_char,
    "TO_CHAR_PADDED": {"Month": "%B", "Day": "%A"}.get,
    "TO_CHAR_PADDED_UPPER": {"MONTH": "%B", "DAY": "%A"}.get,
    "DATE_FORMAT": _convert_date_format,
    "STRFTIME": _convert_strftime,
}

_TEXT = lazy_pattern(r"\s*([+-]?\d{1,9})\s+([A-Za-z]+)\s*")


def read_interval(node: exp.Expr) -> exp.Expr | None:
    """Return an interval with a whole number as its amount; None if the node stays as it is.

    >>> from dpsql.language import parse
    >>> [str(item) for item in parse("SELECT INTERVAL (-1) MONTH, INTERVAL '1' DAY * 2").tree.selects]
    ["INTERVAL '-1' MONTH", "INTERVAL '2' DAY"]
    """
    match node:
        case exp.Interval():
            amount = node.this
            if amount is None or isinstance(amount, exp.Literal):
                return None
            number = _read_whole(amount)
            return None if number is None else _multiply(node, number, 1)
        case exp.Neg() if isinstance(node.this.unnest(), exp.Interval):
            return _multiply(node.this.unnest(), _amount(node.this.unnest()), -1)
        case exp.Mul():
            sides = node.this.unnest(), node.expression.unnest()
            for span, factor in (sides, sides[::-1]):
                number = _read_whole(factor)
                if isinstance(span, exp.Interval) and number is not None:
                    return _multiply(span, _amount(span), number)
        case exp.Cast() if node.to.this == exp.DataType.Type.INTERVAL and not node.to.expressions:
            text = node.this
            found = _TEXT.fullmatch(text.name) if isinstance(text, exp.Literal) and text.is_string else None
            if found is not None:
                return _make(int(found[1]), exp.Var(this=found[2].upper()))
    return None


_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800, "month": 2_592_000}
_SECONDS |= {"quarter": 7_776_000, "year": 31_104_000}
"""How long an INTERVAL is where it is compared: a month counts as 30 days."""


def compare_elapsed(node: exp.Expr) -> exp.Expr | None:
    """Return a comparison of the time between two points with INTERVALs as one of seconds; None for others.

    >>> from dpsql.language import parse
    >>> parse("SELECT b - a > INTERVAL 5 MINUTE").tree.sql()
    'SELECT EXTRACT(epoch FROM b - a) > 300'
    """
    names = ("this", "low", "high") if isinstance(node, exp.Between) else ("this", "expression")
    sides = [node.args[name] for name in names]
    spans = {name: _read_seconds(side) for name, side in zip(names, sides, strict=True)}
    between = [name for name, found in spans.items() if found is None]
    if len(between) != 1 or not isinstance(node.args[between[0]].unnest(), exp.Sub):
        return None
    difference = node.args[between[0]].unnest()
    if any(isinstance(each.unnest(), exp.Interval) for each in (difference.this, difference.expression)):
        return None
    made = copy_tree(node)
    for name, seconds in spans.items():
        elapsed = exp.Extract(this=exp.Var(this="epoch"), expression=copy_tree(difference))
        made.set(name, elapsed if seconds is None else exp.Literal.number(seconds))
    return made


def _read_seconds(node: exp.Expr) -> int | None:
    """Return how many seconds a constant INTERVAL is; None for other expressions."""
    span = node.unnest()
    amount = _amount(span) if isinstance(span, exp.Interval) else None
    unit = span.args["unit"].name.lower().removesuffix("s") if amount is not None else ""
    return None if amount is None or unit not in _SECONDS else amount * _SECONDS[unit]


def _multiply(span: exp.Interval, amount: int | None, factor: int) -> exp.Expr | None:
    unit = span.args.get("unit")
    if amount is None or unit is None or abs(amount * factor) >= 10**9:
        return None
    return _make(amount * factor, copy_tree(unit))


def _make(amount: int, unit: exp.Expr) -> exp.Interval:
    return exp.Interval(this=exp.Literal.string(str(amount)), unit=unit)


def _amount(span: exp.Interval) -> int | None:
    """Return the amount of an interval that is a literal whole number."""
    text = span.this.name if isinstance(span.this, exp.Literal) else ""
    return int(text) if re.fullmatch(r"[+-]?\d{1,9}", text) else None


def _read_whole(node: exp.Expr) -> int | None:
    """Return the value of an expression of literal whole numbers; None for others."""
    match node:
        case exp.Paren():
            return _read_whole(node.this)
        case exp.Neg():
            inner = _read_whole(node.this)
            return None if inner is None else -inner
        case exp.Literal():
            known = not node.is_string and str(node.this).isdecimal() and len(str(node.this)) < 10
            return int(node.this) if known else None
        case exp.Add() | exp.Sub() | exp.Mul():
            a, b = _read_whole(node.this), _read_whole(node.expression)
            if a is None or b is None:
                return None
            return a + b if isinstance(node, exp.Add) else a - b if isinstance(node, exp.Sub) else a * b
    return None
