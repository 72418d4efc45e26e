"""Translate a parsed question into DuckDB's SQL: sqlglot writes it, here PostgreSQL's types are followed.

DuckDB has no type for `name`, `"char"`, `regclass` and their kin. So the tree is walked once: each relation
is replaced by the one of the catalogue's database, each conversion by what it means, and the types that
DuckDB cannot tell are kept. `wall` checks the SQL, and DuckDB binds it before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.errors import ErrorLevel
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

from dpsql.lazy_dataclass import dataclass
from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.build import Names
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.expressions import Expressions
from dpsql.serve.catalog.facts import CatalogColumn
from dpsql.serve.catalog.functions import FUNCTIONS, PREFIX
from dpsql.serve.catalog.names import output_name
from dpsql.serve.catalog.pg_types import TEXT, UNKNOWN
from dpsql.serve.catalog.scope import Column, Scope, Tables, renamed
from dpsql.serve.catalog.sources import OWN_TABLE, Sources

Bind = Callable[[str, frozenset[tuple[str, str]], int], Sequence[str]]
"""Returns DuckDB's types of the columns of SQL over these live relations, with so many parameters."""

MAX_NESTED = 20
"""The most calls inside calls: DuckDB's time to bind macros grows with a power of their nesting."""

MAX_LOOK_UPS = 5
"""The most calls inside calls of macros that read a table: DuckDB's time to plan doubles with each, and
meanwhile it does not hear that the time is over."""
MAX_COLUMNS = 1_664
"""The most columns of a query, as many as PostgreSQL has: without it, `*` could double them at each level."""
MAX_EXPANDED = 10_000
"""The most columns that all `*` of a question stand for."""

_REFUSED = (
    exp.Lock,
    exp.Into,
    exp.TableSample,
    exp.DML,
    exp.DDL,
    exp.Command,
    exp.Placeholder,
    exp.Pivot,
    exp.Cube,
    exp.Rollup,
    exp.GroupingSets,
)
"""Parts of a query that the catalogue does not follow, and statements inside a query."""


@dataclass(frozen=True, slots=True)
class Question:
    """A translated question, for every session and any values of its parameters."""

    sql: str
    columns: tuple[CatalogColumn, ...]
    parameters: tuple[int, ...]
    """The types of `$1`, `$2`, .."""
    settings: tuple[str, ...]
    """The settings that must exist."""
    live: frozenset[tuple[str, str]]
    """The relations whose rows are made when it is asked."""
    changes: tuple[tuple[str, str, bool], ...]


