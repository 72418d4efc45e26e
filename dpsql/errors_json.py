"""Errors as JSON for dpsql's own clients: class, every obstacle with its place, exact amounts."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import cache
from typing import Any

from dpsql.errors import BudgetExceeded, Error, Obstacle, PolicyError, QueryRefused, QuerySyntaxError

_TOLD = ("message", "line", "col", "hint", "source", "unknown")
"""What is told of an obstacle; its fix is for the process that found it."""


@cache
def _public_classes() -> dict[str, type[Error]]:
    """Return the exceptions of this package that clients know, by their names."""
    found, waiting = {}, [Error]
    while waiting:
        kind = waiting.pop()
        if kind.__module__ == Error.__module__:
            waiting += kind.__subclasses__()
            if not kind.__name__.startswith("_"):
                found[kind.__name__] = kind
    return found


def to_json(error: Error) -> str:
    """Write an error of dpsql, also one of a subclass: the client gets the class of `dpsql.errors`."""
    kind = next(c for c in type(error).__mro__ if _public_classes().get(c.__name__) is c)
    found: dict[str, Any] = {"class": kind.__name__, "text": str(error)}
    if isinstance(error, BudgetExceeded):
        amounts = {"requested": error.requested, "remaining": error.remaining}
        found |= {name: [str(amount) for amount in pair] for name, pair in amounts.items()}
        found["scope"] = error.scope
    elif isinstance(error, (PolicyError, QueryRefused, QuerySyntaxError)):
        found["obstacles"] = [{name: getattr(o, name) for name in _TOLD} for o in error.obstacles]
        found["rewrite"] = error.rewrite
    return json.dumps(found, ensure_ascii=False)


def from_json(text: str) -> Error:
    """Read an error back; raises `ValueError` for a text that `to_json` has not written."""
    try:
        found = json.loads(text)
        kind = _public_classes()[found["class"]]
        if issubclass(kind, BudgetExceeded):
            requested, remaining = (
                (Fraction(epsilon), Fraction(delta))
                for epsilon, delta in (found["requested"], found["remaining"])
            )
            return kind(found["text"], requested, remaining, found["scope"])
        error = kind(found["text"])
        if isinstance(error, (PolicyError, QueryRefused, QuerySyntaxError)):
            error.obstacles = tuple(
                Obstacle(**{name: each[name] for name in _TOLD}) for each in found["obstacles"]
            )
            error.rewrite = found["rewrite"]
            error.args = (error.obstacles[0].message,)
    except (KeyError, TypeError, IndexError, ValueError, ZeroDivisionError):
        raise ValueError("this is no error of dpsql") from None
    return error
