"""Translate a parsed question into DuckDB's SQL: generated from known nodes alone, every name resolved.

Nothing of the question's text is copied but literals and quoted names. What has no rule is not known.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.lazy_dataclass import dataclass
from dpsql.serve.catalog import calls, expressions, pg_types, queries
from dpsql.serve.catalog.build import Names
from dpsql.serve.catalog.casts import Casts, cast
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.functions import AGGREGATES, FUNCTIONS
from dpsql.serve.catalog.live import LIVE
from dpsql.serve.catalog.pg_types import BOOL, TEXT, UNKNOWN
from dpsql.serve.catalog.values import Column, Scope, Translated, Value

MAX_PARAMETERS = 1000

_FACTS = {
    "user": "VARCHAR",
    "database": "VARCHAR",
    "pid": "INTEGER",
    "version": "VARCHAR",
    "schema": "VARCHAR",
    "schemas": "VARCHAR[]",
    "implicit_schemas": "VARCHAR[]",
    "public_is_visible": "BOOLEAN",
    "address": "VARCHAR",
    "port": "INTEGER",
    "now": "TIMESTAMP WITH TIME ZONE",
    "server_started": "TIMESTAMP WITH TIME ZONE",
}
"""The facts of a session that SQL reads as parameters, with their types."""

LIVE_SETTINGS = ("pg_catalog", "_settings")
"""The names and values of all settings, for `current_setting` of a column."""


@dataclass(frozen=True, slots=True)
class Question:
    """A translated question, for every session and any values of its parameters."""

    sql: str
    columns: tuple[Column, ...]
    parameters: tuple[int, ...]
    """The types of `$1`, `$2`, .."""
    facts: frozenset[str]
    """The facts that the SQL reads, as `$f_NAME`."""
    settings: tuple[tuple[str, bool], ...]
    """The settings that it reads, as `$s_NUMBER`, and whether a missing one is NULL."""
    live: frozenset[tuple[str, str]]
    """The relations whose rows are made when it is asked."""
    changes: tuple[tuple[str, str, bool], ...]


class Translator:
    """Translates one question; the rules call it for the parts of their nodes."""

    def __init__(self, names: Names, types: Sequence[int | None] = ()) -> None:
        self._types: dict[int, int | None] = dict(enumerate(types, start=1))
        self._facts: set[str] = set()
        self._settings: list[tuple[str, bool]] = []
        self._live: set[tuple[str, str]] = set()
        self.changes: list[tuple[str, str, bool]] = []
        """What `set_config` sets."""
        self._casts = Casts(names, self._decide, lambda: self.fact("user"))

    def question(self, tree: exp.Expr) -> Question:
        """Translate a whole question."""
        found = self.query(tree, None)
        if sorted(self._types) != list(range(1, len(self._types) + 1)):
            raise UnknownQuestion("a parameter is left out")
        return Question(
            sql=found.sql,
            columns=found.columns,
            parameters=tuple(self._types[n] or TEXT for n in sorted(self._types)),
            facts=frozenset(self._facts),
            settings=tuple(self._settings),
            live=frozenset(self._live),
            changes=tuple(self.changes),
        )

    def query(self, node: exp.Expr, scope: Scope | None) -> Translated:
        """Translate a query whose columns are used as they are: texts without a type become `text`."""
        return queries.query(self, node, scope)

    def expression(self, node: exp.Expr, scope: Scope) -> Value:
        """Translate an expression."""
        return expressions.translate(self, node, scope)

    def boolean(self, node: exp.Expr, scope: Scope) -> str:
        """Translate a condition."""
        return self.convert(self.expression(node, scope), BOOL).sql

    def convert(self, value: Value, target: int) -> Value:
        """Return a value as a value of another type."""
        return self._casts.convert(value, target)

    def decided(self, value: Value) -> Value:
        """Return a value whose type is decided: that of a bare literal or parameter is `text`."""
        return self.convert(value, TEXT) if value.type == UNKNOWN and value.sql != "NULL" else value

    def alike(self, first: Value, second: Value) -> tuple[Value, Value]:
        """Return two values that can be compared: an undecided one takes the type of the other."""
        if first.type == UNKNOWN and second.type == UNKNOWN:
            return self.decided(first), self.decided(second)
        if first.type == UNKNOWN:
            return self.convert(first, second.type), second
        if second.type == UNKNOWN:
            return first, self.convert(second, first.type)
        if first.type != second.type and BOOL in (first.type, second.type):
            raise UnknownQuestion("boolean compared with another type")
        return first, second

    def common(self, values: Sequence[Value]) -> tuple[int, list[str]]:
        """Return the type in which values meet, and their SQL in it."""
        oid = pg_types.common(value.type for value in values)
        if oid == UNKNOWN:
            return oid, [self.decided(value).sql for value in values]
        return oid, [self.convert(value, oid).sql for value in values]

    def order(self, nodes: Sequence[exp.Expr], scope: Scope) -> str:
        """Translate the ORDER BY of an aggregate or a window."""
        return queries.order(self, nodes, lambda node: self.decided(self.expression(node, scope)).sql)

    def aggregate(self, node: exp.Expr, scope: Scope, tail: str = "") -> Value:
        """Translate a call of an aggregate or window function with its FILTER and OVER."""
        return calls.aggregate(self, node, scope, tail)

    def call(
        self, name: str, arguments: Sequence[exp.Expr], scope: Scope, node: exp.Expr | None = None
    ) -> Value:
        """Translate the call of a function of the closed list."""
        if name in AGGREGATES and node is not None:
            return calls.aggregate(self, node, scope)
        special = calls.SPECIALS.get(name)
        if special is not None:
            return special(self, arguments, scope, node)
        function = FUNCTIONS.get((name, len(arguments)))
        if function is None or name.startswith("show_"):
            raise UnknownQuestion("function")
        found = calls.macro(self, function, arguments, scope)
        if not function.returns_set:
            return found
        return Value(f"unnest({found.sql})", found.type, fields=found.fields)

    def parameter(self, number: int) -> Value:
        """Return the parameter of a number; its type is that which the client announced, if it did."""
        if not 1 <= number <= MAX_PARAMETERS:
            raise UnknownQuestion("parameter")
        oid = self._types.setdefault(number, None)
        if oid is None:
            return Value(f"$p{number}", UNKNOWN, parameter=number)
        return Value(cast(f"$p{number}", oid), oid)

    def _decide(self, number: int, oid: int) -> None:
        if self._types.get(number) is None:
            self._types[number] = oid

    def fact(self, name: str) -> str:
        """Return a fact of the session as SQL."""
        self._facts.add(name)
        return f"CAST($f_{name} AS {_FACTS[name]})"

    def setting(self, name: str, *, missing_ok: bool) -> str:
        """Return the value of a setting as SQL."""
        if (name, missing_ok) not in self._settings:
            self._settings.append((name, missing_ok))
        return f"CAST($s_{self._settings.index((name, missing_ok))} AS VARCHAR)"

    def live(self, schema: str, name: str) -> str:
        """Return the place of a relation whose rows are made when the question is asked."""
        if (schema, name) not in LIVE and (schema, name) != LIVE_SETTINGS:
            raise UnknownQuestion("relation")
        self._live.add((schema, name))
        return f"temp.main.{live_name(schema, name)}"


def live_name(schema: str, name: str) -> str:
    """Return the name under which the rows of a live relation are registered."""
    return f"live_{schema}_{name}"
