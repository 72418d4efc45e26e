"""Rules for special syntax: elements, ESCAPE, SIMILAR TO, SUBSTRING, TRIM, lambdas, AT TIME ZONE.

No engine's own function is called: each has another database of zones, and fails on a name that it does not
know. The changes of a zone are constants of a nested CASE, those of the column's declared range or else of
1970 to 2037; earlier and later times have the offsets of the ends. Each branch is a total function of the
row.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.compiler import Rule, StatementCompiler, call_name
from dpsql.analysis.conversions import convert_implicitly, name_database, read_in_zone, show_in_zone
from dpsql.analysis.facts_of_values import build_typed
from dpsql.analysis.scalar_functions import is_failing_on_samples
from dpsql.analysis.scalar_rules import compile_condition, make_call_rule
from dpsql.analysis.total_forms import check_pattern, check_regex
from dpsql.analysis.typed_expression import (
    GRAINS,
    Bounds,
    Literal,
    LocalTime,
    Span,
    Typed,
    count_seconds,
    make_constant,
)
from dpsql.kernel.tree import (
    Apply,
    Binary,
    Call,
    Case,
    Constant,
    Element,
    Expr,
    Lambda,
    Like,
    ListOf,
    Moved,
    Parameter,
    Paren,
    Slice,
    Try,
    Unary,
)
from dpsql.kernel.tree.forms import NEGATED, SHORT_LIST, listed_forms, overlaid
from dpsql.language import walk_tree
from dpsql.policy import Assumed, fold, zones
from dpsql.types import BIGINT, BOOLEAN, INTEGER, TIMESTAMP, TIMESTAMPTZ, VARCHAR, SqlType

_ITEMS = frozenset({"VARCHAR", "BIGINT", "INTEGER", "DATE", "BOOLEAN"})
_TEXTS = 1000
"""The most characters of all texts in a lambda together: each item of a list may become that long."""


def _read_integer(node: exp.Expr | None) -> int | None:
    """Return the value of an integer literal with its sign; None for other nodes."""
    if isinstance(node, exp.Neg):
        inner = _read_integer(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and not node.args.get("is_string") and str(node.this).isdecimal():
        return int(node.this) if len(str(node.this)) < 10 else None
    return None


def _bracket(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    value = compiler.expression(node.this, scope)
    if value.type != VARCHAR and value.type.name != "LIST":
        raise compiler.source.refuse(f"{value.type} has no elements", node)
    if len(node.expressions) != 1:
        raise compiler.source.refuse("one index at a time", node)
    if value.type.item is not None and value.type.item.name not in _ITEMS:
        raise compiler.source.refuse(f"elements of {value.type} are not taken", node)
    index = node.expressions[0]
    if isinstance(index, exp.Slice):
        low, high = _read_integer(index.this), _read_integer(index.args.get("expression"))
        if low is None or high is None or index.args.get("step") is not None:
            raise compiler.source.refuse("a slice has two whole numbers", node, "a[1:3]")
        return build_typed(Paren(Slice(value.node, low, high)), value.type, value)
    sql_type = value.type.item if value.type.item is not None else VARCHAR
    literal = _read_integer(index)
    if literal is not None:
        place = Typed(_make_integer(literal + 1), BIGINT)  # the parser counts literal places from 0
    else:
        found = convert_implicitly(compiler.catalog, compiler.expression(index, scope), BIGINT)
        if found is None:
            raise compiler.source.refuse("an index is a whole number", node)
        place = found
    if isinstance(node.this, (exp.Split, exp.Anonymous)) and literal is not None:
        compiler.assume(
            Assumed(f"element {literal + 1} of a list is counted from 1 (BigQuery, Spark: from 0)")
        )
    element: Expr = Element(value.node, place.node)
    if value.type == VARCHAR:
        element = Try(element)
    return build_typed(Paren(element), sql_type, value, place)


def _make_integer(number: int) -> Expr:
    return Constant(number, BIGINT) if number >= 0 else Unary("-", Constant(-number, BIGINT))


def _read_pattern(compiler: StatementCompiler, node: exp.Expr, what: str) -> Typed:
    if not isinstance(node, exp.Literal) or not node.args.get("is_string"):
        raise compiler.source.refuse(f"{what} is a literal text here", node)
    return make_constant(str(node.this), VARCHAR)


def _compile_text(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    value = compiler.expression(node, scope)
    if value.type != VARCHAR:
        raise compiler.source.refuse(f"this is {value.type}, not VARCHAR", node, "CAST(... AS VARCHAR)")
    return value


def _is_escape_followed(pattern: str, escape: str) -> bool:
    """Return whether a character follows every escape character; else the engine fails on some rows."""
    i = 0
    while i < len(pattern):
        if pattern[i] == escape:
            i += 1
            if i >= len(pattern):
                return False
        i += 1
    return True


def _escape(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    like = node.this
    if not isinstance(like, (exp.Like, exp.ILike)):
        raise compiler.source.refuse("ESCAPE goes with LIKE", node)
    value = _compile_text(compiler, like.this, scope)
    pattern = _read_pattern(compiler, like.expression, "a pattern with ESCAPE")
    mark = _read_pattern(compiler, node.expression, "ESCAPE")
    word = "LIKE" if isinstance(like, exp.Like) else "ILIKE"
    escape = str(node.expression.this)
    if len(escape) != 1 or not escape.isascii() or not _is_escape_followed(str(like.expression.this), escape):
        raise compiler.source.refuse(
            "the escape must be one ASCII character, and a character must follow each occurrence",
            node,
            "LIKE '50$%' ESCAPE '$'",
        )
    check_pattern(compiler.source, str(like.expression.this), like.expression, escape=escape)
    if is_failing_on_samples(compiler.catalog, f"({{0}} {word} {{1}} ESCAPE {{2}})", [value, pattern, mark]):
        raise compiler.source.refuse("the engine does not take this pattern", node)
    found = Paren(Like(value.node, word, pattern.node, mark.node))
    made = Apply(NEGATED, (found,)) if like.args.get("negate") else Paren(found)
    return build_typed(made, BOOLEAN, value)


def _similar(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    value = _compile_text(compiler, node.this, scope)
    pattern = _read_pattern(compiler, node.expression, "the pattern of SIMILAR TO")
    check_regex(compiler.source, str(node.expression.this), node.expression)
    if is_failing_on_samples(compiler.catalog, "({0} SIMILAR TO {1})", [value, pattern]):
        raise compiler.source.refuse("the engine does not take this pattern", node)
    return build_typed(Paren(Binary("SIMILAR TO", value.node, pattern.node)), BOOLEAN, value)


def _trim(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    name = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(
        str(node.args.get("position") or "").upper()
    )
    if name is None:
        raise compiler.source.refuse("TRIM takes BOTH, LEADING or TRAILING", node)
    return make_call_rule(name, "this", "expression")(compiler, node, scope)


def _overlay(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    value = _compile_text(compiler, node.this, scope)
    put = _read_pattern(compiler, node.expression, "the text of OVERLAY")
    start, length = _read_integer(node.args.get("from_")), _read_integer(node.args.get("for_"))
    if (
        start is None
        or start < 1
        or (node.args.get("for_") is not None and length is None)
        or len(put.text or "") > 1000
    ):
        raise compiler.source.refuse("OVERLAY takes whole numbers and a short text", node)
    arguments = [value, put, *(make_constant(n, BIGINT) for n in (start, length) if n is not None)]
    made = f"overlay({{0}} PLACING {{1}} FROM {{2}}{'' if length is None else ' FOR {3}'})"
    if is_failing_on_samples(compiler.catalog, made, arguments):
        raise compiler.source.refuse("OVERLAY does not take these numbers: it fails on some texts", node)
    return build_typed(Apply(overlaid(len(arguments)), tuple(a.node for a in arguments)), VARCHAR, value)


def _identifier(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile the parameter of a lambda."""
    if fold(node.name) in scope.aliases and not scope.origins:
        return scope.aliases[fold(node.name)]
    raise compiler.source.refuse("a lambda uses only its own parameter", node)


