"""The functions that private statements may call, by the forms of `kernel.tree.forms`; trials of literals.

The engine may accept a pattern, a format or a path and then fail on some rows. The samples find literals that
fail on common kinds of values. A failure that needs a particular text is prevented by TRY only.

A signature is a list of argument types; `#INTEGER` is a literal the form was fuzzed with in that place
(and that is tried on samples before it is used), `=year` a literal of exactly that text. `DECIMAL`
means any DECIMAL of at most 18 digits. A function that is not in the list is refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.casts import count_digits_of_call, is_decimal_in_sql, read_as_decimal
from dpsql.analysis.conversions import OF_UTC, cast, convert_implicitly, convert_to_instant, refuse_mixed
from dpsql.analysis.facts_of_values import UTC_PARTS, bounds_of_call, find_call_grains
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.total_forms import bound_search_text, compute_in_full, store_integer, widen_integer
from dpsql.analysis.typed_expression import TEXTS_OF_TIMES, Typed, UnitRole, join_notes
from dpsql.kernel.tree import Apply, Cast, Expr, Form, Interval, duckdb_sql, listed_forms
from dpsql.kernel.tree.period_units import LONGER, TRUNCATIONS
from dpsql.language import StatementText, replace_name
from dpsql.policy import Assumed
from dpsql.types import BIGINT, DOUBLE, HUGEINT, JSON, TIMESTAMP, TIMESTAMPTZ, VARCHAR, SqlType

_TEXTS = (
    "'', ' ', 'a', 'Ab1', 'é', 'aéb', 'e' || chr(769), chr(8205) || chr(65039), chr(128512), chr(1114111), "
    "'x' || chr(0) || 'y', '日本語', '%_\\$^[(*', '2024-02-29', '-1.5e400', '{\"a\": [1, \"é\"]}', "
    "repeat('ab', 3000), repeat('é', 3000)"
)
_WHOLE = "0, 1, -1, 64, 9223372036854775807, -9223372036854775808"
_DATES = (
    "DATE '2000-02-29', DATE '0001-01-01 (BC)', DATE '9999-12-31', 'infinity'::DATE, '-infinity'::DATE, "
    "DATE '5881580-07-10', DATE '5877642-06-25 (BC)'"
)
_STAMPS = (
    "TIMESTAMP '2000-02-29 13:14:15.161718', TIMESTAMP '290309-12-22 (BC) 00:00:00', 'infinity'::TIMESTAMP, "
    "'-infinity'::TIMESTAMP, TIMESTAMP '9999-12-31 23:59:59.999999', "
    "TIMESTAMP '294247-01-10 04:00:54.775806'"
)
_SAMPLES = {
    "VARCHAR": _TEXTS,
    "BIGINT": _WHOLE,
    "INTEGER": "0, 1, -1, 64, 2147483647, -2147483648",
    "DOUBLE": "0.0, -0.5, 1e308, -1e308, 5e-324, 'nan'::DOUBLE, 'inf'::DOUBLE, '-inf'::DOUBLE",
    "DATE": _DATES,
    "TIMESTAMP": _STAMPS,
    "TIME": "TIME '00:00:00', TIME '23:59:59.999999', TIME '24:00:00'",
    "BOOLEAN": "TRUE, FALSE",
}


def is_failing_on_samples(catalog: Catalog, form: str, arguments: Sequence[Typed]) -> bool:
    """Return whether a form with these literals fails on a sample of its other arguments."""
    texts, sources = [], []
    for i, argument in enumerate(arguments):
        if argument.literal is not None:
            texts.append(argument.sql)
            continue
        texts.append(f"s{i}.v")
        sources.append(f"({_write_samples(argument)}) AS s{i}(v)")
    rows = " CROSS JOIN ".join(sources) or "(SELECT 1) AS s"
    try:
        catalog.evaluate(
            f"(SELECT COUNT(hash(r.x)) FROM (SELECT {form.format(*texts)} AS x FROM {rows}) AS r)"
        )
    except ValueError:
        return True
    return False


def _write_samples(argument: Typed) -> str:
    sql_type = argument.type
    if sql_type.item is not None:
        listed = _SAMPLES.get(sql_type.item.name)
        values = f"[]::{sql_type}, [{listed}, NULL]::{sql_type}" if listed else ""
    elif sql_type.name == "DECIMAL":
        most = "9" * (sql_type.precision - sql_type.scale) + "." + "9" * sql_type.scale
        values = f"0, {most}, -{most}"
    else:
        values = _SAMPLES.get(
            "BIGINT" if sql_type.integer and sql_type.name != "INTEGER" else sql_type.name, ""
        )
    every = f"[{values}, NULL]" if values else "[NULL]"
    return f"SELECT TRY_CAST(unnest({every}) AS {sql_type})"


def is_splitting_characters(pattern: str) -> bool:
    r"""Return whether a regular expression may match one byte of a character, so that results are not text.

    >>> is_splitting_characters(r"a\C"), is_splitting_characters(r"a\\C")
    (True, False)
    """
    escaped = False
    for char in pattern:
        if escaped and char == "C":
            return True
        escaped = char == "\\" and not escaped
    return False


_DATED = {
    "DATE": "DATE '2000-01-01'",
    "TIMESTAMP": "TIMESTAMP '2000-01-01 00:00:00'",
    "TIME": "TIME '00:00:00'",
}
"""Typed constants of dates: for a NULL the engine infers another result type than for a column."""

_VOLATILE = "its result changes from call to call"
_STATE = "it reads the state of the engine, not of the row"
_RAISES = "it can fail on some values, and whether it fails would be seen"
_MEMORY = "its result can be far longer than its input"
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("random", "setseed", "uuid", "gen_random_uuid", "nextval", "currval", "txid_current"), _VOLATILE
    ),
    **dict.fromkeys(
        (
            "stats",
            "vector_type",
            "getvariable",
            "current_setting",
            "current_database",
            "current_schema",
            "version",
        ),
        _STATE,
    ),
    **dict.fromkeys(("error", "list_reduce", "format", "printf", "bar", "decode"), _RAISES),
    **dict.fromkeys(("repeat", "range", "generate_series", "list_resize"), _MEMORY),
    **dict.fromkeys(
        ("mode", "histogram", "reservoir_quantile", "approx_count_distinct"),
        "its result depends on order or sampling",
    ),
    **dict.fromkeys(("query", "query_table", "json_execute_serialized_sql"), "it runs SQL from a text"),
}
"""Refused functions whose error message states the reason."""

_PARTS = frozenset({"regexp_extract", "regexp_extract_all", "regexp_replace", "string_split_regex"})
"""Forms whose result consists of matches of a regular expression."""


def compile_call(
    source: StatementText, catalog: Catalog, name: str, arguments: Sequence[Typed], at: exp.Expr
) -> Typed:
    """Compile a function call by the form that needs the fewest conversions of its arguments.

    Forms take a TIMESTAMPTZ as the TIMESTAMP of UTC. A moment that is made of one is a TIMESTAMPTZ again.
    """
    if any(a.type == TIMESTAMPTZ for a in arguments):
        return _compile_on_instants(source, catalog, name, arguments, at)
    forms = listed_forms().get(name.lower(), ())
    if not forms:
        raise _refuse_unlisted(source, name, at)
    if name == "/" and any(widen_integer(a) is not a for a in arguments):
        # The quotient is a DOUBLE, of the numbers as they are.
        arguments = [cast(a, DOUBLE, lossless=True) if a.type.integer else a for a in arguments]
    best: tuple[int, Form, list[Typed]] | None = None
    for form in forms:
        if best is not None and best[0] <= _count_conversions(form, arguments):
            continue
        fitted = _fit_arguments(catalog, form, arguments)
        if fitted is None:
            continue
        cost = sum(a is not b for a, b in zip(fitted, arguments, strict=True))
        if best is None or cost < best[0]:
            best = (cost, form, fitted)
    if best is None:
        raise _refuse_types(source, name, forms, arguments, at)
    _, form, fitted = best
    fitted = bound_search_text(source, form.name, fitted, at)
    if any(_is_to_be_tried(a, want) for a, want in zip(fitted, form.arguments, strict=True)):
        _try_literals(source, catalog, form, fitted, at)
    try:
        typed = compile_form(catalog, form, fitted, arguments)
    except ValueError:
        if not any(a.startswith("#") for a in form.arguments):
            raise
        # `strptime` with a time zone in its format returns a type that dpsql does not support.
        raise source.refuse(f"{form.name} does not take this literal", at) from None
    typed = replace(typed, decimal=is_decimal_in_sql(form, arguments)).with_unit(_find_role(form, fitted))
    of_texts = any(a.domain is not None and a.domain.origin == TEXTS_OF_TIMES for a in fitted)
    if typed.domain or not (of_texts or form.name in UTC_PARTS):
        return typed
    from dpsql.analysis.parts_of_times import add_part_domain, map_texts  # noqa: PLC0415  few calls are on times

    return map_texts(fitted, typed) if of_texts else add_part_domain(form, fitted, typed)


def _find_role(form: Form, arguments: Sequence[Typed]) -> UnitRole:
    """Return the role of a date that is cut: it may be the period of the unit, or a longer one."""
    if form.name not in TRUNCATIONS or len(arguments) != 2 or not arguments[1].unit.every:
        return UnitRole.NONE
    every, length = arguments[1].unit.every, form.arguments[0].removeprefix("=")
    if length == every:
        return UnitRole.PERIOD
    return UnitRole.LONGER if length in LONGER[every] else UnitRole.NONE


def _compile_on_instants(
    source: StatementText, catalog: Catalog, name: str, arguments: Sequence[Typed], at: exp.Expr
) -> Typed:
    given = list(arguments)
    for i, argument in enumerate(given):
        if argument.type != TIMESTAMPTZ and (argument.type.moment or argument.type.name == "DATE"):
            found = convert_to_instant(catalog, argument)
            if found is None:
                other = next(a for a in arguments if a.type == TIMESTAMPTZ)
                raise refuse_mixed(source, other, argument, at)
            given[i] = found
    held = [replace(a, type=TIMESTAMP) if a.type == TIMESTAMPTZ else a for a in given]
    made = compile_call(source, catalog, name, held, at)
    notes = (*made.notes, OF_UTC) if name.lower() in UTC_PARTS else made.notes
    return replace(made, type=TIMESTAMPTZ if made.type == TIMESTAMP else made.type, notes=notes)


def compile_form(
    catalog: Catalog, form: Form, arguments: Sequence[Typed], given: Sequence[Typed] = ()
) -> Typed:
    """Fill a form with its arguments; the engine's binder determines the type of the result.

    `given` are the arguments before they were converted to the types of the form, if they were.
    """
    if form.widens:
        made = compute_in_full(form, given or arguments, arguments)
        bounds = bounds_of_call(form.name, arguments, BIGINT)
        return Typed(
            made,
            BIGINT,
            grains=find_call_grains(form.name, arguments),
            bounds=bounds,
            clock=any(a.clock for a in arguments),
            notes=join_notes(arguments),
            digits=count_digits_of_call(form.name, given or arguments),
        )
    node: Expr = Apply(form, tuple(a.node for a in arguments))
    nulls = [
        a.sql if a.literal is not None and want[0] in "#=" else _DATED.get(want, f"CAST(NULL AS {a.type})")
        for a, want in zip(arguments, form.arguments, strict=True)
    ]
    sql_type = catalog.type_of(form.template.format(*nulls))
    if not any(a.reads for a in arguments) and _has_other_type(catalog, node, sql_type):
        node = Cast(node, sql_type)
    bounds = bounds_of_call(form.name, arguments, sql_type)
    typed = Typed(
        node,
        sql_type,
        grains=find_call_grains(form.name, arguments),
        bounds=bounds,
        clock=any(a.clock for a in arguments),
        notes=(*join_notes(arguments), *_note_local_days(form.name, arguments)),
    )
    if sql_type.name == "DECIMAL" and sql_type.precision > 18:
        return store_integer(typed)
    return store_integer(typed) if sql_type == HUGEINT else typed


def _note_local_days(name: str, arguments: Sequence[Typed]) -> tuple[Assumed, ...]:
    """Return the notes on days of a change, if a function looks at hours or days of a local time."""
    if name not in UTC_PARTS:
        return ()
    return tuple(a.zoned.note for a in arguments if a.zoned is not None and a.zoned.note is not None)


def _has_other_type(catalog: Catalog, node: Expr, sql_type: SqlType) -> bool:
    """Return whether the engine infers another type than that of columns: date_part of NULL is a DOUBLE."""
    if sql_type in (HUGEINT, JSON) or (sql_type.name == "DECIMAL" and sql_type.precision > 18):
        return False
    try:
        return catalog.type_of(duckdb_sql(node)) != sql_type
    except ValueError:
        return False


def _count_conversions(form: Form, arguments: Sequence[Typed]) -> int:
    """Return how many arguments of a call have other types than a form of the function takes.

    No fewer are converted if the form fits; whether it does is not looked at.
    """
    pairs = zip(form.types, arguments, strict=False)
    return sum(w is not None and a.type != w and a.type.name != "UBIGINT" for w, a in pairs)


def _fit_arguments(catalog: Catalog, form: Form, arguments: Sequence[Typed]) -> list[Typed] | None:
    if len(form.arguments) != len(arguments):
        return None
    fitted: list[Typed] = []
    beside = any(each.type.name == "DECIMAL" for each in arguments)
    for want, sql_type, given in zip(form.arguments, form.types, arguments, strict=True):
        value: Typed | None
        if want[0] == "=":
            value = given if given.text is not None and given.text.lower() == want[1:] else None
        elif want[0] == "#":
            role = want[1:]
            value = given if given.literal is not None and _is_literal_fitting(given, role) else None
        elif sql_type is None:
            value = read_as_decimal(form, given) if beside else given
            value = value if value.type.name == "DECIMAL" else None
        elif want == "BIGINT" and given.type.name == "UBIGINT":
            value = given if form.widens else None
        else:
            value = convert_implicitly(catalog, given, sql_type)
            if value is not given and given.literal is not None and given.type == VARCHAR:
                value = None  # a text literal becomes a date or a number only beside a column of that type
        if value is None:
            return None
        fitted.append(value)
    if form.result == "product" and form.result_type([each.type for each in fitted]) is None:
        return None
    return fitted


def _is_literal_fitting(given: Typed, role: str) -> bool:
    value = given.literal.value if given.literal is not None else None
    text = given.text if given.type == VARCHAR else None
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    match role:
        case "INTEGER":
            return number is not None and abs(number) < 2**31
        case "LENGTH":  # of a padded text
            return number is not None and 0 <= number <= 1000
        case "PAD":
            return text is not None and 0 < len(text) <= 1000
        case "REWRITE":  # of a regular expression: a group that it has not fails, and is refused for that
            known = text is not None and re.fullmatch(r"(?:[^\\]|\\[0-9\\])*", text)
            return known is not None and len(text or "") <= 1000
        case "PATH":  # of JSON: with `*` the result is a list
            return text is not None and "*" not in text and ".." not in text
        case "SPAN":  # an interval longer than nothing
            return isinstance(value, Interval) and value.text[0] in "123456789"
        case "VARCHAR":  # a pattern or a format: each character of one can stand for several
            return text is not None and len(text) <= 1000
        case "INTERVAL":
            return isinstance(value, Interval)
    return False


def _is_to_be_tried(given: Typed, want: str) -> bool:
    """Return whether an argument is a literal that can make a form fail: a pattern, a format, a path."""
    return want.startswith("#") or (given.text is not None and not want.startswith("="))


def _try_literals(
    source: StatementText, catalog: Catalog, form: Form, fitted: Sequence[Typed], at: exp.Expr
) -> None:
    pattern = fitted[1].text if len(fitted) > 1 else None
    if form.name in _PARTS and pattern is not None and is_splitting_characters(pattern):
        raise source.refuse(f"{form.name} does not take \\C, which matches a part of a character", at)
    if is_failing_on_samples(catalog, form.template, fitted):
        raise source.refuse(f"{form.name} does not take this literal: it fails on some values", at)


_OTHERS: tuple[str, ...] = (
    *("count", "count_if", "median", "quantile_cont", "stddev", "variance", "corr", "covar_pop"),
    *("covar_samp", "average", "coalesce", "concat", "extract", "cast", "nullif", "ifnull", "greatest"),
    *("least", "dateadd", "current_date", "exists"),
)
"""Aggregates, and functions that are read as other forms, that are found by a mistyped name."""


def _refuse_unlisted(source: StatementText, name: str, at: exp.Expr) -> Exception:
    if name.lower() in REFUSED:
        return source.refuse(f"{name} is not allowed over private data: {REFUSED[name.lower()]}", at)
    close = find_nearest_function(name)
    hint = f"did you mean {close}?" if close else None
    fix = replace_name(at, close) if close and isinstance(at, exp.Anonymous) else None
    return source.refuse(
        f"{name} is not among the functions allowed over private data", at, hint, fix, unknown="function"
    )


def find_nearest_function(name: str) -> str | None:
    """Return the known function whose name is most like an unknown one; None if none is."""
    names = [n for n in (*listed_forms(), *_OTHERS) if n.isidentifier() and len(n) > 3]
    names += ["sum", "avg", "min", "max"]
    known = name.lower() in (*names, "quartile", "mean") or len(name) < 3
    same = [each for each in names if sorted(each) == sorted(name.lower())]
    close = [] if known else same or difflib.get_close_matches(name.lower(), names, 1, 0.8)
    return (close[0].upper() if name.isupper() else close[0]) if close else None


def _has_fitting_literals(form: Form, arguments: Sequence[Typed]) -> bool:
    """Return whether the literal texts that a form wants are given."""
    pairs = zip(form.arguments, arguments, strict=False)
    return all(a.text is not None and a.text.lower() == want[1:] for want, a in pairs if want[0] == "=")


def _refuse_types(
    source: StatementText, name: str, forms: Sequence[Form], arguments: Sequence[Typed], at: exp.Expr
) -> Exception:
    given = ", ".join(str(a.type) for a in arguments)
    fitting = [f for f in forms if _has_fitting_literals(f, arguments)] or forms
    wanted = {", ".join(f.arguments).replace("#", "literal ").replace("=", "") for f in fitting}
    shown = [f"{name}({types})" for types in sorted(wanted)]
    hint = "allowed: " + "; ".join(shown[:4]) + ("; ..." if len(shown) > 4 else "")
    last, values = forms[0].arguments[-1], [a for a in arguments if a.text is None]
    if values and values[0].type == VARCHAR and last in ("DOUBLE", "BIGINT", "DATE"):
        hint += f" (CAST to {last})"
    if name in ("-", "date_diff") and [a.type.name for a in values] == ["TIME", "TIME"]:
        hint = "EXTRACT(EPOCH FROM b) - EXTRACT(EPOCH FROM a) has the seconds between two times of day"
    return source.refuse(f"{name} is not allowed with ({given})", at, hint)
