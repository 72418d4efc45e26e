"""Conversions between PostgreSQL's types, made in the tree: of literals, parameters, texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sqlglot import exp

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.database import Names
from dpsql.serve.catalog.facts import UnknownObject, UnknownQuestion, UnknownType
from dpsql.serve.catalog.pg_types import NAMED_OIDS, TEXT, TEXTS, UNKNOWN, VECTORS
from dpsql.serve.catalog.postgres_data import PREFIX
from dpsql.serve.catalog.relations import ANALYST, OWNER

MAX_PARAMETERS = 1000


class SourceColumn(NamedTuple):
    """A column of a source: its name and PostgreSQL's type; None if DuckDB is to tell the type."""

    name: str
    type: int | None


Tables = dict[str, list[SourceColumn]]
"""Common table expressions and their columns."""


class Source(NamedTuple):
    """An item of a FROM clause."""

    name: str
    columns: list[SourceColumn]
    oid: int = 0
    """The OID of a relation of the catalogue: its `tableoid`."""


class Scope:
    """The names that the expressions of one SELECT see: its sources and their columns."""

    def __init__(self, outer: Scope | None, tables: Tables) -> None:
        self.outer = outer
        self.tables = dict(tables)
        self.sources: list[Source] = []
        self.merged: list[str] = []
        """Columns that USING and NATURAL have merged."""

    def source(self, column: str, table: str) -> Source | None:
        """Return the source that has a column, from the innermost SELECT that has it."""
        for source in self.sources:
            if table in ("", source.name) and any(known.name == column for known in source.columns):
                return source
        return None if self.outer is None else self.outer.source(column, table)

    def source_of_name(self, table: str) -> Source | None:
        """Return the source of a name, from the innermost SELECT that has it."""
        found = next((source for source in self.sources if source.name == table), None)
        return found if found is not None or self.outer is None else self.outer.source_of_name(table)

    def star_columns(self, table: str) -> list[tuple[str, str]]:
        """Return columns and sources that `*` or `table.*` stands for: merged columns first."""
        merged = [] if table else self.merged
        return [(name, "") for name in merged] + [
            (column.name, source.name)
            for source in self.sources
            if table in ("", source.name)
            for column in source.columns
            if column.name not in merged
        ]


def rename(columns: Sequence[SourceColumn], names: Sequence[str]) -> list[SourceColumn]:
    """Return columns as an alias names them; those that it does not name keep their names."""
    if len(names) > len(columns):
        raise UnknownQuestion("columns of an alias")
    both = zip(names, columns, strict=False)
    return [SourceColumn(name, column.type) for name, column in both] + list(columns[len(names) :])


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Return the call of a function of DuckDB, or of a macro."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def cast(node: exp.Expr, oid: int) -> exp.Cast:
    """Return a cast to the DuckDB type that holds a type."""
    return exp.Cast(this=node, to=exp.DataType.build(pg_types.duckdb_type(oid), dialect="duckdb"))


def wrap(node: exp.Expr, build: Callable[[exp.Expr], exp.Expr]) -> None:
    """Put an expression that holds a node in the node's place."""
    place = exp.Placeholder()
    node.replace(place)
    place.replace(build(node))


class Value(NamedTuple):
    """An expression in a tree, and its type."""

    node: exp.Expr
    type: int | None


