"""Times of public statements and outer queries: what an engine would read in another zone is refused.

These statements run as they are written, in a session of UTC. The engine drops the offset of a text that it
converts to a TIMESTAMP, reads a text without one as of UTC whatever the policy's `time_zone` is, knows zones
by names of its own database, and compares a TIMESTAMP with a TIMESTAMPTZ. The bound plan shows each
conversion.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from sqlglot import exp

from dpsql.analysis.catalog import Catalog
from dpsql.analysis.instants import has_zone, is_offset
from dpsql.language import Source, all_of
from dpsql.lazy_dataclass import dataclass

_PLAIN = frozenset({"TIMESTAMP", "DATE", "TIME"})
_INSTANT = "TIMESTAMP WITH TIME ZONE"
_WRITE = "write an offset: '2024-07-02 00:00:00+02:00'"


def check_times(source: Source, catalog: Catalog, tree: exp.Expr, sql: str) -> None:
    """Refuse a statement with a conversion of times that says another thing than it seems to."""
    texts = {str(node.this) for node in all_of(tree, exp.Literal) if node.args.get("is_string")}
    kinds = {kind.this for kind in all_of(tree, exp.DataType)}
    instants = exp.DataType.Type.TIMESTAMPTZ in kinds or _reads(catalog, tree)
    if not instants and not any(map(has_zone, texts)):
        return
    plan: object = None
    with suppress(ValueError):
        plan = catalog.plan(sql)
    found = fault(plan, catalog.time_zone, instants=instants)
    if found is not None:
        at = next((n for n in all_of(tree, exp.Literal) if str(n.this) == found.text), None)
        raise source.refuse(found.what, at, found.hint)


@dataclass(frozen=True, slots=True)
class Fault:
    """A conversion that is refused: why, what to write instead, and the text that is converted, if any."""

    what: str
    hint: str
    text: str | None


def fault(plan: object, time_zone: str, *, instants: bool) -> Fault | None:
    """Return a conversion of a bound plan that is refused; `instants` says whether tables have some."""
    casts = list(_casts(plan))
    found = (_of_text(node) for node, _ in casts)
    others = (_of_times(node, beside, time_zone, instants=instants) for node, beside in casts)
    return next((made for made in (*found, *others) if made is not None), None)


def _reads(catalog: Catalog, tree: exp.Expr) -> bool:
    """Return whether a statement names a table with instants."""
    return any(catalog.has_instants(table.name) for table in all_of(tree, exp.Table) if table.name.isascii())


def _of_text(node: dict[str, Any]) -> Fault | None:
    """Return the fault of a text with a zone."""
    after, text = node["return_type"]["id"], _constant(node)
    if text is None or not has_zone(text):
        return None
    if after in _PLAIN:
        what = f"this text has an offset or a zone, and a {after} has none"
        return Fault(what, "leave the offset out", text)
    if after == _INSTANT and not is_offset(text):
        return Fault("the name of a zone is read for private data alone", _WRITE, text)
    return None


def _of_times(node: dict[str, Any], beside: list[Any], time_zone: str, *, instants: bool) -> Fault | None:
    """Return the fault of a time without a zone; beside the current time, it is one of UTC."""
    before, after, text = _type(node), node["return_type"]["id"], _constant(node)
    stored = node["children"][0]["expression_class"] in ("BOUND_REF", "BOUND_COLUMN_REF")
    if any(map(_is_clock, beside)):
        return None
    if instants and stored and {before, after} == {"TIMESTAMP", _INSTANT}:
        what = "a TIMESTAMP has no zone, and a TIMESTAMPTZ is an instant"
        return Fault(what, "compare columns of one type", None)
    naive = text is not None and not has_zone(text)
    if after == _INSTANT and time_zone != "UTC" and (naive or before in _PLAIN):
        return Fault("a time without an offset is not read in the policy's time zone here", _WRITE, text)
    return None


def _is_clock(node: object) -> bool:
    """Return whether an operand is the current time, which is one of UTC."""
    path = ((node.get("qname") or {}).get("path") or [""]) if isinstance(node, dict) else [""]
    return path[-1] in ("now", "get_current_timestamp", "current_timestamp", "transaction_timestamp")


def _type(node: dict[str, Any]) -> str:
    child = node["children"][0]
    found = (child.get("value") or {}).get("type") or child.get("return_type") or node["arguments"][0]
    return str(found["id"])


def _constant(node: dict[str, Any]) -> str | None:
    """Return the text that is converted; None for other operands."""
    child = node["children"][0]
    value = (child.get("value") or {}).get("value")
    return value if child["expression_class"] == "BOUND_CONSTANT" and isinstance(value, str) else None


def _casts(plan: object) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Yield the conversions of a plan, each with the operands beside it."""
    waiting: list[tuple[object, list[Any]]] = [(plan, [])]
    while waiting:
        node, beside = waiting.pop()
        if isinstance(node, list):
            waiting += [(each, node) for each in node]
        elif isinstance(node, dict):
            if node.get("type") == "OPERATOR_CAST" and node.get("children"):
                yield node, beside
            waiting += [(each, []) for each in node.values()]
