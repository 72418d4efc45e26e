"""The differences between what was collected of two environments, a line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpsql.engines.duckdb.duckdb_settings import _STATISTICS, _UNSAFE_OPTIMIZERS
from dpsql.kernel.tree import listed_forms

_SWITCHED_OFF = {_STATISTICS, *_UNSAFE_OPTIMIZERS}


def differences(before: dict[str, Any], after: dict[str, Any], rows: int = 3) -> list[str]:
    """Return the lines of all differences; those that begin with `!` are about what the guarantee reads."""
    failed = after["failed"].items()
    return [
        *(f"! {name}: cannot be collected: {text.splitlines()[-1]}" for name, text in failed),
        *_settings(before, after),
        *_optimizers(before, after),
        *_functions(before, after),
        *_words(before, after),
        *_compiled(before, after),
        *_results(before, after, rows),
    ]


def _settings(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Compare what is listed, and the values of what is relied on.

    A setting of a cursor is read, too: it may be changed by a statement and no pin holds for it.
    """
    for name, old, new in _changes(before["settings"], after["settings"]):
        local = "LOCAL" in (new or "")
        yield f"{_mark(local)} setting {name}: {_listed(old)} -> {_listed(new)}"
    if "relied_on" in before and "relied_on" in after:
        for name, old, new in _changes(before["relied_on"], after["relied_on"]):
            yield f"! relied on {name}: {old or 'none'} -> {new or 'none'}"


def _optimizers(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    old, new = set(before.get("optimizers", ())), set(after.get("optimizers", ()))
    yield from (
        f"! optimizer {name}: new, and nobody looked whether it keeps TRY" for name in sorted(new - old)
    )
    yield from (f"{_mark(name in _SWITCHED_OFF)} optimizer {name}: gone" for name in sorted(old - new))


def _functions(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Compare volatility and signatures; read are those of what plans call and the list allows."""
    called = {*before.get("words", {}).get("called", ()), *listed_forms()}
    for name, old, new in _changes(before.get("functions", {}), after.get("functions", {})):
        gone = sorted(set((old or "").split("; ")) - set((new or "").split("; ")))
        come = sorted(set((new or "").split("; ")) - set((old or "").split("; ")))
        words = [*(f"-{each}" for each in gone if each), *(f"+{each}" for each in come if each)]
        more = f" and {len(words) - 6} more" if len(words) > 6 else ""
        yield f"{_mark(name in called)} function {name}: {', '.join(words[:6])}{more}"


def _words(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    if "words" not in before or "words" not in after:
        return
    old, new = before["words"], after["words"]
    for kind in old["words"]:
        for sign, words in (("new", _less(new, old, kind)), ("gone", _less(old, new, kind))):
            yield from (f"! plan word {word} ({kind}): {sign}" for word in words)
    yield from (f"! plans call {name}: new" for name in sorted({*new["called"]} - {*old["called"]}))
    yield from (f"! plans call {name}: no longer" for name in sorted({*old["called"]} - {*new["called"]}))


def _less(one: dict[str, Any], other: dict[str, Any], kind: str) -> list[str]:
    return sorted({*one["words"][kind]} - {*other["words"][kind]})


def _compiled(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Compare the SQL that the fixtures and examples become: the parser and the generator decide it."""
    if "words" not in before or "words" not in after:
        return
    old, new = before["words"]["compiled"], after["words"]["compiled"]
    for name, one, other in _changes(old, new):
        pairs = zip(one or ["none"], other or ["none"], strict=False)
        yield from (f"! statement {name}: {_apart(a, b)}" for a, b in pairs if a != b)


def _apart(one: str, other: str) -> str:
    """Return two texts from where they differ."""
    same = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    begin = max(0, same - 20)
    return f"{one[begin : same + 60]!r} -> {other[begin : same + 60]!r}"


def _results(before: dict[str, Any], after: dict[str, Any], rows: int) -> Iterator[str]:
    for form, old, new in _changes(before.get("results", {}), after.get("results", {})):
        if old is None or new is None:
            yield f"! form {form}: {'new' if old is None else 'gone'}"
            continue
        if old["type"] != new["type"]:
            yield f"! form {form}: Arrow type {old['type']} -> {new['type']}"
        other = [(a, b) for a, b in zip(old["rows"], new["rows"], strict=False) if a != b]
        shown = "; ".join(f"({a[0]}) {a[1]} -> {b[1]}" for a, b in other[:rows])
        if other:
            yield f"! form {form}: {len(other)} of {len(old['rows'])} samples: {shown}"


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield what differs: the name and both values, None where there is none."""
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)


def _listed(text: str | None) -> str:
    return "not listed" if text is None else text


def _mark(read: bool) -> str:
    return "!" if read else " "
