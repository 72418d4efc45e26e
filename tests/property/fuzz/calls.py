"""The allowed functions as the generator sees them: what to write for each form, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import duckdb

from dpsql.engines.duckdb import duckdb_settings
from dpsql.kernel.tree import Form, listed_forms
from fuzz.world import kind_of

__all__ = ["Call", "by_result", "literals"]

OPERATORS = {"NOT_LIKE": "NOT LIKE", "IS_DISTINCT_FROM": "IS DISTINCT FROM"}
INFIX = {"+", "-", "*", "/", "//", "%", "**", "&", "|", ">>", "LIKE", "ILIKE", "GLOB", "~", "^@", "||"}
SKIP = {
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "IS_DISTINCT_FROM",
    "IS_NOT_DISTINCT_FROM",
    "neg",
    "~",
    "^",
    "NOT_LIKE",
}
"""Names that are typed as operators of other rules."""


@dataclass(frozen=True)
class Call:
    """One form: a template of what the analyst types, and what stands in each of its places."""

    name: str
    template: str
    arguments: tuple[str, ...]
    """A generator's kind for each place, or the literals to choose from, after `#`."""


LITERALS = {
    "INTEGER": ["0", "1", "2", "-1", "5"],
    "INTERVAL": ["INTERVAL 1 DAY", "INTERVAL 3 MONTH", "INTERVAL 7 HOUR"],
    "SPAN": ["INTERVAL 1 DAY", "INTERVAL 3 MONTH", "INTERVAL 7 HOUR"],
    "PATH": ["'$.a'", "'$.b[0]'", "'a'"],
    "LENGTH": ["0", "3", "1000"],
    "PAD": ["'-'", "'ab'"],
    "REWRITE": ["''", "'x'", "'é-'"],
}
TEXTS = {
    "strptime": ["'%Y-%m-%d'", "'%d/%m/%y'"],
    "try_strptime": ["'%Y-%m-%d'"],
    "strftime": ["'%Y-%m'", "'%H:%M'", "'%A %j'"],
    "json_extract_string": ["'$.a'", "'$.b[0]'", "'a'"],
}
PATTERNS = ["'a+'", "'^[a-c]'", "'([A-Z])|x'", "''"]


def literals(name: str, want: str, place: int = 1) -> list[str]:
    """Return literals that a form takes in a place of the list's `#TYPE` or `=text`."""
    if want.startswith("="):
        return [f"'{want[1:]}'"]
    if want[1:] != "VARCHAR":
        return ["0"] if name == "regexp_extract" else LITERALS[want[1:]]
    if "regexp" in name or name in ("~", "SIMILAR TO", "string_split_regex"):
        return PATTERNS if place == 1 else ["'i'", "'g'"] if name == "regexp_replace" else ["'i'"]
    return TEXTS.get(name, ["'a'", "'%a_'", "''"])


@cache
def by_result() -> dict[str, list[Call]]:
    """Sort every listed form by the kind of its result."""
    found: dict[str, list[Call]] = {}
    with duckdb_settings.connect() as connection:
        for forms in listed_forms().values():
            for form in forms:
                made = _call(form)
                kind = _result(connection, form) if made is not None else None
                if made is not None and kind is not None:
                    found.setdefault(kind, []).append(made)
    return found


def _call(form: Form) -> Call | None:
    arguments = tuple(
        "#" + "\n".join(literals(form.name, a, i)) if a[0] in "=#" else _kind(a)
        for i, a in enumerate(form.arguments)
    )
    if form.name in SKIP or "" in arguments:
        return None
    if form.name in INFIX and len(arguments) == 2:
        return Call(form.name, f"({{0}} {form.name} {{1}})", arguments)
    if not form.name.replace("_", "a").isalnum():
        return None
    return Call(form.name, f"{form.name}({', '.join(f'{{{i}}}' for i in range(len(arguments)))})", arguments)


def _kind(argument: str) -> str:
    return "dec" if argument == "DECIMAL" else kind_of(argument)


def _result(connection: duckdb.DuckDBPyConnection, form: Form) -> str | None:
    nulls = [
        literals(form.name, a, i)[0]
        if a[0] in "=#"
        else f"CAST(NULL AS {'DECIMAL(9,2)' if a == 'DECIMAL' else a})"
        for i, a in enumerate(form.arguments)
    ]
    try:
        row = connection.execute(f"SELECT typeof({form.template.format(*nulls)})").fetchone()
    except duckdb.Error:
        return None
    declared = str(row[0]) if row else ""
    return None if declared in ("HUGEINT", "BLOB", '"NULL"', "JSON") else kind_of(declared)
