"""Tell of conditions that hold for no row, or compare with no public value: most are mistakes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.compiled_relation import Origin
from dpsql.analysis.compiler import StatementCompiler, function_name
from dpsql.analysis.typed_expression import Bounds, KeyDomain, Typed
from dpsql.kernel.tree import Column, Constant, Derived, Expr, InList, Item, Select, duckdb_sql
from dpsql.policy import Assumed
from dpsql.types import VARCHAR

_LISTED = 12
"""The most public values that a note lists."""
_SEARCHED = 1000
"""The most public values among which the nearest to a text is searched."""
_WIDEST = 100
"""The most characters of such a list."""
_NEAR = 0.6
"""How alike a text and a public value are that is proposed for it, from 0 to 1."""
_DAY = 86_400_000_000


def note_undeclared(
    compiler: StatementCompiler, node: exp.Expr, domain: KeyDomain, texts: Sequence[str]
) -> None:
    """Note which texts that a column is compared with are none of its public values, and the nearest one."""
    listed = tuple(Constant(text, VARCHAR) for text in dict.fromkeys(texts))
    found = _select(domain, InList(Column("d", "v"), listed))
    sides = (node.this, node.args.get("expression"))
    names = [side.name for side in sides if isinstance(side, exp.Column)]
    names = names or [f"{name}(..)" for side in sides if (name := function_name(side or node))]
    if not names or compiler.catalog.count(duckdb_sql(found)) >= len(listed):
        return
    public, every = set(_list(compiler, found)), _select(domain, None)
    few = compiler.catalog.count(duckdb_sql(every)) <= _SEARCHED
    values = _list(compiler, every) if few else []
    for text in dict.fromkeys(t for t in texts if t not in public):
        meant = _propose(text, values)
        compiler.assume(Assumed(f"'{text}' is none of the public values of {names[0]}{meant}"))


def _select(domain: KeyDomain, where: InList | None) -> Select:
    return Select((Item(Column("d", "v"), "v"),), Derived(domain.query, "d"), where)


def _list(compiler: StatementCompiler, values: Select) -> list[str]:
    """Return public values but NULL, which the catalog reads once."""
    listed = compiler.catalog.evaluate(f"(SELECT list(d.v) FROM ({duckdb_sql(values)}) AS d)")
    return [str(value) for value in listed if value is not None] if isinstance(listed, list) else []


def _propose(text: str, values: list[str]) -> str:
    """Return what a note says of the value that a text may mean, or of all values if they are few.

    >>> _propose("old town", ["Old Town", "Lakeside"]), _propose("f", ["F", "M"]), _propose("DE", ["Germany"])
    (": did you mean 'Old Town'?", ": did you mean 'F'?", " (they are 'Germany')")
    """
    folded = {value.casefold().strip(): value for value in reversed(values)}
    parts = [folded.get(part.casefold().strip(), "") for part in text.split(",")]
    if len(parts) > 1 and all(parts):
        return f": did you mean {', '.join(repr(value) for value in parts)}?"
    close = difflib.get_close_matches(text.casefold().strip(), folded, 1, _NEAR)
    if close:
        return f": did you mean '{folded[close[0]]}'?"
    begun = [value for key, value in folded.items() if text and key.startswith(text.casefold().strip())]
    if len(begun) == 1:
        return f": did you mean '{begun[0]}'?"
    listed = ", ".join(f"'{value}'" for value in values)
    return f" (they are {listed})" if 0 < len(values) <= _LISTED and len(listed) <= _WIDEST else ""


def note_excluded(
    compiler: StatementCompiler,
    origins: Iterable[Origin],
    empty: Iterable[tuple[Typed, Fraction | None, Fraction | None, Bounds | None]],
    equal: Sequence[tuple[Expr, Sequence[Expr]]],
) -> None:
    """Note of which columns conditions leave nothing, or nothing of the values that the policy declares.

    `empty` has columns with the ends that conditions set and their own bounds; `equal` what operands are
    equal to, one of several values each.
    """
    named = [(name, c) for o in origins for name, c in zip(o.names, o.columns, strict=True)]
    for column, low, high, own in empty:
        name = next((name for name, each in named if each is column), "")
        declared = column.domain is not None or column.span is not None
        if low is not None and high is not None and low > high:
            compiler.assume(Assumed(f"the conditions on {name} exclude each other: no row has both"))
        elif own is not None and declared and low is not None and low > own.high:
            compiler.assume(Assumed(f"the public values of {name} end at {_show(column, own.high)}"))
        elif own is not None and declared and high is not None:
            compiler.assume(Assumed(f"the public values of {name} begin at {_show(column, own.low)}"))
    for name, column in named:
        listed = [values for operand, values in equal if operand == column.node]
        sets = [{v.value for v in values if isinstance(v, Constant)} for values in listed]
        if column.type == VARCHAR and len(sets) > 1 and all(sets) and not set.intersection(*sets):
            first, second = (min(map(str, one)) for one in sets[:2])
            told = f"no row has {name} = '{first}' and '{second}' at once: OR takes the rows of either"
            compiler.assume(Assumed(told))


def _show(column: Typed, number: Fraction) -> str:
    """Write a bound of a column as its values are written: of dates, days since 1970."""
    if column.type.name == "DATE" or column.type.moment:
        days = number if column.type.name == "DATE" else number // _DAY
        return (date(1970, 1, 1) + timedelta(days=int(days))).isoformat()
    return f"{float(number):g}"
