"""Advise on what is written as other systems or languages write it: dates, patterns, IF, lists of shares."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.unknown_names import Advice, RefusedStatement
from dpsql.errors import Fix, Obstacle
from dpsql.policy import fold

_COUNTS = ("COUNT", "COUNT_IF")
_UNITS = {"y": "year", "yyyy": "year", "q": "quarter", "mm": "month", "mon": "month", "w": "week", "d": "day"}
"""What TRUNC of a date is called with in other systems."""


def advise_on_starred_function(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Name the aggregate that a mistyped one of all rows is: `CUONT(*)`."""
    name = one.message.split()[2]
    close = difflib.get_close_matches(name.upper(), _COUNTS, 1, 0.6)
    at = next((t for t in of.outline.tokens if fold(t.text) == fold(name)), None)
    return (f"did you mean {close[0]}?", Fix(close[0], at.start, at.end + 1)) if close and at else None


def truncate_date(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `TRUNC(day, 'MM')` as the DATE_TRUNC that it is."""
    call = of.outline.call_around(of.query.source.position(node), "trunc")
    unit = _UNITS.get(call[2][1].strip("'").lower()) if call is not None and len(call[2]) == 2 else None
    if call is None or unit is None:
        return None
    written = f"date_trunc('{unit}', {call[2][0]})"
    return written, Fix(written, call[0], call[1])


def quote_date(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Quote a day: 2024-01-01 is a number, 2022."""
    found = list(re.finditer(r"(?<![\w'-])\d{4}-\d\d?-\d\d?(?![\w'-])", of.text))
    if not found or "DATE" not in one.message:
        return None
    fixes = [Fix(f"DATE '{m[0]}'", *m.span()) for m in found]
    return fixes[0].text, Fix(fixes[0].text, fixes[0].start, fixes[0].end, also=tuple(fixes[1:]))


def count_instead(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Count the units, where their largest or smallest name is asked for."""
    name = one.message.partition(" ")[0]
    call = of.outline.call_around(of.query.source.position(node), name)
    if call is None or len(call[2]) != 1 or of.outermost(node) is None:
        return None
    written = f"COUNT(DISTINCT {call[2][0]})"
    return written, Fix(written, call[0], call[1], asks=f"how many {call[2][0]} there are")


def list_shares(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write several shares of one call as a list."""
    call = of.outline.call_around(of.query.source.position(node), one.message.partition(" ")[0])
    shares = call[2][1:] if call is not None else ()
    if call is None or len(shares) < 2 or not all(re.fullmatch(r"0?\.\d+", each) for each in shares):
        return None
    written = f"QUANTILE_CONT({call[2][0]}, [{', '.join(shares)}])"
    return written, Fix(written, call[0], call[1])


def count_unit_of_table(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Count the unit's column for `COUNT(v.*)`: it is NULL where there is no row."""
    found, select = re.search(r"(?i)\bCOUNT\s*\(\s*(\w+)\.\*\s*\)", of.text), node.find_ancestor(exp.Select)
    named = of.list_tables(select) if select is not None and found is not None else []
    unit = next((n.unit for n in named if found is not None and fold(n.alias) == fold(found[1])), None)
    if found is None or unit is None:
        return None
    written = f"COUNT({found[1]}.{unit})"
    return written, Fix(written, *found.span())


def write_case(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `IF x THEN 1 ELSE 0` as CASE, with its END."""
    tokens = of.outline.tokens
    begin = next((i for i, t in enumerate(tokens) if t.text.upper() == "IF"), None)
    depth, closed = 0, None
    for token in tokens[begin:] if begin is not None else ():
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        ends = token.token_type in (TokenType.COMMA, TokenType.FROM) and depth == 0
        if closed is None and (depth < 0 or ends):
            closed = token
    if begin is None or closed is None:
        return None
    inside = of.text[tokens[begin].end + 1 : closed.start].rstrip()
    end = "" if inside.upper().endswith(" END") else " END"
    written = f"CASE WHEN{inside}{end}"
    return written, Fix(written, tokens[begin].start, tokens[begin].start + 2 + len(inside))


def write_pattern(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write % for * in the pattern of LIKE."""
    found = re.search(r"(?i)\bLIKE\s+('[^'%]*\*[^'%]*')", of.text)
    if found is None:
        return None
    written = found[1].replace("*", "%")
    return f"LIKE {written}: % stands for any characters", Fix(written, *found.span(1))


def advise_on_star(
    count_rows: Callable[[RefusedStatement, exp.Expr, Obstacle], Advice | None],
) -> Callable[[RefusedStatement, exp.Expr, Obstacle], Advice | None]:
    """Return the advice that counts rows where all columns of private rows are asked for."""

    def advise(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
        tree = of.query.tree
        star = isinstance(tree, exp.Select) and any(isinstance(i, exp.Star) for i in tree.expressions)
        return count_rows(of, tree, one) if star else None

    return advise
