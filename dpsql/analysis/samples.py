"""Test the literals of a function call on edge-case values of each type before the call is accepted.

The engine may accept a pattern, a format or a path and then fail on some rows. The samples find literals that
fail on common kinds of values. A failure that needs a particular text is prevented by TRY only.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.analysis.catalog import Catalog
from dpsql.analysis.typed import Typed

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


def fails_on_samples(catalog: Catalog, form: str, arguments: Sequence[Typed]) -> bool:
    """Return whether a form with these literals fails on a sample of its other arguments."""
    texts, sources = [], []
    for i, argument in enumerate(arguments):
        if argument.literal is not None:
            texts.append(argument.sql)
            continue
        texts.append(f"s{i}.v")
        sources.append(f"({_samples(argument)}) AS s{i}(v)")
    rows = " CROSS JOIN ".join(sources) or "(SELECT 1) AS s"
    try:
        catalog.evaluate(
            f"(SELECT COUNT(hash(r.x)) FROM (SELECT {form.format(*texts)} AS x FROM {rows}) AS r)"
        )
    except ValueError:
        return True
    return False


def _samples(argument: Typed) -> str:
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


def splits_characters(pattern: str) -> bool:
    r"""Return whether a regular expression may match one byte of a character, so that results are not text.

    >>> splits_characters(r"a\C"), splits_characters(r"a\\C")
    (True, False)
    """
    escaped = False
    for char in pattern:
        if escaped and char == "C":
            return True
        escaped = char == "\\" and not escaped
    return False