class Translator(Sources, Expressions):
    """Translates one question. The tree that it is given is changed."""

    def __init__(self, names: Names, types: Sequence[int | None] = ()) -> None:
        super().__init__(names, types)
        self.live = set()
        self._expanded = 0
        """The columns that `*` has stood for until now."""

    def question(self, tree: exp.Expr, bind: Bind) -> Question:
        """Translate a whole question; `bind` gives DuckDB's types of its columns."""
        if any(isinstance(node, _REFUSED) for node in tree.walk()):
            raise UnknownQuestion("part of a query")
        holder = exp.Subquery(this=normalize_identifiers(tree, "postgres"))
        for values in list(holder.find_all(exp.Values)):
            _name_columns(values)
        columns = self.query(holder.this, None, {})
        self.end_parameters(holder)
        _check_nesting(holder)
        sql = holder.this.sql("duckdb", identify=True, comments=False, unsupported_level=ErrorLevel.RAISE)
        told = bind(sql, frozenset(self.live), len(self.parameter_types()))
        return Question(
            sql=sql,
            columns=tuple(_decided(column, kind) for column, kind in zip(columns, told, strict=True)),
            parameters=self.parameter_types(),
            settings=tuple(self.settings),
            live=frozenset(self.live),
            changes=tuple(self.changes),
        )

    def query(self, node: exp.Expr, outer: Scope | None, tables: Tables) -> list[Column]:
        """Translate a query; return its columns."""
        with_ = node.args.get("with_")
        if with_ is not None:
            tables = self._common_tables(with_, outer, dict(tables))
        scope = Scope(outer, tables)
        match node:
            case exp.Subquery():
                columns = self.query(node.this, outer, tables)
            case exp.SetOperation():
                sides = [self.query(side, outer, tables) for side in (node.this, node.expression)]
                columns = [
                    Column(first.name, self.common((first.type, second.type)))
                    for first, second in zip(*sides, strict=True)
                ]
            case exp.Select():
                return self._select(node, scope)
            case _:
                raise UnknownQuestion(type(node).__name__)
        for part in ("order", "limit", "offset"):
            self.parts(node.args.get(part), scope)
        return columns

    def _common_tables(self, with_: exp.Expr, outer: Scope | None, tables: Tables) -> Tables:
        for table in with_.expressions:
            alias, body = table.args["alias"], table.this
            names = [column.name for column in alias.args.get("columns") or []]
            if with_.args.get("recursive") and isinstance(body, exp.Union):
                tables[alias.name] = renamed(self.query(body.this.copy(), outer, tables), names)
            tables[alias.name] = renamed(self.query(body, outer, tables), names)
            alias.set("this", exp.to_identifier(OWN_TABLE + alias.name, quoted=True))
        return tables

    def _select(self, node: exp.Select, scope: Scope) -> list[Column]:
        from_ = node.args.get("from_")
        if from_ is not None:
            self.source(from_.this, scope)
        self.joins(node, scope)
        items = self._items(node, scope)
        names = [output_name(item) for item in items]
        values = [item.this if isinstance(item, exp.Alias) else item for item in items]
        node.set(
            "expressions",
            [
                exp.alias_(value, name, quoted=True, copy=False)
                for value, name in zip(values, names, strict=True)
            ],
        )
        columns = [
            Column(name, self.expression(item.this, scope))
            for name, item in zip(names, node.expressions, strict=True)
        ]
        for name, part in list(node.args.items()):
            if name not in ("expressions", "from_", "joins", "with_"):
                self.parts(part, scope)
        return columns

    def _items(self, node: exp.Select, scope: Scope) -> list[exp.Expr]:
        """Return the items of a SELECT; instead of each `*`, its columns."""
        items: list[exp.Expr] = []
        for item in node.expressions:
            columns = _shown(item, scope)
            if columns is None:
                items.append(item)
                continue
            self._expanded += len(columns)
            if len(items) + len(columns) > MAX_COLUMNS or self._expanded > MAX_EXPANDED:
                raise UnknownQuestion("too many columns")
            items += [exp.column(name, table or None, quoted=True) for name, table in columns]
        if not items:
            raise UnknownQuestion("no columns")
        return items


_LOOK_UPS = frozenset(f"{PREFIX}{known.name}" for known in FUNCTIONS.values() if "SELECT" in known.body)
"""The macros that read a table."""


def _check_nesting(tree: exp.Expr) -> None:
    depths: dict[int, tuple[int, int]] = {}
    for node in tree.walk():  # a node after its parent
        calls, look_ups = depths.get(id(node.parent), (0, 0))
        if isinstance(node, exp.Anonymous):
            calls, look_ups = calls + 1, look_ups + (node.this in _LOOK_UPS)
        depths[id(node)] = calls, look_ups
        if calls > MAX_NESTED or look_ups > MAX_LOOK_UPS:
            raise UnknownQuestion("nested calls")


def _shown(item: exp.Expr, scope: Scope) -> list[tuple[str, str]] | None:
    """Return columns and sources that `*` or `x.*` stands for; None for another item of a SELECT."""
    if not item.is_star or isinstance(item, exp.Anonymous):
        return None
    if not isinstance(item, (exp.Star, exp.Column)) or any(
        item.args.get(part) for part in ("except_", "replace")
    ):
        raise UnknownQuestion("star")
    return scope.shown(item.args["table"].name if isinstance(item, exp.Column) else "")


def _name_columns(values: exp.Expr) -> None:
    """Name the columns of VALUES as PostgreSQL does; make it the source of a query if it is none."""
    first = values.expressions[0]
    count = len(first.expressions) if isinstance(first, exp.Tuple) else 1
    alias = values.args.get("alias") or exp.TableAlias(this=exp.to_identifier("values", quoted=True))
    named = alias.args.get("columns") or []
    listed = [exp.to_identifier(f"column{place + 1}", quoted=True) for place in range(len(named), count)]
    alias.set("columns", [*named, *listed])
    if not isinstance(values.parent, (exp.From, exp.Join, exp.Lateral)):
        place = exp.Select(expressions=[exp.Star()])
        values.replace(place)
        place.set("from_", exp.From(this=values))
    values.set("alias", alias)


def _decided(column: Column, kind: str) -> CatalogColumn:
    """Return a column with a type: PostgreSQL's if it was followed, else that of DuckDB."""
    oid = pg_types.bound_type(kind) if column.type is None else column.type
    oid = TEXT if oid == UNKNOWN else oid
    return CatalogColumn(column.name, pg_types.arrow_type(oid), oid)