class Conversions:
    """What the rules of sources and of expressions share: parameters, and conversions in place.

    The type of an expression is an OID: `UNKNOWN` for a literal or a parameter that is not decided, None
    where DuckDB is to tell it.
    """

    def __init__(self, names: Names, types: Sequence[int | None]) -> None:
        self._names = names
        self._types: dict[int, int | None] = dict(enumerate(types, start=1))
        self.settings: list[str] = []
        self.changes: list[tuple[str, str, bool]] = []
        """What `set_config` sets."""

    def query(self, node: exp.Expr, outer: Scope | None, tables: Tables) -> list[SourceColumn]:
        """Translate a query; return its columns."""
        raise NotImplementedError

    def expression(self, node: exp.Expr, scope: Scope) -> int | None:
        """Translate an expression in its place; return its type."""
        raise NotImplementedError

    def value(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate an expression in its place; return what stands there then, with its type."""
        parent, key, place = node.parent, str(node.arg_key), node.index
        oid = self.expression(node, scope)
        found = parent.args[key] if parent is not None else node
        return Value(found if place is None else found[place], oid)

    def parts(self, part: object, scope: Scope) -> None:
        """Translate an expression or several, whose types do not matter."""
        for node in part if isinstance(part, list) else [part]:
            if isinstance(node, exp.Expr):
                self.expression(node, scope)

    # Parameters.

    def parameter(self, node: exp.Expr) -> int:
        """Translate `$1`; its type is that which the client announced, or is decided later."""
        place = node.this
        number = int(place.name) if isinstance(place, exp.Literal) and place.name.isdigit() else 0
        if not 1 <= number <= MAX_PARAMETERS:
            raise UnknownQuestion("parameter")
        oid = self._types.setdefault(number, None)
        if oid is None:
            return UNKNOWN
        wrap(node, lambda inner: cast(inner, oid))
        return oid

    def settle_parameters(self, tree: exp.Expr) -> None:
        """Give the parameters that nothing has decided the type `text`."""
        for node in list(tree.find_all(exp.Parameter)):
            if not isinstance(node.parent, exp.Cast):
                self.settle(node, TEXT)

    def parameter_types(self) -> tuple[int, ...]:
        """Return the types of all parameters."""
        if sorted(self._types) != list(range(1, len(self._types) + 1)):
            raise UnknownQuestion("a parameter is left out")
        return tuple(self._types[number] or TEXT for number in sorted(self._types))

    # Types that are not decided.

    def common(self, types: Iterable[int | None]) -> int | None:
        """Return the type in which values meet."""
        known = list(types)
        return None if None in known else pg_types.common(oid for oid in known if oid is not None)

    def meet(self, values: Sequence[Value]) -> int | None:
        """Give values that are not decided the type in which all meet; return it."""
        oid = self.common(value.type for value in values)
        for value in values:
            if value.type == UNKNOWN:
                self.settle(value.node, oid)
        return oid

    def alike(self, values: Sequence[Value]) -> None:
        """Give values that are compared, and are not decided, the type of the first that is."""
        decided = next((value.type for value in values if value.type != UNKNOWN), TEXT)
        for value in values:
            if value.type == UNKNOWN:
                self.settle(value.node, decided)

    def settle(self, node: exp.Expr, target: int | None) -> None:
        """Give a literal or parameter a type, if it has none."""
        node = node.unnest()
        if isinstance(node, exp.Parameter):
            decided = TEXT if target is None or target == UNKNOWN else target
            announced = TEXT if decided in {*NAMED_OIDS, pg_types.CHAR, pg_types.RECORD} else decided
            number = int(node.this.name)
            self._types[number] = self._types[number] or announced
            wrap(node, lambda inner: cast(inner, announced))
            if decided in NAMED_OIDS:
                wrap(node.parent or node, lambda inner: _look_up(inner, decided))
        elif isinstance(node, exp.Literal) and node.is_string and target is not None and target != UNKNOWN:
            node.replace(self._literal(node.name, target))

    def _literal(self, text: str, target: int) -> exp.Expr:
        """Return the value of a literal of a type."""
        if target in NAMED_OIDS:
            return cast(exp.Literal.number(self._object(text, NAMED_OIDS[target])), target)
        item = pg_types.element(target)
        if item is not None and target not in VECTORS and text.strip().startswith("{"):
            cells = [exp.Null() if part is None else self._literal(part, item) for part in array_items(text)]
            return cast(exp.Array(expressions=cells), target)
        if target in TEXTS:
            return exp.Literal.string(text[:1] if target == pg_types.CHAR else text)
        return cast(exp.Literal.string(text), target)

    def _object(self, text: str, kind: str) -> int:
        """Return the OID of a name in a literal."""
        if text.strip().isdigit():
            return int(text)
        if text.strip() == "-":
            return 0
        key = object_key(text)
        if kind == "other":
            raise UnknownQuestion("name of another object")
        if kind == "role":
            return OWNER if key == "dpsql" else ANALYST
        kind = "proc" if kind == "procedure" else kind
        oid = self._names.keys[kind].get(key)
        if oid is not None:
            return oid
        word = {"class": "relation", "proc": "function", "namespace": "schema"}.get(kind, kind)
        raise (UnknownObject if kind == "class" else UnknownType)(f'{word} "{key}" does not exist')

    # Conversions of values.

    def convert(self, value: Value, target: int) -> None:
        """Convert a value to another type, in its place."""
        if value.type == UNKNOWN:
            self.settle(value.node, target)
        elif target in TEXTS:
            self.as_text(value)
        elif target in NAMED_OIDS and value.type in TEXTS:
            wrap(value.node, lambda inner: _look_up(inner, target))
        elif pg_types.element(target) in TEXTS and pg_types.element(value.type) in NAMED_OIDS:
            wrap(value.node, _show_types)

    def as_text(self, value: Value) -> None:
        """Show a value as text, in its place."""
        if value.type == UNKNOWN:
            self.settle(value.node, TEXT)
        elif value.type not in TEXTS:
            wrap(value.node, lambda inner: _text(inner, value.type))


def _look_up(node: exp.Expr, target: int) -> exp.Expr:
    """Return the OID of a name that is a text."""
    kind = NAMED_OIDS[target]
    if kind in ("other", "procedure"):
        raise UnknownQuestion("name of another object")
    return call(f"{PREFIX}to_reg{kind}", node)


def _show_types(node: exp.Expr) -> exp.Expr:
    return call(f"{PREFIX}show_types", node)


def _text(node: exp.Expr, own: int | None) -> exp.Expr:
    item = pg_types.element(own)
    if own in NAMED_OIDS or own in VECTORS:
        return call(f"{PREFIX}show_{NAMED_OIDS.get(own or 0, 'vector')}", node)
    if item is not None:
        texts = _show_types(node) if item == pg_types.REGTYPE else cast(node, pg_types.array_of(TEXT))
        return call(f"{PREFIX}show_array", texts)
    return cast(node, TEXT)


def object_key(text: str) -> str:
    """Return a name of an object as the look-ups have it: folded where it is not quoted, without quotes.

    >>> object_key('Public."My.Table"')
    'public.My.Table'
    """
    pieces = text.strip().split('"')  # every second one is quoted
    return "".join(piece if i % 2 else piece.lower() for i, piece in enumerate(pieces)).partition("(")[0]


_ITEM = r'\s*+(?:"((?:[^"\\]|\\.)*+)"\s*+|((?:[^{}"\\,]|\\.)++))'
_ARRAY = re.compile(rf"\s*\{{(?:{_ITEM}(?:,{_ITEM})*+|\s*+)\}}\s*", re.DOTALL)


def array_items(text: str) -> list[str | None]:
    r"""Return the elements of an array literal of one dimension; None for NULL.

    >>> array_items('{a,"b c",NULL,""}')
    ['a', 'b c', None, '']
    """
    if _ARRAY.fullmatch(text) is None:
        raise UnknownQuestion("array literal")
    return [
        None if plain.strip().upper() == "NULL" else re.sub(r"(?s)\\(.)", r"\1", quoted or plain.strip())
        for quoted, plain in re.findall(_ITEM, text, re.DOTALL)
    ]
