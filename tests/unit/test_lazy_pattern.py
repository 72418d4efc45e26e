"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import walk_packages

import pytest

import dpsql
from dpsql.lazy_pattern import lazy_pattern


def test_a_pattern_has_what_a_compiled_one_has() -> None:
    lazy, compiled = (make(r"(?P<word>[a-z]+)(\d)?", re.IGNORECASE) for make in (lazy_pattern, re.compile))
    for _ in range(2):
        assert lazy.fullmatch("Ab1").groupdict() == compiled.fullmatch("Ab1").groupdict()  # type: ignore[union-attr]
        assert lazy.sub("-", "a1 b") == compiled.sub("-", "a1 b")
        assert lazy.findall("a1 b") == compiled.findall("a1 b")
    assert (lazy.pattern, lazy.flags, lazy.groups) == (compiled.pattern, compiled.flags, compiled.groups)
    assert not hasattr(lazy, "no_such_name")


def test_a_wrong_pattern_is_noticed_when_it_is_used() -> None:
    wrong = lazy_pattern("(")
    with pytest.raises(re.error):
        wrong.search("a")


def test_every_pattern_of_the_package_compiles() -> None:
    kind = type(lazy_pattern("a"))
    found: list[object] = []
    for module in walk_packages(dpsql.__path__, "dpsql."):
        if module.name.endswith("__main__"):
            continue
        try:
            members = vars(import_module(module.name)).values()
        except ImportError:  # an optional package is not there
            continue
        found += [each for each in members if isinstance(each, kind)]
    assert len(found) > 50
    assert all(callable(each.search) for each in found)  # type: ignore[attr-defined]
