"""The allowed functions as the generator sees them: what to write for each form, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import duckdb

from dpsql.analysis.functions import Function, listed
from dpsql.engines.duckdb import settings
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


def literals(name: str, want: str) -> list[str]:
    """Return literals that a form takes in a place of the list's `#TYPE` or `=text`."""
    if want.startswith("="):
        return [f"'{want[1:]}'"]
    kind = want[1:]
    if kind == "INTEGER":
        return ["0", "1", "2", "-1", "5"] if "extract" not in name else ["0"]
    if kind == "INTERVAL":
        return ["INTERVAL 1 DAY", "INTERVAL 3 MONTH", "INTERVAL 7 HOUR"]
    if kind == "VARCHAR":
        if "strptime" in name:
            return ["'%Y-%m-%d'", "'%d/%m/%y'"]
        if "strftime" in name:
            return ["'%Y-%m'", "'%H:%M'", "'%A %j'"]
        if "json" in name or name in ("->", "->>"):
            return ["'$.a'", "'$.b[0]'", "'a'"]
        if "regexp" in name or name in ("~", "SIMILAR TO"):
            return ["'a+'", "'^[a-c]'", "'([A-Z])|x'", "''"]
        return ["'a'", "'%a_'", "''"]
    return ["NULL"]


@cache
def by_result() -> dict[str, list[Call]]:
    """Sort every listed form by the kind of its result."""
    found: dict[str, list[Call]] = {}
    with settings.connect() as connection:
        for forms in listed().values():
            for form in forms:
                made = _call(form)
                kind = _result(connection, form) if made is not None else None
                if made is not None and kind is not None:
                    found.setdefault(kind, []).append(made)
    return found


def _call(form: Function) -> Call | None:
    arguments = tuple(
        "#" + "\n".join(literals(form.name, a)) if a[0] in "=#" else _kind(a) for a in form.arguments
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


def _result(connection: duckdb.DuckDBPyConnection, form: Function) -> str | None:
    nulls = [
        literals(form.name, a)[0]
        if a[0] in "=#"
        else f"CAST(NULL AS {'DECIMAL(9,2)' if a == 'DECIMAL' else a})"
        for a in form.arguments
    ]
    try:
        row = connection.execute(f"SELECT typeof({form.form.format(*nulls)})").fetchone()
    except duckdb.Error:
        return None
    declared = str(row[0]) if row else ""
    return None if declared in ("HUGEINT", "BLOB", '"NULL"', "JSON") else kind_of(declared)
