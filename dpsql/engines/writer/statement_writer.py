"""The state that the rules of one statement share, and `Writer.expression`, which applies the rules.

A statement reads scans, the SELECTs that read declared tables with each column canonical and of its declared
type, and public relations. These DuckDB computes on the schema database, and the engine receives their rows:
domains, images of expressions over them, public tables and lists thus have the same meaning in every engine,
and only the private part of a statement is translated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from dpsql.engines.schema_database import SchemaDatabase
from dpsql.engines.worker import Untranslatable
from dpsql.engines.writer.dialect import Dialect
from dpsql.engines.writer.written_values import (
    NOT_CONSTANT,
    READING,
    Cost,
    TargetColumn,
    Value,
    common_type,
    constant_range,
    is_too_slow,
    measure,
    no_form_error,
    takes_arguments,
    type_family,
)
from dpsql.errors import PolicyError
from dpsql.kernel.tree import (
    Aggregate,
    Call,
    Column,
    Constant,
    Derived,
    Expr,
    OrderTerm,
    Parameter,
    Query,
    Range,
    Scan,
    Unnest,
    Values,
    duckdb_sql,
    facts,
    walk,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Table
from dpsql.types import DATE, NULL, SqlType, column_type


@dataclass(frozen=True, slots=True)
class Cell:
    """The expression by which a scan reads a column."""

    value: Value
    within_limit: str = ""
    """The condition that a text is not longer than the limit; empty for other types."""


def read_date(cell: str, literal: str, of: SqlType) -> Value:
    """Read a date outside the years 1 to 9999, or an infinite one, as NULL: engines differ there.

    `literal` is what the engine writes before the text of a constant of the type.
    """
    last = "9999-12-31" if of == DATE else "9999-12-31 23:59:59.999999"
    sql = f"(CASE WHEN {cell} BETWEEN {literal}'0001-01-01' AND {literal}'{last}' THEN {cell} END)"
    return Value(sql, of, (1, 9999))


def build_scan(
    table: Table,
    columns: tuple[tuple[str, SqlType], ...],
    cell: Callable[[str, SqlType], Cell],
    source: str,
    convert: str,
) -> tuple[str, dict[str, TargetColumn]]:
    """Return the SELECT that reads the declared columns of a table, and its columns by declared name.

    `cell` writes the expression that reads a column of `source` (aliased `r`) with its declared type. Where
    it cannot, the error names `convert` as the place where the owner may convert the column. A private text
    longer than the limit is read as NULL. A row with such a text in a column of a declared unique fact is not
    read: two NULLs there could be equal, which would make the fact false.
    """
    facts = {column.lower() for fact in table.unique for column in fact}
    cells, shown, left_out = [], {}, []
    for i, (name, declared) in enumerate(columns):
        sql_type = declared.held  # an instant is read as the TIMESTAMP of UTC
        try:
            read = cell(name, sql_type)
        except Untranslatable as problem:
            raise PolicyError(
                f"tables.{table.name}: column {name} is not read as {sql_type}: {problem.message}",
                hint=problem.hint
                or f"leave it out of [tables.{table.name}.columns], or convert it in {convert}",
            ) from None
        sql = read.value.sql
        if read.within_limit and not table.public:
            sql = f"(CASE WHEN {read.within_limit} THEN {sql} END)"
            if name.lower() in facts:
                left_out.append(f"({read.within_limit}) IS NOT FALSE")
        cells.append(f"{sql} AS x{i}")
        cost = replace(measure(sql, {}, {}), micros=READING if read.within_limit else 0.0)
        shown[name] = TargetColumn(f"x{i}", sql_type, read.value.value_range, cost)
    where = f" WHERE {' AND '.join(left_out)}" if left_out else ""
    return f"(SELECT {', '.join(cells)} FROM {source} AS r{where})", shown


FIRST_DAY, LAST_DAY = date(1, 1, 1), date(9999, 12, 31)
"""The dates that every engine represents alike; other public dates are refused."""

MOST_BYTES = 1 << 28
"""The most bytes of public rows sent with one statement."""


@dataclass(frozen=True, slots=True)
class PublicRelation:
    """The rows and typed columns of a public relation; `sql` is the query that DuckDB computed."""

    name: str
    sql: str
    rows: pa.Table
    columns: tuple[TargetColumn, ...]


def is_public(query: Query, private: Collection[str]) -> bool:
    """Whether a query reads no private table and no column of an enclosing query."""
    nodes = list(walk(query))
    inside = {node.alias for node in nodes if isinstance(node, Scan | Derived | Values | Range | Unnest)}
    return not any(
        (isinstance(node, Scan) and node.table in private)
        or (isinstance(node, Column) and node.table and node.table not in inside)
        for node in nodes
    )


def compute_public(schema_database: SchemaDatabase, name: str, sql: str) -> PublicRelation:
    """Compute a public relation, and check that every engine can represent its values."""
    described = schema_database.run(f"DESCRIBE {sql}")
    rows = schema_database.run(sql)
    columns, arrays = [], []
    for i, (label, text) in enumerate(
        zip(described.column(0).to_pylist(), described.column(1).to_pylist(), strict=True)
    ):
        sql_type = _public_type(text)
        array, value_range = _check_values(rows.column(i), sql_type)
        columns.append(TargetColumn(str(label), sql_type, value_range))
        arrays.append(array)
    made = pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])
    if made.nbytes > MOST_BYTES:
        raise Untranslatable(
            f"the public rows this statement needs are more than {MOST_BYTES >> 20} MB",
            "a smaller domain or public table",
        )
    return PublicRelation(name, sql, made, tuple(columns))


def _public_type(text: str) -> SqlType:
    if text in ("NULL", '"NULL"'):
        return NULL
    try:
        sql_type = column_type(text)
    except ValueError:
        raise Untranslatable(f"public values of type {text[:40]} cannot be sent to the engine") from None
    if sql_type.name == "ENUM":
        raise Untranslatable("ENUM values cannot be sent to the engine", "declare the column VARCHAR")
    type_family(sql_type)
    return sql_type


def _check_values(column: pa.ChunkedArray, sql_type: SqlType) -> tuple[pa.Array, tuple[float, float] | None]:
    array = column.combine_chunks()
    if sql_type.name in ("DATE", "TIMESTAMP"):
        return _check_dates(array, sql_type)
    if sql_type.name == "VARCHAR" and pc.any(pc.match_substring(array, "\0")).as_py():
        raise Untranslatable("a public text has a NUL character, which the engine does not support")
    return array, None


def _check_dates(array: pa.Array, sql_type: SqlType) -> tuple[pa.Array, tuple[float, float]]:
    low, high = FIRST_DAY, LAST_DAY
    if sql_type.name == "TIMESTAMP":
        low, high = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)
    inside = pc.and_(
        pc.greater_equal(array, pa.scalar(low, array.type)), pc.less_equal(array, pa.scalar(high, array.type))
    )
    if pc.all(inside).as_py() not in (True, None):
        raise Untranslatable(
            "a public date lies outside the years 1 to 9999, which not every engine supports"
        )
    return array, (1, 9999)


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
            raise too_long_error()
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
            if takes_arguments(entry, values):
                return self.once(values, entry.apply)
        raise no_form_error(name, self.dialect.name, bool(forms))

    def name(self, sql: str, cost: Cost) -> None:
        """Record the cost of a named column, for engines that put its expression where it is named."""
        known = self.names.get(sql)
        if known is not None:
            cost = known.most(cost)
        if cost != known:
            self.names[sql] = cost
            self.costs.clear()

    def cost(self, sql: str) -> Cost:
        """Return what a text of SQL costs the engine; raises `Untranslatable` if it alone is too much."""
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
        """Write an expression of operands so that no long operand is computed more than once."""
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
        """Write an expression, `body`, that names its operands; each of them is computed once."""
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


def too_long_error() -> Untranslatable:
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
        raise too_long_error()
    if is_too_slow(cost, dialect.longest, dialect.timeout):
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
