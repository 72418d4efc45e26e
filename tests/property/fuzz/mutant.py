"""A rule of the analysis made wrong on purpose, by an edit of its own text."""

from __future__ import annotations
import __future__

import importlib
import inspect
import sys
import textwrap
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from dpsql.analysis import from_tables
from dpsql.analysis.typed_expression import Typed
from tests.support.claimed import certify_claims

__all__ = ["Mutant", "without_second_guard"]

Edit = tuple[str, str, str, str]
"""Module (below `dpsql`), function, the text that goes and the text that comes."""


@dataclass(frozen=True)
class Mutant:
    """One rule made wrong, by edits of the text of its functions."""

    name: str
    edits: tuple[Edit, ...]
    focus: tuple[str, ...] = ()
    statement: str = ""
    """A fixture, where chance alone would need too many statements."""
    slow: bool = False
    """Whether it takes long, or resembles another one, so that it is left to the longer run."""
    daily: bool = False
    """Whether it runs every day, whichever sample of the others does."""
    guarded: bool = True
    """False: also without the second guard, which would make up for what the edits take away."""
    by: str = "counts"
    """Who notices: the `counts` of neighbours, the `binder`, an `attack`, or the `meaning` of the SQL.

    `analysis`: the statement stays refused, since a release is analysed as a statement of its own.
    """

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Replace the correct rule by the wrong one wherever a module holds it, and count by it."""
        certify_claims(patch)
        if not self.guarded:
            without_second_guard(patch)
        for holder, name, wrong in _places(self):
            if isinstance(holder, dict):
                patch.setitem(holder, name, wrong)
            else:
                patch.setattr(holder, name, wrong)
        # What is kept of tables was made by the correct rules.
        patch.setattr(from_tables, "compile_declared_table", from_tables._compile_declared_table)


def without_second_guard(patch: pytest.MonkeyPatch) -> None:
    """Write every expression without the TRY around what it computes."""
    patch.setattr(Typed, "guarded_node", property(lambda self: self.node))


@cache
def _places(mutant: Mutant) -> list[tuple[Any, Any, Any]]:
    """Edit the functions, and find every place that holds one of them."""
    edited: dict[tuple[str, str], str] = {}
    for place, function, old, new in mutant.edits:
        text = edited.get((place, function)) or textwrap.dedent(inspect.getsource(_find(place, function)))
        if old not in text:
            raise LookupError(f"mutant {mutant.name!r}: {place}.{function} has changed, edit the mutant too")
        edited[place, function] = text.replace(old, new)
    found: list[tuple[Any, Any, Any]] = []
    for (place, function), text in edited.items():
        right, wrong = _find(place, function), _made(place, function, text)
        owner, _, name = function.rpartition(".")
        if owner:
            found.append((_find(place, owner), name, wrong))
            continue
        modules = [m for n, m in sys.modules.items() if n.startswith(("dpsql.", "fuzz."))]
        found += [(m, name, wrong) for m in modules if getattr(m, name, None) is right]
        found += _in_tables(right, wrong)
    return found


def _find(place: str, function: str) -> Any:
    found: Any = importlib.import_module(f"dpsql.{place}")
    for name in function.split("."):
        found = getattr(found, name)
    return found


def _made(place: str, function: str, text: str) -> object:
    made: dict[str, object] = {}
    flags = __future__.annotations.compiler_flag
    names = importlib.import_module(f"dpsql.{place}").__dict__
    exec(compile(text, "<mutant>", "exec", flags, dont_inherit=True), names, made)
    return made[function.rpartition(".")[2]]


def _in_tables(right: object, wrong: Any) -> list[tuple[Any, Any, Any]]:
    """Find a function in the visible tables of rules, aggregates and SQL texts."""
    from dpsql.analysis import aggregate_functions, known_subqueries
    from dpsql.analysis.call_rules import RULES_BY_NODE
    from dpsql.kernel.tree import writer

    forms = aggregate_functions.AGGREGATES
    found: list[tuple[Any, Any, Any]] = []
    for rules in (known_subqueries.EARLY_RULES, RULES_BY_NODE):
        found += [(rules, n, replace(r, compile=wrong)) for n, r in rules.items() if r.compile is right]
    found += [(forms, n, replace(a, form=wrong)) for n, a in forms.items() if a.form is right]
    found += [(writer.RULES, n, wrong) for n, rule in writer.RULES.items() if rule is right]
    return found
