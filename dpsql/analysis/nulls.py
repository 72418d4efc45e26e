"""Decide whether an expression can be NULL, for keys whose candidates are not computed from public rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from dpsql.kernel.tree import (
    Apply,
    Between,
    Binary,
    Call,
    Canonical,
    Case,
    Cast,
    Column,
    Constant,
    Expr,
    InList,
    IsNull,
    IsTruth,
    Like,
    Not,
    Paren,
    Saturated,
    Try,
)

_MAY_BE_NULL = re.compile(
    r"\b(NULL|NULLIF|TRY|TRY_CAST|CASE|list_\w+|json\w*|array_\w+)\b|->|\[", re.IGNORECASE
)
"""What is in the forms of functions that return NULL for arguments that are not NULL."""


def never_null(node: Expr, column: Callable[[str], bool], sure: Collection[Expr] = ()) -> bool:
    """Return whether an expression has a value where its columns have one.

    `column` says by its generated name whether a column is never NULL; `sure` are expressions that are not
    NULL on the rows that count. A value that a function does not have (a part of an infinite date) is none
    that this is about: a row with it is outside of all candidates.
    """

    def there(part: Expr) -> bool:
        return never_null(part, column, sure)

    if node in sure:
        return True
    match node:
        case Column(table, name):
            return column(f"{table}.{name}")
        case Constant(value):
            return value is not None
        case IsNull() | IsTruth() | Binary("IS DISTINCT FROM" | "IS NOT DISTINCT FROM"):
            return True
        case Paren(inner) | Try(inner) | Not(inner) | Canonical(inner) | Saturated(inner):
            return there(inner)
        case Cast(operand, _, safe, bounded):
            return (bounded or not safe) and there(operand)
        case Binary("AND" | "OR" | "=" | "<>" | "<" | "<=" | ">" | ">=", left, right):
            return there(left) and there(right)
        case Between(operand, low, high):
            return there(operand) and there(low) and there(high)
        case Like(operand, _, pattern):
            return there(operand) and there(pattern)
        case InList(operand, items):
            return there(operand) and all(map(there, items))
        case Case(branches, default):
            return default is not None and there(default) and all(there(then) for _, then in branches)
        case Call("COALESCE" | "coalesce" | "ifnull", arguments):
            return any(map(there, arguments))
        case Apply(form, arguments):
            return not _MAY_BE_NULL.search(form.template) and all(map(there, arguments))
    return False
