"""Dataclasses that are written late behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, field
from importlib import import_module
from pkgutil import walk_packages
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import dpsql
from dpsql.lazy_dataclass import dataclass as late


def classes(dataclass: Callable[..., Any]) -> SimpleNamespace:
    """Define the same classes with a decorator: all that the package uses of dataclasses."""

    @dataclass(frozen=True, slots=True)
    class Frozen:
        """Some default values."""

        constant: ClassVar[int] = 3
        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list, compare=False, repr=False)
        d: int = field(default=4, init=False)

        @property
        def twice(self) -> int:
            return 2 * self.a

    @dataclass(frozen=True, slots=True)
    class Below(Frozen):
        e: int = 5
        f: int = field(kw_only=True)
        b: str = "redefined"

    @dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
    class Identical:
        a: int

    @dataclass(frozen=True, slots=True)
    class Named:
        """Fields with the names of what a method is written with."""

        a: int
        keep: int = 1
        missing: int = 2
        default_a: list[int] = field(default_factory=list)
        other: int = 3

    @dataclass(slots=True)
    class Mutable:
        a: int
        b: list[int] = field(default_factory=list)

        def __post_init__(self) -> None:
            self.a += 1

    @dataclass(frozen=True, slots=True)
    class Given:
        a: int
        token: InitVar[int]
        b: int = 2
        c: int = field(init=False)

        def __post_init__(self, token: int) -> None:
            object.__setattr__(self, "c", token)

    @dataclass(frozen=True, slots=True)
    class Explicit:
        a: int
        b: int = 0

        def __repr__(self) -> str:
            return "explicit"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Explicit) and self.a == other.a

        def __hash__(self) -> int:
            return 7

    @dataclass(frozen=True, slots=True)
    class OwnEquality:  # noqa: PLW1641  its hash is written
        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, OwnEquality)

    @dataclass(frozen=True, slots=True, repr=False)
    class Secret:
        a: int

    @dataclass(frozen=True, slots=True)
    class Nothing:
        pass

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, type)})


NAMES = (
    "Frozen",
    "Below",
    "Identical",
    "Named",
    "Mutable",
    "Given",
    "Explicit",
    "OwnEquality",
    "Secret",
    "Nothing",
)
ARGUMENTS: Sequence[tuple[tuple[Any, ...], dict[str, Any]]] = (
    ((), {}),
    ((1,), {}),
    ((2,), {}),
    ((1, "x"), {}),
    ((1, 2, 3), {}),
    ((1, "x", [1], 9), {}),
    ((1,), {"f": 3}),
    ((1,), {"b": [2]}),
    ((1,), {"d": 2}),
    ((), {"a": 3, "token": 4}),
)
ASKED: dict[str, Callable[[Any], object]] = {
    "repr": lambda one: repr(one).partition(" at 0x")[0],
    "hash": hash,
    "dict": dataclasses.asdict,
    "copied": lambda one: repr(copy.deepcopy(one)).partition(" at 0x")[0],
    "fields": lambda one: [(f.name, f.type, f.init, f.compare, f.kw_only) for f in dataclasses.fields(one)],
    "replaced": lambda one: repr(dataclasses.replace(one, a=8)).partition(" at 0x")[0],
    "assigned": lambda one: setattr(one, "a", 1),
    "new": lambda one: setattr(one, "z", 1),
    "deleted": lambda one: delattr(one, "a"),
    "weak": lambda one: weakref.ref(one)() is one,
    "slots": lambda one: type(one).__slots__,
    "matched": lambda one: type(one).__match_args__,
    "hashable": lambda one: type(one).__hash__ is None,
    "parameters": lambda one: type(one).__dataclass_params__.frozen,
    "constant": lambda one: (one.constant, one.twice),
    "name": lambda one: (type(one).__qualname__, type(one).__module__),
}


def outcome(what: Callable[..., object], *arguments: object, **keywords: object) -> object:
    """Return the result of a call; `refused` if it raises."""
    try:
        return what(*arguments, **keywords)
    except (TypeError, ValueError, AttributeError):
        return "refused"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("first", ["repr", "deleted"])
def test_all_is_as_in_the_standard_library(name: str, first: str) -> None:
    """Whatever is asked first of a class: a method that is written late, or one of the class itself."""
    ours, theirs = getattr(classes(late), name), getattr(classes(dataclasses.dataclass), name)
    for arguments, keywords in ARGUMENTS:
        one, other = (outcome(kind, *arguments, **keywords) for kind in (ours, theirs))
        assert (one == "refused") == (other == "refused"), (arguments, keywords)
        for what in (first, *ASKED) if one != "refused" else ():
            if (name, what) == ("Identical", "hash") or what == "deleted" != first:
                continue
            seen, expected = (outcome(ASKED[what], each) for each in (one, other))
            assert seen == expected, (arguments, keywords, what)


@pytest.mark.parametrize("name", NAMES)
def test_equality_is_as_in_the_standard_library(name: str) -> None:
    equal = []
    for dataclass in (late, dataclasses.dataclass):
        kind = getattr(classes(dataclass), name)
        made = [outcome(kind, *arguments, **keywords) for arguments, keywords in ARGUMENTS]
        equal.append([[a == b for b in made] for a in made])
    assert equal[0] == equal[1]


def test_a_frozen_object_is_not_changed() -> None:
    one = classes(late).Frozen(1)
    for name in ("a", "new"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, name, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.a
    assert one.a == 1


@late(frozen=True, slots=True)
class Pickled:
    """A class that can be found by its name."""

    a: int
    b: list[int]


def test_an_object_is_pickled() -> None:
    one = Pickled(1, [2])
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_class_of_the_standard_library_is_derived_from_one() -> None:
    @dataclasses.dataclass(frozen=True)
    class Below(Pickled):
        c: int = 3

    assert repr(Below(1, [2])).endswith("Below(a=1, b=[2], c=3)")
    assert Below(1, [2]) == Below(1, [2], 3)


def test_threads_make_the_first_objects_together() -> None:
    for _ in range(20):
        kind = classes(late).Frozen
        with ThreadPoolExecutor(8) as threads:
            made = list(threads.map(kind, range(8)))
        assert [repr(one) for one in made] == [repr(kind(i)) for i in range(8)]


def test_a_default_that_can_be_changed_is_refused() -> None:
    kind: type = late(slots=True)(type("Shared", (), {"__annotations__": {"a": "list[int]"}, "a": []}))
    with pytest.raises(TypeError, match="default_factory"):
        kind()


def test_without_slots_it_is_refused() -> None:
    with pytest.raises(TypeError, match="slots"):
        late(slots=False)(type("Without", (), {}))


def test_all_our_classes_have_the_standard_library_s_fields() -> None:
    kinds = [kind for kind in _kinds() if "__late_methods__" in vars(kind)]
    assert len(kinds) > 300
    for kind in kinds:
        methods = vars(kind)["__late_methods__"]
        fields = [f.name for f in dataclasses.fields(kind)]
        assert [name for name in methods.fields() if name not in methods.passed] == fields, kind
        assert all(inspect.isdatadescriptor(inspect.getattr_static(kind, name)) for name in fields), kind
        arguments = [n for n, f in methods.fields().items() if f.init and f.kw_only is not True]
        assert getattr(kind, "__match_args__") == tuple(arguments), kind  # noqa: B009


def _kinds() -> Iterator[type]:
    for module in walk_packages(dpsql.__path__, "dpsql."):
        if module.name.endswith("__main__"):
            continue
        try:
            members = vars(import_module(module.name)).values()
        except ImportError:  # an optional package is not there
            continue
        yield from (m for m in members if isinstance(m, type) and m.__module__ == module.name)
