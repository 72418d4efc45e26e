"""Declared domains as small public tables, and the queries that test what is declared of a table's rows.

The tables of domains are the same in the schema database and in the private database. `OwnedRows` finds NULLs
and values beyond a domain in rows that have a unit: they are tested when a table is opened, and `dpsql check`
counts what is wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date

import duckdb

from dpsql.analysis import quote
from dpsql.analysis.public_domains import bigint_constant, equal_condition, is_within_bigint
from dpsql.analysis.typed_expression import Span
from dpsql.engines.duckdb.table_readers import Reader
from dpsql.errors import InternalError, PolicyError
from dpsql.kernel.tree import (
    DOMAIN_SCHEMA,
    Aggregate,
    Binary,
    Cast,
    Column,
    Constant,
    Derived,
    DomainScan,
    Expr,
    IsNull,
    Item,
    Join,
    Not,
    Paren,
    Query,
    Range,
    Scan,
    Select,
    Source,
    UtcTime,
    conjunction,
    duckdb_sql,
    guarded,
)
from dpsql.kernel.unit_parts import FIRST_DAY, LAST_DAY
from dpsql.policy import (
    BooleanDomain,
    Domain,
    EnumDomain,
    Policy,
    RangeDomain,
    TableDomain,
    UnitColumn,
    UnitPeriod,
    UnitVia,
    ValuesDomain,
    fit,
    fold,
    zones,
)
from dpsql.policy.column_values import MOST_VALUES, fit_domain
from dpsql.types import BIGINT, DATE, INTEGER, TIMESTAMP, TIMESTAMPTZ, VARCHAR, SqlType


class Domains:
    """The declared domain of each column, as a query of its values `v` and their positions `o`."""

    def __init__(self, policy: Policy, readers: dict[str, Reader]) -> None:
        self._domains: dict[tuple[str, str], tuple[Query, list[str] | str | None, SqlType]] = {}
        self._spans: dict[tuple[str, str], tuple[date, date]] = {}
        self._integers: dict[tuple[str, str], tuple[int, int]] = {}
        for table in policy.tables.values():
            types = {fold(name): sql_type for name, sql_type in readers[table.name].columns}
            for column, stated in table.domain.items():
                key = (fold(table.name), fold(column))
                where = f"tables.{table.name}.domain.{column}"
                # The policy checked the domains of columns whose types it declares; here all types are known.
                domain = fit_domain(stated, types[fold(column)], where)
                if isinstance(domain, RangeDomain) and types[fold(column)].moment:
                    self._spans[key] = _days_of(domain)
                    continue
                if isinstance(domain, RangeDomain) and domain.size > MOST_VALUES:
                    self._integers[key] = _integers_of(domain, types[fold(column)], where)
                    continue
                self._domains[key] = self._define(
                    where, domain, types[fold(column)], readers, _name_table(*key)
                )

    def span(self, table: str, column: str) -> tuple[date, date] | None:
        """Return the days of a TIMESTAMP column's declared range, or None."""
        return self._spans.get((fold(table), fold(column)))

    def integers(self, table: str, column: str) -> tuple[int, int] | None:
        """Return the ends of a column's declared range of integers that is too long for a list, or None."""
        return self._integers.get((fold(table), fold(column)))

    def query(self, table: str, column: str) -> Query | None:
        """Return the query of a column's domain, or None if none is declared, or one that is no list."""
        made = self._domains.get((fold(table), fold(column)))
        return made[0] if made is not None else None

    def list_tables(self) -> dict[str, SqlType]:
        """Return the names of the tables that `create` makes, with the types of their values.

        These are the tables of listed values and of public columns; a range of values has none.
        """
        return {
            _name_table(*k): kind.held for k, (_, values, kind) in self._domains.items() if values is not None
        }

    def columns(self) -> dict[str, str]:
        """Return the columns of the domains, as `table.column`, by the names of their tables."""
        return {_name_table(*key): ".".join(key) for key in self._domains}

    def create(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the tables of listed values and of public columns; the public tables exist already."""
        connection.execute(f"CREATE SCHEMA {DOMAIN_SCHEMA}")
        for key, (_, values, sql_type) in self._domains.items():
            if values is None:
                continue
            name = f"{DOMAIN_SCHEMA}.{_name_table(*key)}"
            if isinstance(values, str):
                connection.execute(f"CREATE TABLE {name} AS {values}")
                continue
            listed = "SELECT unnest($1::VARCHAR[]) AS v, unnest(range(len($1))) AS o"
            if sql_type.held != VARCHAR or len({*values}) < len(values):
                # Texts that differ may be one value. To group takes as long as all the rest.
                listed = (
                    f"SELECT CAST(v AS {sql_type.held}) AS v, MIN(o) AS o FROM ({listed}) AS r GROUP BY ALL"
                )
            connection.execute(f"CREATE TABLE {name} AS {listed}", [values])

    def _define(
        self, where: str, domain: Domain, sql_type: SqlType, readers: dict[str, Reader], name: str
    ) -> tuple[Query, list[str] | str | None, SqlType]:
        match domain:
            case ValuesDomain(values=values):
                try:
                    texts = [_domain_text(fit(value, sql_type)) for value in values]
                except ValueError as error:
                    raise PolicyError(f"{where}: {error}") from None
                return _scan_domain(name), texts, sql_type
            case BooleanDomain():
                return _scan_domain(name), ["false", "true"], sql_type
            case EnumDomain():
                return _scan_domain(name), list(sql_type.values), sql_type
            case RangeDomain(start=start, stop=stop):
                return _range_query(start, stop, sql_type), None, sql_type
            case TableDomain(table=table, column=column):
                made = _column_values(where, table, column, sql_type, readers)
                return _scan_domain(name), made, sql_type
        raise PolicyError(f"{where}: unknown kind of domain")


def _scan_domain(name: str) -> Query:
    return Select((Item(Column("", "v")), Item(Column("", "o"))), DomainScan(name))


def _name_table(table: str, column: str) -> str:
    """Name a domain's table by its column only, so that other domains do not change a compiled query."""
    return "d_" + hashlib.sha256(repr((table, column)).encode()).hexdigest()[:12]


def _domain_text(value: object) -> str:
    return "true" if value is True else "false" if value is False else str(value)


def _days_of(domain: RangeDomain) -> tuple[date, date]:
    if not isinstance(domain.start, date) or not isinstance(domain.stop, date):
        raise PolicyError("a range of a TIMESTAMP column goes from a date to a date")
    return domain.start, domain.stop


def _integers_of(domain: RangeDomain, sql_type: SqlType, where: str) -> tuple[int, int]:
    if not is_within_bigint(sql_type):
        raise PolicyError(f"{where}: a domain of a {sql_type} has at most {MOST_VALUES:,} values")
    if not isinstance(domain.start, int) or not isinstance(domain.stop, int):
        raise PolicyError("a range of days has at most 10 million of them")
    if not -(2**63) <= domain.start <= domain.stop < 2**63 - 1:
        raise PolicyError("a range of integers must lie within BIGINT")
    return domain.start, domain.stop


def _range_query(start: int | date, stop: int | date, sql_type: SqlType) -> Query:
    i = Column("", "i")
    if isinstance(start, date) and isinstance(stop, date):
        day = Binary("+", Constant(start, DATE), Cast(i, INTEGER))
        return Select((Item(Cast(day, sql_type), "v"), Item(i, "o")), Range(0, (stop - start).days + 1))
    if isinstance(start, date) or isinstance(stop, date):
        raise PolicyError("a range has two dates or two integers")
    if not -(2**63) <= start <= stop < 2**63 - 1:
        raise PolicyError("a range of integers must lie within BIGINT")
    return Select((Item(Cast(i, sql_type), "v"), Item(i, "o")), Range(start, stop + 1))


def _column_values(where: str, name: str, column: str, sql_type: SqlType, readers: dict[str, Reader]) -> str:
    reader = next((r for n, r in readers.items() if fold(n) == fold(name)), None)
    types = {fold(n): (n, k) for n, k in reader.columns} if reader is not None else {}
    if reader is None or fold(column) not in types:
        raise PolicyError(f"{where}: there is no column {name}.{column}")
    actual, other = types[fold(column)]
    if other != sql_type and not (other.integer and sql_type.integer):
        raise PolicyError(
            f"{where}: {name}.{column} is {other}, the column is {sql_type}",
            hint="declare both with the same type",
        )
    cell = f"b.{quote(actual)}"
    if other == TIMESTAMPTZ:
        cell = duckdb_sql(UtcTime(Column("b", actual, stored=True)))
    value = cell if other == sql_type else f"TRY_CAST({cell} AS {sql_type})"
    return (
        f"SELECT v, row_number() OVER (ORDER BY v) - 1 AS o FROM (SELECT DISTINCT {value} AS v "
        f"FROM main.{quote(reader.table.name)} AS b) AS r WHERE v IS NOT NULL"
    )


def select_several(rows: str, unit: str, column: str) -> str:
    """Return the query that counts the units with several values in a column, NULL being one as any other.

    `rows` is an item of FROM without an alias, or with the alias `t`.
    """
    null = f"MAX(CASE WHEN {column} IS NULL THEN 1 ELSE 0 END)"
    several = f"HAVING COUNT(DISTINCT {column}) + {null} > 1"
    source = rows if rows.endswith(" AS t") else f"{rows} AS t"
    return (
        "SELECT COUNT(*) AS n0 FROM"
        f" (SELECT 1 AS x FROM {source} WHERE {unit} IS NOT NULL GROUP BY {unit} {several}) AS f"
    )


class OwnedRows:
    """The rows of a table that have a unit, in a column of their own or found through a path.

    Rows without one are never counted, so nothing is declared of them. Of a table without units, and of one
    whose rows are units, it is all rows.
    """

    def __init__(self, readers: Mapping[str, Reader], domains: Domains, table: str) -> None:
        self._readers = {fold(name): reader for name, reader in readers.items()}
        self._domains = domains
        self._table = self._reader(table).table

    def select_values(self, column: str) -> Select:
        """Return the query of a column's values as `v`."""
        source, owned = self._owned_source(self._table.name)
        return Select((Item(self._value(column), "v"),), source, conjunction(owned))

    def select_counts(self, columns: Sequence[str]) -> Select:
        """Return the query of how many rows there are, `n0`, and in how many each column has a value.

        The columns' counts are `n1`, `n2`, ..
        """
        source, owned = self._owned_source(self._table.name)
        there = (Aggregate("COUNT", (self._value(column),)) for column in columns)
        counts = (Item(count, f"n{i}") for i, count in enumerate((Aggregate("COUNT"), *there)))
        return Select(tuple(counts), source, conjunction(owned))

    def select_negative(self, column: str) -> Select:
        """Return the query of the rows with a value below 0 in a column, the value as `v`."""
        source, owned = self._owned_source(self._table.name)
        value = self._value(column)
        negative = Paren(Binary("<", value, Constant(0, INTEGER)))
        return Select((Item(value, "v"),), source, conjunction([*owned, negative]))

    def select_outside(self, column: str) -> Select:
        """Return the query of the rows with NULL or no declared value in a column, the value as `v`."""
        name, value = self._table.name, self._value(column)
        source, owned = self._owned_source(name)
        days, ends = self._domains.span(name, column), self._domains.integers(name, column)
        missing: Expr
        if days is not None:
            missing = _is_beyond(value, Cast(value, DATE), *(Constant(day, DATE) for day in days))
        elif ends is not None:
            missing = _is_beyond(value, Cast(value, BIGINT), *map(bigint_constant, ends))
        else:
            query, listed = self._domains.query(name, column), Column("d", "v")
            if query is None:
                raise InternalError("this column has no declared domain")
            source = Join(source, "LEFT", Derived(query, "d"), equal_condition(value, listed, null=False))
            missing = Paren(IsNull(listed))
        return Select((Item(value, "v"),), source, conjunction([*owned, missing]))

    def select_beyond_periods(self) -> Select | None:
        """Return the query of the rows with a date in no period that is told apart; None: no unit has one."""
        unit = self._table.unit
        if not isinstance(unit, UnitPeriod):
            return None
        value = self._value(unit.date)
        source, owned = self._owned_source(self._table.name)
        there = IsNull(value, negated=True)
        ends = (Constant(day, DATE) for day in (FIRST_DAY, LAST_DAY))
        beyond = _is_beyond(value, Cast(value, DATE), *ends)
        return Select((Item(value, "v"),), source, conjunction([*owned, there, beyond]))

    def select_violations(self) -> Iterator[Select]:
        """Yield the queries that find a row where a fact of the table is false, of values and of periods."""
        if (beyond := self.select_beyond_periods()) is not None:
            yield beyond
        yield from map(self.select_outside, self._table.complete)
        yield from map(self.select_negative, self._table.not_negative)
        sure = set(map(fold, self._table.not_null))
        for column in (
            self._column(self._table.name, c) for c in self._table.unit_columns if fold(c) in sure
        ):
            yield Select((Item(column, "v"),), Scan(self._table.name, "b"), IsNull(column))

    def _reader(self, table: str) -> Reader:
        return self._readers[fold(table)]

    def _column(self, table: str, column: str) -> Column:
        names = {fold(name): name for name, _ in self._reader(table).columns}
        return Column("b", names[fold(column)], stored=True)

    def _value(self, column: str) -> Expr:
        """Return a column as statements read it: of one with a declared zone the time of UTC."""
        cell, zone = self._column(self._table.name, column), self._table.zone.get(column)
        if zone is None:
            return cell
        from dpsql.analysis.syntax_rules import find_steps, move_time  # noqa: PLC0415  few columns have a zone

        days = self._domains.span(self._table.name, column)
        span = Span.of_days(*days) if days else None
        return guarded(move_time(cell, find_steps(TIMESTAMP, zones.zone(zone), span)))

    def _owned_source(self, table: str) -> tuple[Source, list[Expr]]:
        """Return a table's rows `b` that have a unit: a FROM item, and the conditions on it."""
        scan, unit = Scan(table, "b"), self._reader(table).table.unit
        if isinstance(unit, UnitColumn):
            return scan, [IsNull(self._column(table, unit.column), negated=True)]
        if isinstance(unit, UnitVia):
            own, key = self._link(table, unit)
            source, owned = self._owned_source(self._reader(unit.table).table.name)
            keys = Select((Item(key, "k"),), source, conjunction(owned), distinct=True)
            return Join(scan, "", Derived(keys, "q"), equal_condition(own, Column("q", "k"), null=False)), []
        return scan, []

    def _link(self, table: str, unit: UnitVia) -> tuple[Expr, Expr]:
        """Return the column that names a row of the parent, and the parent's key.

        A wrong policy may link columns of different types, which no statement does: texts are compared.
        """
        own, key = self._column(table, unit.via), self._column(unit.table, unit.column)
        kinds = (self._type(table, own), self._type(unit.table, key))
        if kinds[0] == kinds[1] or all(kind.integer for kind in kinds):
            return own, key
        return Cast(own, VARCHAR), Cast(key, VARCHAR)

    def _type(self, table: str, column: Column) -> SqlType:
        return next(kind for name, kind in self._reader(table).columns if name == column.name)


def count_rows(rows: Query) -> Select:
    """Return the query of how many rows a query has, as `n0`."""
    return Select((Item(Aggregate("COUNT"), "n0"),), Derived(rows, "r"))


def _is_beyond(value: Expr, compared: Expr, first: Expr, last: Expr) -> Expr:
    """Return the condition that a value is NULL or not between two ends."""
    within = Paren(Binary("AND", Binary(">=", compared, first), Binary("<=", compared, last)))
    return Paren(Binary("OR", Paren(IsNull(value)), Paren(Not(within))))
