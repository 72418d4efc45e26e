"""Conversions between PostgreSQL's types: of literals, parameters, texts; the names that a SELECT sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sqlglot import exp

from dpsql.lazy_pattern import lazy_pattern
from dpsql.serve.catalog import UnknownObject, UnknownQuestion, UnknownType, postgres
from dpsql.serve.catalog.database import ANALYST, OWNER, ObjectNames
from dpsql.serve.catalog.postgres import NAMED_OIDS, PREFIX, TEXT, TEXTS, UNKNOWN, VECTORS

MAX_PARAMETERS = 1000


class SourceColumn(NamedTuple):
    """A column of a source: its name and PostgreSQL's type; None if DuckDB is to tell the type."""

    name: str
    type: int | None


Tables = dict[str, list[SourceColumn]]
"""Common table expressions and their columns."""


class FromItem(NamedTuple):
    """An item of a FROM clause: its name or alias, and its columns."""

    name: str
    columns: list[SourceColumn]
    oid: int = 0
    """The OID of a relation of the catalogue: its `tableoid`."""


class SelectScope:
    """The names that the expressions of one SELECT see: its sources and their columns."""

    def __init__(self, outer: SelectScope | None, tables: Tables) -> None:
        self.outer = outer
        self.tables = dict(tables)
        self.sources: list[FromItem] = []
        self.merged: list[str] = []
        """Columns that USING and NATURAL have merged."""

    def source(self, column: str, table: str) -> FromItem | None:
        """Return the source that has a column, from the innermost SELECT that has it."""
        for source in self.sources:
            if table in ("", source.name) and any(known.name == column for known in source.columns):
                return source
        return None if self.outer is None else self.outer.source(column, table)

    def source_of_name(self, table: str) -> FromItem | None:
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


def rename_columns(columns: Sequence[SourceColumn], names: Sequence[str]) -> list[SourceColumn]:
    """Return columns as an alias names them; those that it does not name keep their names."""
    if len(names) > len(columns):
        raise UnknownQuestion("columns of an alias")
    both = zip(names, columns, strict=False)
    return [SourceColumn(name, column.type) for name, column in both] + list(columns[len(names) :])


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Return the node that calls a DuckDB function or a macro by its name."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def cast_to(node: exp.Expr, oid: int) -> exp.Cast:
    """Return a cast to the DuckDB type that holds a type."""
    return exp.Cast(this=node, to=exp.DataType.build(postgres.duckdb_type(oid), dialect="duckdb"))


def replace_node(node: exp.Expr, build: Callable[[exp.Expr], exp.Expr]) -> None:
    """Replace a node of the tree by the one that is built of it."""
    place = exp.Placeholder()
    node.replace(place)
    place.replace(build(node))


class TypedNode(NamedTuple):
    """A translated expression, and its type."""

    node: exp.Expr
    type: int | None