def compile_lambda_call(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile list_filter or list_transform; the lambda may use only its own parameter."""
    name = call_name(node)
    hint = f"{name}(items, lambda x: x > 1)"
    if len(node.expressions) != 2 or not isinstance(node.expressions[1], exp.Lambda):
        raise compiler.source.refuse(f"{name} takes a list and a lambda", node, hint)
    value = compiler.expression(node.expressions[0], scope)
    item = value.type.item
    function = node.expressions[1]
    if item is None or item.name not in _ITEMS:
        raise compiler.source.refuse(f"{name} does not take {value.type}", node)
    if len(function.expressions) != 1 or not isinstance(function.expressions[0], exp.Identifier):
        raise compiler.source.refuse("a lambda has one parameter", node, hint)
    texts = 0
    for part in walk_tree(function.this):
        name_of = call_name(part)
        grows = any("C" in form.guard.split("+") for form in listed_forms().get(name_of, ()))
        if isinstance(part, exp.Literal) and part.is_string:
            texts += len(part.this)
        if grows or name_of == "concat" or isinstance(part, (exp.DPipe, exp.Overlay)):
            raise compiler.source.refuse("a lambda may not make longer texts", part)
    if texts > _TEXTS:  # each item could become all of them
        raise compiler.source.refuse(f"the texts in a lambda are longer than {_TEXTS} characters", function)
    parameter = Typed(Parameter("p"), item)
    inner = Scope(compiler.source, aliases={fold(function.expressions[0].name): parameter})
    if name == "list_filter":
        body = compile_condition(compiler, function.this, inner)
        sql_type = value.type
    else:
        body = compiler.expression(function.this, inner)
        if body.type.name not in _ITEMS:
            raise compiler.source.refuse(f"a list of {body.type} is not made", node)
        sql_type = SqlType("LIST", item=body.type)
    made: Expr = Call(name, (value.node, Lambda("p", body.node)))
    if texts and name == "list_transform" and body.type == VARCHAR:
        made = Apply(SHORT_LIST, (value.node, Constant(texts, BIGINT), made))
    return build_typed(made, sql_type, value)


def _array(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile a list of literals, which is an argument of a list function."""
    values = [compiler.expression(e, scope) for e in node.expressions]
    if not values or any(v.literal is None or v.type not in (VARCHAR, INTEGER, BIGINT) for v in values):
        raise compiler.source.refuse("a list holds literal numbers or texts here", node)
    sql_type = VARCHAR if values[0].type == VARCHAR else BIGINT
    fitted = [convert_implicitly(compiler.catalog, v, sql_type) for v in values]
    if any(f is None for f in fitted):
        raise compiler.source.refuse("the items of a list have one type", node)
    items = ListOf(tuple(f.node for f in fitted if f is not None))
    return Typed(items, SqlType("LIST", item=sql_type), literal=Literal(("LIST", items)))


SYNTAX_RULES = (
    Rule(exp.Bracket, _bracket, frozenset({"this", "expressions", "offset", "safe"})),
    Rule(exp.Escape, _escape, frozenset({"this", "expression"})),
    Rule(exp.SimilarTo, _similar, frozenset({"this", "expression"})),
    Rule(exp.StrPosition, make_call_rule("strpos", "this", "substr"), frozenset({"this", "substr"})),
    Rule(
        exp.Substring,
        make_call_rule("substring", "this", "start", "length"),
        frozenset({"this", "start", "length"}),
    ),
    Rule(exp.Trim, _trim, frozenset({"this", "expression", "position"})),
    Rule(exp.Overlay, _overlay, frozenset({"this", "expression", "from_", "for_"})),
    Rule(exp.BitwiseNot, make_call_rule("~", "this"), frozenset({"this"})),
    Rule(exp.Identifier, _identifier, frozenset({"this", "quoted"})),
    Rule(exp.Array, _array, frozenset({"expressions", "value_constructor", "bracket_notation"})),
)

_FIRST = int(datetime(1970, 1, 1, tzinfo=UTC).timestamp())
_LAST = int(datetime(2037, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())
_MOST_NOTED = 4
_EPOCH = datetime(1970, 1, 1)


def move_time(value: Expr, steps: zones.Steps) -> Expr:
    """Return an expression that adds to a moment the zone's offset that holds at this moment."""
    return Paren(_choose_offset(value, steps, 0, len(steps.starts)))


def find_steps(sql_type: SqlType, zone: zones.Zone, span: Span | None) -> zones.Steps:
    """Return the zone's offsets that convert an instant to local time, or a local time to UTC."""
    first, last = zone_limits(span)
    if sql_type == TIMESTAMPTZ:
        return zone.of_instants(first, last)
    return zone.of_local_times(first - zones.DAY, last + zones.DAY).negative()


def zone_limits(span: Span | None) -> tuple[int, int]:
    """Return the first and last second between which changes of a zone's offset are looked up."""
    if span is None:
        return _FIRST, _LAST
    return span.first // zones.SECOND, span.last // zones.SECOND


def _choose_offset(value: Expr, steps: zones.Steps, first: int, last: int) -> Expr:
    """Return the moment by the offsets `first` to `last`, which half of the changes decides at each step."""
    if first == last:
        offset = steps.offsets[first]
        return Moved(value, offset) if offset else value
    middle = (first + last) // 2
    change = Constant(_EPOCH + timedelta(seconds=steps.starts[middle]), TIMESTAMP)
    before = _choose_offset(value, steps, first, middle)
    return Case(((Binary("<", value, change), before),), _choose_offset(value, steps, middle + 1, last))


def note_zone(zone: zones.Zone, span: Span | None) -> Assumed:
    """Return the note that a zone was looked up, and for which years."""
    first, last = (zones.show_time(each)[:4] for each in zone_limits(span))
    years = first if first == last else f"{first} to {last}"
    return Assumed(f"{zone.name}{name_database(zone.name)}, changes of {years}")


def _at_time_zone(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    return _compile_in_zone(compiler, node, node.this, node.args["zone"], scope)


def compile_timezone_call(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile TIMEZONE('Europe/Berlin', ts) as `ts AT TIME ZONE 'Europe/Berlin'`."""
    if len(node.expressions) != 2:
        raise compiler.source.refuse("timezone takes a zone and a time", node, "ts AT TIME ZONE 'UTC'")
    return _compile_in_zone(compiler, node, node.expressions[1], node.expressions[0], scope)


def _compile_in_zone(
    compiler: StatementCompiler, node: exp.Expr, of: exp.Expr, named: exp.Expr, scope: Scope
) -> Typed:
    value, zone = compiler.expression(of, scope), _read_zone(compiler, named)
    if value.clock and value.type == TIMESTAMP:  # a time of UTC
        value = replace(value, type=TIMESTAMPTZ)
    if not value.type.moment:
        hint = "TIMESTAMP '2024-07-02 00:00:00' AT TIME ZONE 'UTC'"
        if value.type.name == "DATE":
            hint = f"CAST({_name_time(of)} AS TIMESTAMP) AT TIME ZONE '{zone.name}'"
        raise compiler.source.refuse(
            f"AT TIME ZONE is of a TIMESTAMP or TIMESTAMPTZ, this is {value.type}", node, hint
        )
    result = TIMESTAMP if value.type == TIMESTAMPTZ else TIMESTAMPTZ
    if not value.reads:
        of_constant = show_in_zone if value.type == TIMESTAMPTZ else read_in_zone
        found = of_constant(compiler.catalog, value, zone)
        if found is not None:
            return found
    base = value if value.zoned is None else value.zoned.of
    span = base.column_span()
    steps = find_steps(value.type, zone, span)
    if value.zoned is not None:
        steps = value.zoned.steps.then(steps)
    bounds = _move_bounds(base.bounds, steps)
    found = build_typed(move_time(base.node, steps), result, value, bounds=bounds)
    notes = (*found.notes, note_zone(zone, span)) if zone.name != "UTC" else found.notes
    return replace(found, notes=notes, zoned=_describe_local_time(base, steps, zone, result), clock=False)


def _read_zone(compiler: StatementCompiler, node: exp.Expr) -> zones.Zone:
    if not isinstance(node, exp.Literal) or not node.args.get("is_string"):
        raise compiler.source.refuse(
            "the zone is a text: with a name that no zone has, a row would make the statement fail",
            node,
            "ts AT TIME ZONE 'Europe/Berlin'",
        )
    name = str(node.this)
    try:
        return zones.zone(name)
    except ValueError as problem:
        known = {each.lower(): each for each in zones.names()}
        close = difflib.get_close_matches(name.lower(), known, 1, 0.6)
        hint = f"did you mean {known[close[0]]}?" if close else "AT TIME ZONE 'Europe/Berlin', or 'UTC'"
        raise compiler.source.refuse(str(problem), node, hint) from None


def _name_time(node: exp.Expr) -> str:
    return node.name if isinstance(node, exp.Column) else "day"


def _move_bounds(bounds: Bounds | None, steps: zones.Steps) -> Bounds | None:
    if bounds is None:
        return None
    moves = [Fraction(offset * zones.SECOND) for offset in steps.offsets]
    return replace(bounds, low=bounds.low + min(moves), high=bounds.high + max(moves))


def _describe_local_time(of: Typed, steps: zones.Steps, zone: zones.Zone, result: SqlType) -> LocalTime:
    """Return what is known of a moment in a zone, with a note on days of other lengths."""
    grain = next(name for name in GRAINS if count_seconds(name) <= steps.unit)
    span = of.column_span()
    days = zone.longer_days(*zone_limits(span)) if result == TIMESTAMP else []
    if not days:
        return LocalTime(of, steps, grain)
    listed = ", ".join(f"{day} has {minutes / 60:g} hours" for day, minutes in days[:_MOST_NOTED])
    if span is None or len(days) > _MOST_NOTED:
        listed = "days of a change have more or fewer than 24 hours"
    return LocalTime(of, steps, grain, Assumed(f"in {zone.name} {listed}"))


ZONE_RULES = (Rule(exp.AtTimeZone, _at_time_zone, frozenset({"this", "zone"})),)
