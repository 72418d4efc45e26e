"""Limits of public statements and outer queries: times that need a zone, texts that are too long.

These statements run as they are written, in a session of UTC. The engine drops the offset of a text that it
converts to a TIMESTAMP, reads a text without one as of UTC whatever the policy's `time_zone` is, knows zones
by names of its own database, and compares a TIMESTAMP with a TIMESTAMPTZ. The bound plan shows each
conversion.

A few nested calls can make a text of many gigabytes from a short statement. The engine's limit on memory does
not count such texts, and no interrupt stops a call. So a call that could lengthen its texts is written such
that it is NULL where its result could have more than `LONGEST` bytes. Each argument is still computed once:
the guard is a filter of a list with one element, and not a CASE, whose repeated arguments would double with
each call inside another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import sqlglot
from sqlglot import exp

from dpsql.analysis.compiler import call_name, function_name
from dpsql.analysis.conversions import has_zone, is_offset
from dpsql.analysis.schema_catalog import Catalog
from dpsql.errors import with_article
from dpsql.kernel.tree.forms import LONGEST
from dpsql.language import MARK, StatementText, copy_tree, find_nodes, walk_tree
from dpsql.lazy_dataclass import dataclass

MOST_VALUES = 1_000_000
"""The most values of a series."""
TOO_LONG = f"a series has at most {MOST_VALUES:,} values"
_PLAIN = frozenset({"TIMESTAMP", "DATE", "TIME"})
_INSTANT = "TIMESTAMP WITH TIME ZONE"
_WRITE = "write an offset: '2024-07-02 00:00:00+02:00'"


def check_times(source: StatementText, catalog: Catalog, tree: exp.Expr, sql: str) -> None:
    """Refuse a statement that converts between times with and without a zone in a misleading way."""
    texts = {str(node.this) for node in find_nodes(tree, exp.Literal) if node.args.get("is_string")}
    kinds = {kind.this for kind in find_nodes(tree, exp.DataType)}
    instants = exp.DataType.Type.TIMESTAMPTZ in kinds or _has_instants(catalog, tree)
    if not instants and not any(map(has_zone, texts)):
        return
    plan: object = None
    with suppress(ValueError):
        plan = catalog.plan(sql)
    found = find_fault(plan, catalog.time_zone, instants=instants)
    if found is not None:
        at = next((n for n in find_nodes(tree, exp.Literal) if str(n.this) == found.text), None)
        raise source.refuse(found.what, at, found.hint)


@dataclass(frozen=True, slots=True)
class TimeFault:
    """A conversion that is refused: why, what to write instead, and the text that is converted, if any."""

    what: str
    hint: str
    text: str | None


def find_fault(plan: object, time_zone: str, *, instants: bool) -> TimeFault | None:
    """Return the first refused time conversion in a bound plan; None if there is none."""
    casts = list(_find_casts(plan))
    found = (_find_text_fault(node) for node, _ in casts)
    others = (_find_time_fault(node, beside, time_zone, instants=instants) for node, beside in casts)
    return next((made for made in (*found, *others) if made is not None), None)


def _has_instants(catalog: Catalog, tree: exp.Expr) -> bool:
    """Return whether a statement names a table with instants."""
    return any(
        catalog.has_instants(table.name) for table in find_nodes(tree, exp.Table) if table.name.isascii()
    )


def _find_text_fault(node: dict[str, Any]) -> TimeFault | None:
    """Return the fault of a text with a zone."""
    after, text = node["return_type"]["id"], _read_text(node)
    if text is None or not has_zone(text):
        return None
    if after in _PLAIN:
        what = f"this text has an offset or a zone, and {with_article(str(after))} has none"
        return TimeFault(what, "leave the offset out", text)
    if after == _INSTANT and not is_offset(text):
        return TimeFault("the name of a zone is read for private data alone", _WRITE, text)
    return None


def _find_time_fault(
    node: dict[str, Any], beside: list[Any], time_zone: str, *, instants: bool
) -> TimeFault | None:
    """Return the fault of a time without a zone; beside the current time, it is one of UTC."""
    before, after, text = _read_type(node), node["return_type"]["id"], _read_text(node)
    stored = node["children"][0]["expression_class"] in ("BOUND_REF", "BOUND_COLUMN_REF")
    if any(map(_is_clock, beside)):
        return None
    if instants and stored and {before, after} == {"TIMESTAMP", _INSTANT}:
        what = "a TIMESTAMP has no zone, and a TIMESTAMPTZ is an instant"
        return TimeFault(what, "compare columns of one type", None)
    naive = text is not None and not has_zone(text)
    if after == _INSTANT and time_zone != "UTC" and (naive or before in _PLAIN):
        return TimeFault("a time without an offset is not read in the policy's time zone here", _WRITE, text)
    return None


def _is_clock(node: object) -> bool:
    """Return whether an operand is the current time, which is one of UTC."""
    path = ((node.get("qname") or {}).get("path") or [""]) if isinstance(node, dict) else [""]
    return path[-1] in ("now", "get_current_timestamp", "current_timestamp", "transaction_timestamp")


def _read_type(node: dict[str, Any]) -> str:
    child = node["children"][0]
    found = (child.get("value") or {}).get("type") or child.get("return_type") or node["arguments"][0]
    return str(found["id"])


def _read_text(node: dict[str, Any]) -> str | None:
    """Return the text that is converted; None for other operands."""
    child = node["children"][0]
    value = (child.get("value") or {}).get("value")
    return value if child["expression_class"] == "BOUND_CONSTANT" and isinstance(value, str) else None


def _find_casts(plan: object) -> Iterator[tuple[dict[str, Any], list[Any]]]:
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


_FACTORS = {
    **dict.fromkeys(("upper", "lower", "ucase", "lcase", "nfc_normalize", "url_encode"), 3),
    **dict.fromkeys(("hex", "to_base64"), 2),
    **dict.fromkeys(("regexp_escape", "translate"), 4),
    "concat": 1,
    "strftime": 20,
}
"""How many times as long as its arguments together the result of a function can be."""
_INSERTED = {"replace": 2, "regexp_replace": 2, "array_to_string": 1}
"""The place of the argument that a function may put at each place of its first one."""
_PADDED = frozenset({"lpad", "rpad"})
_BYTES = 4
"""The most bytes of a character: lengths of padded texts are in characters."""
_TEXTS = frozenset({"TEXT", "VARCHAR", "CHAR", "BPCHAR", "NVARCHAR", "NCHAR", "NAME"})
_TOGETHER = 16
_CONSTANT = (exp.Literal, exp.Null, exp.Boolean, exp.DPipe, exp.Paren)
_VALUE = "dpsql_value"
_SHORT = (
    f"list_extract(list_transform(list_filter([x], lambda {_VALUE}: size <= {LONGEST}), "
    f"lambda {_VALUE}: y), 1)"
)
_SHORT_TEXT = f"list_extract(list_filter([x], lambda {_VALUE}: strlen({_VALUE}) <= {LONGEST}), 1)"
_SHORT_LENGTH = f"CAST(NULLIF(LEAST(CAST(x AS BIGINT), {LONGEST + 1}), {LONGEST + 1}) AS INTEGER)"


def limit_series(tree: exp.Expr) -> None:
    """Change the series of a query so that one of more than `MOST_VALUES` values fails, by its own words."""
    for node in find_nodes(tree, exp.Anonymous):
        ends = node.expressions
        if call_name(node) not in ("generate_series", "range") or isinstance(node.parent, exp.Table):
            continue
        if len(ends) == 3 and isinstance(ends[2].unnest(), exp.Interval):
            form = "epoch(CAST(b AS TIMESTAMP)) - epoch(CAST(a AS TIMESTAMP))"
            form = f"abs({form}) / NULLIF(abs(epoch(s)), 0)"
        elif any(isinstance(each, exp.Interval) for each in walk_tree(node)):
            continue  # the engine says what is wrong with it
        else:
            form = "abs(CAST(b AS DOUBLE) - CAST(a AS DOUBLE)) / NULLIF(abs(CAST(s AS DOUBLE)), 0)"
        one, none = exp.Literal.number(1), exp.Literal.number(0)
        start, stop, step = (none, *ends, one) if len(ends) == 1 else (*ends, one)[:3]
        text = f"CASE WHEN {form} >= {MOST_VALUES} THEN error('{TOO_LONG}') ELSE c END"
        limited = _fill_template(
            text, **{k: copy_tree(v) for k, v in zip("absc", (start, stop, step, stop), strict=True)}
        )
        stop.replace(limited)


def limit_texts(tree: exp.Expr) -> None:
    """Change the calls of a query so that none of them computes a text of more than `LONGEST` bytes."""
    nodes = [node for node in walk_tree(tree) if _find_limit(node) is not None]
    if not nodes:
        return
    _name_columns(tree)
    for node in reversed(nodes):  # the inner ones first: they are arguments of the outer ones
        call = _find_limit(node)
        assert call is not None  # noqa: S101  what is put into a call makes it no shorter
        node.replace(call.limit())


@dataclass(frozen=True, slots=True)
class _Call:
    """A function call whose text may be longer than its arguments."""

    arguments: Sequence[exp.Expr]
    make: Callable[[Sequence[exp.Expr]], exp.Expr]
    """Makes the call of other arguments."""
    inserted: int | None = None
    """The argument that may stand at each place of the first one; None: the lengths are added."""
    factor: int = 1
    weights: Sequence[int] = ()
    """How often each argument is in the result, if not once."""

    @property
    def short(self) -> bool:
        """Whether constants alone decide the greatest length of the result, and that is within the limit."""
        sizes = [_measure_text(argument) for argument in self.arguments]
        if self.inserted is not None:
            sizes = [sizes[0], sizes[self.inserted]]
        if any(size is None for size in sizes):
            return False
        known = [size or 0 for size in sizes]
        if self.inserted is not None:
            return (known[0] + 1) * (known[1] + 1) <= LONGEST
        return sum(map(int.__mul__, known, self._weights)) * self.factor <= LONGEST

    @property
    def _weights(self) -> Sequence[int]:
        return self.weights or [1] * len(self.arguments)

    def limit(self) -> exp.Expr:
        """Return the call with its limit; the arguments are moved into it."""
        fields: list[exp.Expr] = []
        given: list[exp.Expr] = []
        # Some arguments, such as the options of a regular expression, have to be constants.
        constants = [_measure_text(argument) is not None for argument in self.arguments]
        if all(constants):
            constants[0] = False
        for place, (argument, constant) in enumerate(zip(self.arguments, constants, strict=True)):
            if not constant:
                fields.append(exp.PropertyEQ(this=exp.to_identifier(f"a{place}"), expression=argument))
            given.append(
                copy_tree(argument) if constant else _fill_template(f"struct_extract({_VALUE}, 'a{place}')")
            )
        return _fill_template(
            _SHORT, x=exp.Struct(expressions=fields), size=self._write_bound(), y=self.make(given)
        )

    def _write_bound(self) -> exp.Expr:
        sizes = []
        for place, argument in enumerate(self.arguments):
            known = _measure_text(argument)
            computed = f"coalesce(strlen(CAST(struct_extract({_VALUE}, 'a{place}') AS VARCHAR)), 0)"
            sizes.append(computed if known is None else str(known))
        if self.inserted is not None:
            return _parse_sql(f"({sizes[0]} + 1) * ({sizes[self.inserted]} + 1)")
        # Not one addition inside the other: the engine limits how deep an expression may be.
        parts = ", ".join(f"{weight} * {size}" for weight, size in zip(self._weights, sizes, strict=True))
        return _parse_sql(f"list_sum([{parts}]) * {self.factor}")


@dataclass(frozen=True, slots=True)
class _Chain:
    """Several expressions that `||` joins to one text."""

    terms: Sequence[exp.Expr]

    def limit(self) -> exp.Expr:
        """Return the chain with its limit, some terms at a time: the engine copies wide structures often."""
        made, *left = self.terms
        while left:
            made = _Call([made, *left[:_TOGETHER]], _build_chain).limit()
            left = left[_TOGETHER:]
        return made


@dataclass(frozen=True, slots=True)
class _Padding:
    """A call of lpad or rpad, whose second argument is the length of the result."""

    name: str
    arguments: Sequence[exp.Expr]

    def limit(self) -> exp.Expr:
        """Return the call with NULL in the place of a length, or of a result, that is too large."""
        text, length, *rest = self.arguments
        short = [text, _fill_template(_SHORT_LENGTH, x=length), *rest]
        return _fill_template(_SHORT_TEXT, x=exp.Anonymous(this=self.name, expressions=short))


@dataclass(frozen=True, slots=True)
class _Conversion:
    """A conversion to a text: a list is longer as a text than its elements are."""

    cast: exp.Cast

    def limit(self) -> exp.Expr:
        """Return the conversion with NULL in the place of a result that is too long."""
        return _fill_template(_SHORT_TEXT, x=type(self.cast)(**self.cast.args))


def _find_limit(node: exp.Expr) -> _Call | _Chain | _Padding | _Conversion | None:
    """Return how a node that may make a long text gets its limit; None for a node that needs none."""
    if isinstance(node, exp.DPipe):
        return _join_chain(node)
    if isinstance(node, exp.Cast):  # TRY_CAST as well
        kind = node.args.get("to")
        text = isinstance(kind, exp.DataType) and getattr(kind.this, "name", "") in _TEXTS
        # As a part of a longer text it is limited there; without that limit it has three times as many bytes.
        return _Conversion(node) if text and not _is_part(node) and _measure_text(node.this) is None else None
    written = function_name(node)
    name, arguments = (written or "").lower(), node.args.get("expressions") or []
    if name in _PADDED and len(arguments) > 1:
        length = arguments[1]
        plain = isinstance(length, exp.Literal) and str(length.this).isdecimal()
        return None if plain and int(str(length.this)[:9]) <= LONGEST // _BYTES else _Padding(name, arguments)

    def make(given: Sequence[exp.Expr]) -> exp.Expr:
        return exp.Anonymous(this=written, expressions=list(given))

    call = None
    if name in _FACTORS:
        call = _Call(arguments, make, factor=_FACTORS[name])
    elif name == "concat_ws":  # the first argument stands between each two of the others
        call = _Call(arguments, make, weights=(len(arguments), *(1 for _ in arguments[1:])))
    elif name in _INSERTED and len(arguments) > _INSERTED[name]:
        call = _Call(arguments, make, inserted=_INSERTED[name])
    return None if call is None or call.short else call


def _is_part(node: exp.Expr) -> bool:
    """Return whether a node is an argument of a call with a limit on all its arguments together."""
    parent = node.parent
    name = "" if parent is None else call_name(parent)
    return isinstance(parent, exp.DPipe) or name in ("concat", "concat_ws")


def _join_chain(node: exp.DPipe) -> _Chain | None:
    """Return a whole chain of `||` as one call; None for a `||` inside such a chain."""
    if isinstance(node.parent, exp.DPipe) and node.arg_key == "this":
        return None
    terms: list[exp.Expr] = []
    first: exp.Expr = node
    while isinstance(first, exp.DPipe):
        terms.append(first.expression)
        first = first.this

    chain = _Chain([first, *reversed(terms)])
    return None if _Call(chain.terms, _build_chain).short else chain


def _build_chain(terms: Sequence[exp.Expr]) -> exp.Expr:
    made = terms[0]
    for term in terms[1:]:
        made = exp.DPipe(this=made, expression=term)
    return made


def _measure_text(node: exp.Expr) -> int | None:
    """Return how many bytes a value has that stands in the text of the statement; None for others."""
    parts = walk_tree(node)
    if not all(isinstance(part, _CONSTANT) for part in parts):
        return None
    return sum(len(str(part.this).encode(errors="surrogatepass")) for part in parts if part.is_leaf())


def _parse_sql(sql: str) -> exp.Expr:
    return sqlglot.parse_one(sql, read="duckdb")


@cache
def _parse_template(sql: str) -> exp.Expr:
    return _parse_sql(sql)


def _fill_template(template: str, **parts: exp.Expr) -> exp.Expr:
    """Return a copy of a parsed SQL template in which named columns are replaced by expressions."""
    made = copy_tree(_parse_template(template))
    for column in [node for node in walk_tree(made) if isinstance(node, exp.Column)]:
        if column.name in parts:
            column.replace(parts[column.name])
    return made


def _name_columns(tree: exp.Expr) -> None:
    """Give the columns of all SELECTs without a name the one that the engine would give them."""
    for select in [node for node in walk_tree(tree) if isinstance(node, exp.Select)]:
        select.set("expressions", [_name_item(item) for item in select.expressions])


def _name_item(item: exp.Expr) -> exp.Expr:
    if isinstance(item, (exp.Alias, exp.Column, exp.Star)):
        return item
    if all(_find_limit(node) is None for node in walk_tree(item)):
        return item
    return exp.Alias(this=item, alias=exp.to_identifier(_name_as_engine(item), quoted=True))


def _name_as_engine(node: exp.Expr) -> str:
    """Return the name that the engine gives a column without one."""
    if isinstance(node, exp.DPipe):
        return f"({_name_as_engine(node.this)} || {_name_as_engine(node.expression)})"
    name = function_name(node)
    if name is not None:
        return f"{name}({', '.join(map(_name_as_engine, node.args.get('expressions') or []))})"
    if isinstance(node, exp.Paren):
        return _name_as_engine(node.this)
    if isinstance(node, exp.Column):
        return ".".join(part.name for part in node.parts)
    text: str = node.sql("duckdb", comments=False, normalize_functions=False)
    return text.replace(MARK, "")