class Conversions:
    """What the rules of sources and of expressions share: parameters, and conversions of values.

    The type of an expression is an OID: `UNKNOWN` for a literal or a parameter that is not decided, None
    where DuckDB is to tell it.
    """

    def __init__(self, names: ObjectNames, types: Sequence[int | None]) -> None:
        self._names = names
        self._types: dict[int, int | None] = dict(enumerate(types, start=1))
        self.settings: list[str] = []
        self.changes: list[tuple[str, str, bool]] = []
        """What `set_config` sets."""

    def query(self, node: exp.Expr, outer: SelectScope | None, tables: Tables) -> list[SourceColumn]:
        """Translate a query over the catalogue to DuckDB's SQL, in its place; return its columns."""
        raise NotImplementedError

    def expression(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate an expression to DuckDB's SQL, and put it in its place in the tree."""
        raise NotImplementedError

    def values(self, parts: object, scope: SelectScope) -> list[TypedNode]:
        """Translate an expression or several to DuckDB's SQL, and put them in their places."""
        nodes = [*parts] if isinstance(parts, Iterable) and not isinstance(parts, exp.Expr) else [parts]
        return [self.expression(node, scope) for node in nodes if isinstance(node, exp.Expr)]

    # Parameters.

    def parameter(self, node: exp.Expr, scope: SelectScope) -> TypedNode:
        """Translate `$1`; its type is that which the client announced, or is decided later."""
        place = node.this
        number = int(place.name) if isinstance(place, exp.Literal) and place.name.isdigit() else 0
        if not 1 <= number <= MAX_PARAMETERS:
            raise UnknownQuestion("parameter")
        oid = self._types.setdefault(number, None)
        return TypedNode(node, UNKNOWN) if oid is None else TypedNode(cast_to(node, oid), oid)

    def settle_parameters(self, tree: exp.Expr) -> None:
        """Give the parameters that nothing has decided the type `text`."""
        for node in list(tree.find_all(exp.Parameter)):
            if not isinstance(node.parent, exp.Cast):
                replace_node(node, lambda inner: self.settle(TypedNode(inner, UNKNOWN), TEXT))

    def parameter_types(self) -> tuple[int, ...]:
        """Return the types of all parameters."""
        if sorted(self._types) != list(range(1, len(self._types) + 1)):
            raise UnknownQuestion("a parameter is left out")
        return tuple(self._types[number] or TEXT for number in sorted(self._types))

    # Types that are not decided.

    def common(self, types: Iterable[int | None]) -> int | None:
        """Return the type to which PostgreSQL converts values of these types; None: DuckDB is to tell it."""
        known = list(types)
        return None if None in known else postgres.common_type(oid for oid in known if oid is not None)

    def meet(self, values: Sequence[TypedNode]) -> int | None:
        """Return the common type of all values; give it to literals and parameters without a type."""
        oid = self.common(value.type for value in values)
        self._settle_all(values, oid)
        return oid

    def alike(self, values: Sequence[TypedNode]) -> Sequence[TypedNode]:
        """Give literals and parameters without a type that of the first compared value that has one."""
        self._settle_all(values, next((value.type for value in values if value.type != UNKNOWN), TEXT))
        return values

    def _settle_all(self, values: Sequence[TypedNode], target: int | None) -> None:
        for value in values:
            if value.type == UNKNOWN:
                replace_node(value.node, lambda inner: self.settle(TypedNode(inner, UNKNOWN), target))

    def settle(self, value: TypedNode, target: int | None) -> exp.Expr:
        """Return a literal or parameter without a type as one of the type `target`; others as they are."""
        node = value.node.unnest()
        target = None if target == UNKNOWN else target
        if value.type != UNKNOWN:
            return value.node
        if isinstance(node, exp.Parameter):
            decided = TEXT if target is None else target
            announced = TEXT if decided in {*NAMED_OIDS, postgres.CHAR, postgres.RECORD} else decided
            number = int(node.this.name)
            self._types[number] = self._types[number] or announced
            given = cast_to(node, announced)
            return _look_up(given, decided) if decided in NAMED_OIDS else given
        if isinstance(node, exp.Literal) and target is not None:
            return self._literal(node.name, target)
        return value.node

    def _literal(self, text: str, target: int) -> exp.Expr:
        """Return the expression of a text literal that is read as one of PostgreSQL's types."""
        if target in NAMED_OIDS:
            return cast_to(exp.Literal.number(self._object(text, NAMED_OIDS[target])), target)
        item = postgres.element_type(target)
        if item is not None and target not in VECTORS and text.strip().startswith("{"):
            cells = [exp.Null() if part is None else self._literal(part, item) for part in array_items(text)]
            return cast_to(exp.Array(expressions=cells), target)
        if target in TEXTS:
            return exp.Literal.string(text[:1] if target == postgres.CHAR else text)
        return cast_to(exp.Literal.string(text), target)

    def _object(self, text: str, kind: str) -> int:
        """Return the OID of the object that the text of a literal names, or whose OID it is."""
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

    def convert(self, value: TypedNode, target: int) -> exp.Expr:
        """Return the SQL expression that converts a value to another of PostgreSQL's types."""
        if value.type == UNKNOWN:
            return self.settle(value, target)
        if target in TEXTS:
            return self.text(value)
        if target in NAMED_OIDS and value.type in TEXTS:
            return _look_up(value.node, target)
        if postgres.element_type(target) in TEXTS and postgres.element_type(value.type) in NAMED_OIDS:
            return call(f"{PREFIX}show_types", value.node)
        return value.node

    def text(self, value: TypedNode) -> exp.Expr:
        """Return the SQL expression of the text that PostgreSQL shows of a value."""
        node, own = value
        item = postgres.element_type(own)
        if own in TEXTS:
            return self.settle(value, TEXT)
        if own in NAMED_OIDS or own in VECTORS:
            return call(f"{PREFIX}show_{NAMED_OIDS.get(own or 0, 'vector')}", node)
        if item is not None:
            types = item == postgres.REGTYPE
            texts = call(f"{PREFIX}show_types", node) if types else cast_to(node, postgres.array_of(TEXT))
            return call(f"{PREFIX}show_array", texts)
        return cast_to(node, TEXT)


def _look_up(node: exp.Expr, target: int) -> exp.Expr:
    """Return the call that finds the OID of an object by its name, which is a text."""
    kind = NAMED_OIDS[target]
    if kind in ("other", "procedure"):
        raise UnknownQuestion("name of another object")
    return call(f"{PREFIX}to_reg{kind}", node)


def object_key(text: str) -> str:
    """Return a name of an object as the look-ups have it: folded where it is not quoted, without quotes.

    >>> object_key('Public."My.Table"')
    'public.My.Table'
    """
    pieces = text.strip().split('"')  # every second one is quoted
    return "".join(piece if i % 2 else piece.lower() for i, piece in enumerate(pieces)).partition("(")[0]


_ITEM = r'\s*+(?:"((?:[^"\\]|\\.)*+)"\s*+|((?:[^{}"\\,]|\\.)++))'
# No possessive group around another one: Python before 3.11.5 matches `{a,}` with it.
_ARRAY = lazy_pattern(rf"\s*\{{(?:{_ITEM}(?:,{_ITEM})*|\s*+)\}}\s*", re.DOTALL)


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
