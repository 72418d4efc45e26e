"""`dataclass` with slots, as in the standard library, whose methods are written when they are first called.

The standard library writes and compiles up to six methods of a class when it is defined: 0.4 ms. A process
that answers one statement defines some 600 such classes, and calls few of these methods. The kernel has
200 of them, so this file is read with it: it imports nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, cast

__all__ = ["dataclass", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass, replace

    from _typeshed import DataclassInstance
else:

    def dataclass(**options: bool) -> Callable[[type], type]:
        """Return a decorator; its options are `slots` (true), `frozen`, `eq`, `repr` and `weakref_slot`.

        >>> @dataclass(frozen=True, slots=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1), Point(1) == Point(1, 0), {Point(2), Point(2)}
        (Point(x=1, y=0), True, {Point(x=2, y=0)})
        """
        return lambda cls: _add_slots(cls, **options)

    def replace(itself: DataclassInstance, /, **changes: object) -> DataclassInstance:
        """Return a copy with other values of some fields, as the standard library does in more time.

        >>> @dataclass(frozen=True, slots=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> replace(Point(1, 2), y=3)
        Point(x=1, y=3)
        """
        names, read = getattr(type(itself), _LATE).reader()
        return type(itself)(**{**dict(zip(names, read(itself), strict=False)), **changes})


_MISSING = dataclasses.MISSING
_LATE, _FIELDS, _PARAMETERS = "__late_methods__", "__dataclass_fields__", "__dataclass_params__"
_MARK = "_field_type"
"""The attribute of a field by which the standard library tells what is kept from what is passed on."""


@dataclasses.dataclass(init=False, repr=False, eq=False)
class _Example:
    """A class with a field of each kind. Without a docstring its signature would be written as one."""

    kept: int
    passed: dataclasses.InitVar[int]


_KEPT, _PASSED = (getattr(field, _MARK) for field in vars(_Example)[_FIELDS].values())


def _add_slots(
    cls: type,
    *,
    slots: bool,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,  # noqa: A002  the name in the standard library
    weakref_slot: bool = False,
) -> type:
    """Return a class with slots for the fields of `cls`, and with stubs in place of its methods."""
    if not slots:
        raise TypeError("only dataclasses with slots are written late")
    own, before = vars(cls), getattr(cls, "__match_args__", ())
    kinds: dict[str, str] = own.get("__annotations__", {})
    named = [name for name, kind in kinds.items() if not kind.startswith("ClassVar")]
    passed = {name for name in named if kinds[name].startswith("InitVar")}
    inherited = {name for base in cls.__mro__[1:] for name in vars(base).get("__slots__", ())} | passed
    slotted = [name for name in named if name not in inherited] + ["__weakref__"] * weakref_slot
    arguments = [name for name in named if name not in before and _positional(own.get(name))]
    late = _LateMethods(cls, named, passed, frozen=frozen)
    namespace: dict[str, object] = {"__init__": late.stub(_init)} | dict(own)
    for name in (*named, "__dict__", "__weakref__"):
        namespace.pop(name, None)
    namespace |= {"__slots__": tuple(slotted), "__match_args__": (*before, *arguments), _LATE: late}
    namespace[_FIELDS] = _LateAttribute(late, _FIELDS, _LateMethods.fields)
    namespace[_PARAMETERS] = _LateAttribute(late, _PARAMETERS, _LateMethods.parameters)
    if repr:
        namespace.setdefault("__repr__", _representation)
    if eq:
        namespace.setdefault("__eq__", late.stub(_eq))
        if own.get("__hash__") is None:
            namespace["__hash__"] = late.stub(_hash) if frozen else None
    if frozen:
        namespace |= {"__setattr__": _refuse_assignment, "__delattr__": _refuse_deletion}
        namespace.setdefault("__getstate__", _state)
        namespace.setdefault("__setstate__", _restore)
    late.made = type(cls)(cls.__name__, cls.__bases__, namespace)
    late.made.__qualname__ = cls.__qualname__
    return late.made


class _LateMethods:
    """What is needed to write the methods of one class."""

    __slots__ = ("_named", "_original", "_reader", "frozen", "made", "passed")

    def __init__(self, original: type, named: list[str], passed: set[str], *, frozen: bool) -> None:
        self._original, self._named = original, named
        self._reader: tuple[list[str], Callable[[object], tuple[object, ...]]] | None = None
        self.frozen = frozen
        self.passed = passed
        """Names of the arguments that are passed to `__post_init__` and not kept."""
        self.made: type

    def stub(self, write: Callable[[_LateMethods], _Written]) -> Callable[..., object]:
        """Return a method that writes the real one into the class, and calls that."""
        name = f"_{write.__name__}__"

        def call(itself: object, /, *args: object, **keywords: object) -> object:
            text, namespace, names, defaults, keyword_defaults = write(self)
            code = _compile(text)
            variables, used = ([names.get(n, n) for n in x] for x in (code.co_varnames, code.co_names))
            code = code.replace(co_varnames=tuple(variables), co_names=tuple(used))
            method = FunctionType(code, namespace, name, defaults)
            method.__kwdefaults__ = keyword_defaults
            method.__qualname__ = f"{self.made.__qualname__}.{name}"
            setattr(self.made, name, method)
            return method(itself, *args, **keywords)

        return call

    def fields(self) -> dict[str, dataclasses.Field[Any]]:
        """Return the fields by their names, inherited ones first."""
        found: dict[str, dataclasses.Field[Any]] = {}
        for base in self.made.__mro__[:0:-1]:
            found |= getattr(base, _FIELDS, {})
        own = vars(self._original)
        for name in self._named:
            found[name] = self._field(name, own["__annotations__"][name], own.get(name, _MISSING))
        return found

    def reader(self) -> tuple[list[str], Callable[[object], tuple[object, ...]]]:
        """Return the names of the arguments that are kept, and what reads their values."""
        if self._reader is None:
            fields: dict[str, dataclasses.Field[Any]] = getattr(self.made, _FIELDS)
            names = [name for name, each in fields.items() if each.init and name not in self.passed]
            read = attrgetter(*names, *names[:1])  # of a single name it would be the value itself
            self._reader = names, read
        return self._reader

    def _field(self, name: str, kind: str, default: object) -> dataclasses.Field[Any]:
        """Return a field as the standard library makes it: with its name and the mark of what it is."""
        if default.__class__.__hash__ is None:
            raise TypeError(f"the default of {name} can be changed: give field(default_factory=..)")
        found = (
            default
            if isinstance(default, dataclasses.Field)
            else dataclasses.field(default=cast("Any", default))
        )
        found.name, found.type = name, cast("Any", kind)
        found.kw_only = found.kw_only is True
        setattr(found, _MARK, _PASSED if name in self.passed else _KEPT)
        return found

    def parameters(self) -> object:
        """Return what the standard library reads of the bases of its own dataclasses."""
        options = {"init": False, "repr": False, "eq": False, "frozen": self.frozen}
        return vars(dataclasses.dataclass(**options)(type("Empty", (), {})))[_PARAMETERS]


class _LateAttribute:
    """An attribute of a class that is made when it is first read."""

    __slots__ = ("_late", "_make", "_name")

    def __init__(self, late: _LateMethods, name: str, make: Callable[[_LateMethods], object]) -> None:
        self._late, self._name, self._make = late, name, make

    def __get__(self, instance: object, owner: type) -> object:
        made = self._make(self._late)
        setattr(self._late.made, self._name, made)
        return made


def _positional(default: object) -> bool:
    """Whether a field with this default is a positional argument."""
    return not isinstance(default, dataclasses.Field) or (default.init and default.kw_only is not True)


_Written = tuple[str, dict[str, Any], dict[str, str], tuple[object, ...], dict[str, Any]]
"""The text of a method, what it names, the names of fields by those that stand for them in it, and defaults.

Fields stand in it by their places, and their defaults do not, so that many classes have the same text.
"""


@cache
def _compile(text: str) -> CodeType:
    """Compile the text of a function."""
    return cast("CodeType", compile(text, "<string>", "exec").co_consts[0])


def _init(late: _LateMethods) -> _Written:
    """Write `__init__`, which calls `__post_init__` at its end.

    Of a frozen class it sets slots by their descriptors, which takes less time than `object.__setattr__`.
    """
    keep = "__keep{0}(self, {1})" if late.frozen else "self.{0} = {1}"
    namespace: dict[str, Any] = {"__missing__": _MISSING}
    positional, keyword, lines = ["self"], list[str](), list[str]()
    defaults, keyword_defaults = list[object](), dict[str, Any]()
    fields: dict[str, dataclasses.Field[Any]] = getattr(late.made, _FIELDS)
    places = {field: f"__{i}__" for i, field in enumerate(fields)}
    for written, field in fields.items():
        name = places[written]
        value, default, given = name, f"__default{name}", field.default
        optional = given is not _MISSING or field.default_factory is not _MISSING
        if field.default_factory is not _MISSING:
            namespace[default] = field.default_factory
            value = f"{default}() if {name} is __missing__ else {name}" if field.init else f"{default}()"
        elif not field.init and optional:
            value, namespace[default] = default, given
        elif not field.init:
            continue
        if field.init and field.kw_only:
            keyword.append(name)
            keyword_defaults |= {written: given} if optional else {}
        elif field.init:
            if defaults and not optional:
                raise TypeError(f"{written} has no default, and follows a field that has one")
            positional.append(name)
            defaults += [given] * optional
        if written not in late.passed:
            lines.append(keep.format(name, value))
            namespace[f"__keep{name}"] = getattr(late.made, written).__set__
    if hasattr(late.made, "__post_init__"):
        lines.append(f"self.__post_init__({', '.join(places[n] for n in places if n in late.passed)})")
    arguments = [*positional, *(["*"] if keyword else []), *keyword]
    text = f"def __init__({', '.join(arguments)}):\n " + "\n ".join(lines or ["pass"])
    names = {place: name for name, place in places.items()}
    return text, namespace, names, tuple(defaults), keyword_defaults


def _eq(late: _LateMethods) -> _Written:
    compared = [
        name
        for name, field in getattr(late.made, _FIELDS).items()
        if field.compare and name not in late.passed
    ]
    ours, theirs, names = *(_tuple(of, compared) for of in ("self", "other")), _map_places(compared)
    text = f"return {ours} == {theirs} if other.__class__ is self.__class__ else NotImplemented"
    return f"def __eq__(self, other):\n {text}", {}, names, (), {}


def _hash(late: _LateMethods) -> _Written:
    fields = ((name, field) for name, field in getattr(late.made, _FIELDS).items() if name not in late.passed)
    hashed = [name for name, field in fields if (field.compare if field.hash is None else field.hash)]
    text = f"def __hash__(self):\n return __hash__({_tuple('self', hashed)})"
    return text, {"__hash__": hash}, _map_places(hashed), (), {}


def _map_places(names: list[str]) -> dict[str, str]:
    return {f"__{place}__": name for place, name in enumerate(names)}


def _tuple(of: str, names: list[str]) -> str:
    return f"({''.join(f'{of}.{place}, ' for place in _map_places(names))})"


@recursive_repr()
def _representation(itself: DataclassInstance) -> str:
    shown = (f"{f.name}={getattr(itself, f.name)!r}" for f in dataclasses.fields(itself) if f.repr)
    return f"{type(itself).__qualname__}({', '.join(shown)})"


def _refuse_assignment(itself: object, name: str, value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(itself: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(itself: DataclassInstance) -> list[object]:
    return [getattr(itself, field.name) for field in dataclasses.fields(itself)]


def _restore(itself: DataclassInstance, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(itself), state, strict=True):
        object.__setattr__(itself, field.name, value)
