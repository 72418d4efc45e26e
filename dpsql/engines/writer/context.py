"""The state that the rules of one statement share, and `Writer.expression`, which applies the rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace

from dpsql.engines.protocol import Untranslatable
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.engines.writer.costs import Cost, measure, too_slow
from dpsql.engines.writer.dialect import Dialect
from dpsql.engines.writer.forms import fits, no_form
from dpsql.engines.writer.public import PublicRelation, compute_public
from dpsql.engines.writer.value import (
    NOT_CONSTANT,
    TargetColumn,
    Value,
    common_type,
    constant_range,
    type_family,
)
from dpsql.kernel.tree import (
    Aggregate,
    Call,
    Constant,
    Expr,
    OrderTerm,
    Parameter,
    Query,
    duckdb_sql,
    facts,
    walk,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.types import NULL, SqlType

_FOLDABLE = frozenset({"nullif", "ifnull", "date_part", "fmod"})
"""Functions that DuckDB may evaluate for the engine besides those that the binder's check allows.

It writes these as others, in one version or all; none is volatile.
"""


MAX_LENGTH = 1 << 20
"""The most characters of a translated text without public rows: rules may repeat an operand."""

_COPIED = 60
"""The most words of an operand that is written again where a form names it again."""


@dataclass(slots=True)
class ColumnScope:
    """The columns that an expression may name, by table alias; `outer` is the enclosing query's scope."""

    tables: dict[str, dict[str, TargetColumn]]
    outer: ColumnScope | None = None
    written: dict[Expr, Value] = field(default_factory=dict)
    """The expressions that are written already: those with parts that are named again and again."""

    def column(self, table: str, name: str) -> TargetColumn | None:
        """Return a column of this scope or of the nearest enclosing one that has the table, or None."""
        here: ColumnScope | None = self
        while here is not None:
            if table in here.tables:
                return here.tables[table].get(name)
            here = here.outer
        return None


