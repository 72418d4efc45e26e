"""The values of earlier releases that a release reads as constants, and their types.

The type of a value follows from the columns of the releases that it is computed from, so these are analysed
first. A value that is a number is a DOUBLE, whatever SQL computes it as; the numbers of a list keep theirs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field

from sqlglot import exp

from dpsql.analysis import Catalog, Plan, check_outer, put_domains, write_engine_sql
from dpsql.analysis.aggregate_functions import aggregate_name
from dpsql.analysis.compiler import function_name
from dpsql.analysis.released_values import TYPES
from dpsql.composition.kinds import Kinds, ReadValue, below
from dpsql.composition.planned_count import columns_of
from dpsql.engines import UnboundQuery
from dpsql.errors import QueryRefused
from dpsql.language import Query, copy_tree, find_nodes, walk_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy
from dpsql.types import BIGINT, DOUBLE, SqlType

Columns = tuple[tuple[str, SqlType], ...]

MARK = "\x00"
"""The beginning of a release's name until it is known which ones are equal; no statement can spell it."""

_WHOLE = re.compile(r"U?(TINY|SMALL|BIG)?INT(EGER)?")
_NUMBER = re.compile(rf"DOUBLE|FLOAT|{_WHOLE.pattern}|DECIMAL.*")


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """A value that releases read as a constant: one, or the list of IN."""

    query: exp.Query
    """SQL over the released relations and public tables, of one column; of one row, if it is no list."""
    at: exp.Expr
    """The subquery as it stands in the statement."""
    type: SqlType
    listed: bool = False

    def has_type(self, found: str) -> bool:
        """Return whether a column of an engine's type can be the value."""
        return constant_type(found, listed=self.listed) == self.type


def constant_type(found: str, *, listed: bool) -> SqlType | None:
    """Return the type as which a released value of an engine's type is a constant; None if it is none.

    >>> [str(constant_type("INTEGER", listed=listed)) for listed in (False, True)]
    ['DOUBLE', 'BIGINT']
    """
    if listed and _WHOLE.fullmatch(found):
        return BIGINT
    if _NUMBER.fullmatch(found):
        return DOUBLE
    return next((each for each in TYPES if str(each) == found), None)


_COMPUTED = (exp.Add, exp.Sub, exp.Paren, exp.Cast, exp.TryCast, exp.Anonymous)
"""What may be computed of a value that is no number."""


def _is_of_constants(node: exp.Expr, value: exp.Expr) -> bool:
    """Return whether an expression has nothing but constants beside a value."""
    beside = (exp.Column, exp.Query, exp.CurrentDate, exp.CurrentTimestamp, exp.SessionParameter, exp.Star)
    names = ("now", "today", "current_date", "current_timestamp", "get_current_timestamp")
    return aggregate_name(node) is None and not any(
        (isinstance(n, beside) and n is not value) or (function_name(n) or "").lower() in names
        for n in walk_tree(node, lambda n: n is value)
    )


@dataclass(slots=True)
class ValueTypes:
    """Finds the types of the values of one statement, release after release."""

    query: Query
    policy: Policy
    catalog: Catalog
    kinds: Kinds
    plan: Callable[[Query], Plan]
    """Analyses a release."""
    marked: dict[str, Query] = field(default_factory=dict)
    """The releases that were taken out so far, by the names that stand for them."""
    judged: bool = False
    """Whether the blocks are only listed, for a statement that was refused."""

    def find_type(self, select: exp.Select, value: ReadValue) -> SqlType:
        """Return the type that a value has as a constant: that of its column over the releases before it."""
        made, types = copy_tree(select), dict[str, Columns]()
        named = [table for table in find_nodes(made, exp.Table) if table.name.startswith(MARK)]
        if not value.listed and all(self._is_one_number(self.marked.get(table.name)) for table in named):
            return DOUBLE
        for table in named:
            name = f"r{table.name.removeprefix(MARK)}"
            try:
                types[name] = columns_of(self.plan(self.marked[table.name]))
            except QueryRefused:
                if not self.judged:
                    raise
                return DOUBLE  # it is refused where it is analysed
            if not table.alias:
                table.set("alias", exp.TableAlias(this=copy_tree(table.this)))
            table.set("this", exp.to_identifier(name, quoted=True))
        check_outer(self.query, self.policy, made, types)
        put_domains(made, self.query.source, self.policy, self.catalog)
        found = self._describe(types, write_engine_sql(made))
        constant = None if found is None else constant_type(found, listed=value.listed)
        if constant is None:
            raise below(self.query.source, value.subquery)
        return constant

    def find_widest(
        self, select: exp.Select, value: ReadValue, sql_type: SqlType
    ) -> tuple[exp.Expr, exp.Select, SqlType]:
        """Return the largest expression that is made of a value and constants, its SQL and its type.

        Then what is computed of the value is computed with released rows, and the constant is its result.
        """
        best: tuple[exp.Expr, exp.Select, SqlType] = (value.subquery, select, sql_type)
        around = value.subquery.parent
        while isinstance(around, _COMPUTED) and _is_of_constants(around, value.subquery):
            made, at = copy_tree(around), [n is value.subquery for n in walk_tree(around)].index(True)
            inner = exp.Subquery(this=copy_tree(select, "with_"))
            walk_tree(made)[at].replace(inner)
            whole = exp.Select(expressions=[made])
            if (clause := select.args.get("with_")) is not None:
                whole.set("with_", copy_tree(clause))
            with suppress(QueryRefused):
                found = self.find_type(whole, value)
                if not found.numeric:
                    best = around, whole, found
            around = around.parent
        return best

    def _describe(self, types: Mapping[str, Columns], sql: str) -> str | None:
        """Return the type of the only column of SQL over releases; None if it has others or does not bind."""
        try:
            columns = self.catalog.describe_over(types, sql)
        except UnboundQuery:
            return None
        return columns[0][1] if len(columns) == 1 else None

    def _is_one_number(self, query: Query | None) -> bool:
        """Return whether a release is one row of numbers, so that what is computed of it is a number."""
        if query is None:
            return True
        try:
            select, of = query.tree, self.kinds.provenance
            if not isinstance(select, exp.Select) or select.args.get("group") is not None:
                return False
            return of.is_numeric(select, of.list_ctes(select, ()))
        except QueryRefused:
            return True  # it is refused where it is analysed