@dataclass(slots=True)
class Writer:
    """Writes one statement: the dialect, the tables, and the public relations embedded so far."""

    dialect: Dialect
    schema_database: SchemaDatabase
    private: Collection[str]
    cache: dict[str, PublicRelation]
    rules: Mapping[type[Expr], Rule]
    """The rule of each node type of an expression: what is not here is refused."""
    public: dict[str, PublicRelation] = field(default_factory=dict)
    names: dict[str, Cost] = field(default_factory=dict)
    """The cost of each column that is named in the statement; of equal names the highest."""
    grouped: set[str] = field(default_factory=set)
    """The texts of aggregate and window functions: they belong to their SELECT, and to none within it."""
    scans: set[str] = field(default_factory=set)
    """The texts of the scans, whose length grows with the declared columns, and not with what is asked."""
    costs: dict[str, Cost] = field(default_factory=dict)
    """The costs of texts that were measured, while no name has got another cost."""

    def refuse(self, what: str, hint: str | None = None) -> Untranslatable:
        """Return the error that the engine does not run a part of the statement."""
        return Untranslatable(f"{self.dialect.name} does not run {what}", hint)

    def embed_public(self, query: Query) -> PublicRelation:
        """Send the rows of a public relation with the statement; one text is sent once."""
        sql = duckdb_sql(query)
        if sql not in self.public:
            name = self.dialect.public_name(len(self.public), sql)
            relation = self.cache.get(sql) or compute_public(self.schema_database, name, sql)
            self.cache[sql] = relation
            self.public[sql] = PublicRelation(name, sql, relation.rows, relation.columns)
        return self.public[sql]

    def expression(self, node: Expr, scope: ColumnScope) -> Value:
        """Write an expression by the rule of its node type; DuckDB evaluates constant expressions."""
        found = scope.written.get(node)
        if found is not None:
            return found
        rule = self.rules.get(type(node))
        if rule is None:
            raise self.refuse(type(node).__name__)
        constant = self._constant(node)
        made = constant if constant is not None else rule(self, node, scope)
        if len(made.sql) > MAX_LENGTH:
            raise too_long()
        scope.written[node] = made
        return made

    def _constant(self, node: Expr) -> Value | None:
        """Write the value of a constant expression; return None for one that depends on a row."""
        if isinstance(node, Constant):
            return self._write_constant(node.value, node.type.held) if node.value is not None else None
        allowed = self.schema_database.vocabulary.functions
        if facts(node).reads or not all(_foldable(part, allowed) for part in walk(node)):
            return None
        sql = duckdb_sql(node)
        try:
            sql_type = self.schema_database.type_of(sql)
            type_family(sql_type)
            value = self.schema_database.evaluate(sql)
        except (ValueError, Untranslatable):
            return None
        if value is None and sql_type == NULL:
            return None
        # The Python value of an infinite date is the first or last date that Python has.
        dated = value is not None and sql_type.name in ("DATE", "TIMESTAMP")
        if dated and self.schema_database.evaluate(f"isfinite({sql})") is not True:
            raise self.refuse("an infinite date or timestamp", "write the first or last day that can occur")
        return self._write_constant(value, sql_type)

    def _write_constant(self, value: object, sql_type: SqlType) -> Value:
        return Value(
            self.dialect.constant(value, sql_type), sql_type, constant_range(value), value, one_zero=True
        )

    def form(self, name: str, values: list[Value]) -> Value:
        """Write a function call or operator by the dialect's first form that takes these arguments."""
        forms = self.dialect.forms.get(name, ())
        for entry in forms:
            if fits(entry, values):
                return self.once(values, entry.apply)
        raise no_form(name, self.dialect.name, bool(forms))

    def name(self, sql: str, cost: Cost) -> None:
        """Keep what a column that is named costs where an engine puts its expression there."""
        known = self.names.get(sql)
        if known is not None:
            cost = known.most(cost)
        if cost != known:
            self.names[sql] = cost
            self.costs.clear()

    def cost(self, sql: str) -> Cost:
        """Return the cost of a text of this statement; raises `Untranslatable` if it alone is too much."""
        found = self.costs.get(sql)
        if found is None:
            text = sql
            for scan in self.scans:
                text = text.replace(scan, "")
            found = self.costs[sql] = measure(text, self.names, self.dialect.times)
            # What a column stands for is written once elsewhere, however long it is.
            written = (
                sum(c.words for name, c in self.names.items() if name in text)
                if found.size > self.dialect.max_size
                else 0
            )
            check_cost(found, text, self.dialect, written)
        return found

    def may_copy(self, value: Value) -> bool:
        """Whether a value may be written more than once: it is short, or belongs to its SELECT."""
        short = value.constant is not NOT_CONSTANT or self.cost(value.sql).words <= _COPIED
        return short or any(text in value.sql for text in self.grouped)

    def once(self, values: Sequence[Value], make: Callable[[list[Value]], Value]) -> Value:
        """Write an expression of some operands such that none that is long is computed more than once."""
        if all(map(self.may_copy, values)):
            return make([*values])
        named = [
            v if v.constant is not NOT_CONSTANT else replace(v, sql=self.dialect.operand_name(i))
            for i, v in enumerate(values)
        ]
        made = make(named)
        again = any(
            made.sql.count(name.sql) > 1 and not self.may_copy(v)
            for name, v in zip(named, values, strict=True)
        )
        return self.bind_operands(values, made) if again and self.is_movable(values) else make([*values])

    def bind_operands(self, values: Sequence[Value], body: Value) -> Value:
        """Write what names operands by their places, with the operands computed once each."""
        names = {i: self.dialect.operand_name(i) for i in range(len(values))}
        operands = {i: values[i].sql for i, name in names.items() if name in body.sql}
        return replace(body, sql=self.dialect.once(operands, body.sql))

    def is_movable(self, values: Sequence[Value]) -> bool:
        """Whether a subquery may compute these values: no aggregate or window belongs to an outer SELECT."""
        return not any(text in v.sql for v in values for text in self.grouped)

    def common(self, values: Sequence[Value]) -> tuple[list[str], SqlType]:
        """Return the texts of several results in their common type, and that type."""
        sql_type = common_type([v.type for v in values])
        if sql_type == NULL:
            raise self.refuse("a choice among NULLs without a type")
        return [self.dialect.in_type(v, sql_type) for v in values], sql_type

    def ordering(self, terms: Sequence[OrderTerm], scope: ColumnScope) -> str:
        """Write the terms of ORDER BY, each with its direction and the place of NULL."""
        return ", ".join(
            f"{self.expression(term.expr, scope).sql} {term.direction or 'ASC'} NULLS {term.nulls or 'LAST'}"
            for term in terms
        )


def too_long() -> Untranslatable:
    """Return the error that a statement is too long for an engine, as written or after substitution."""
    return Untranslatable(
        "the statement becomes too long for this engine",
        "use fewer expressions that name a column of a subquery or one another several times",
    )


def check_cost(cost: Cost, sql: str, dialect: Dialect, elsewhere: int = 0) -> None:
    """Raise if a text becomes too long, or if one row of the longest texts could take too much time.

    `elsewhere` are the words of what it names, which are in the statement beside it.
    """
    # A long text that copies nothing is planned in a time that grows with its length.
    copied = cost.size - measure(sql, {}, {}).words - elsewhere if cost.size > dialect.max_size else 0
    if len(sql) > MAX_LENGTH or copied > dialect.max_size:
        raise too_long()
    if too_slow(cost, dialect.longest, dialect.timeout):
        raise Untranslatable(
            f"{dialect.name} takes too long for so many functions of one text as long as a text may be",
            "use fewer functions of texts, above all of lower, upper and ILIKE, and none within another",
        )


def _foldable(node: object, allowed: Collection[str]) -> bool:
    """Return whether DuckDB may compute an expression with this node; an aggregate yields no value a row."""
    return not isinstance(node, (Aggregate, Parameter)) and (
        not isinstance(node, Call) or node.name.lower() in allowed or node.name.lower() in _FOLDABLE
    )


Rule = Callable[..., Value]
"""Writes an expression of one node type; takes the writer, the node, and the scope of its columns."""
