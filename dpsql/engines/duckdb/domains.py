"""Declared domains as small public tables, the same in the schema database and in the private database."""

from __future__ import annotations

import hashlib
from datetime import date

import duckdb

from dpsql.analysis import quote
from dpsql.analysis.domains import fits_bigint
from dpsql.engines.duckdb.sources import Reader
from dpsql.errors import PolicyError
from dpsql.kernel.tree import (
    DOMAIN_SCHEMA,
    Binary,
    Cast,
    Column,
    Constant,
    DomainScan,
    Item,
    Query,
    Range,
    Select,
    UtcTime,
    duckdb_sql,
)
from dpsql.policy import (
    BooleanDomain,
    Domain,
    EnumDomain,
    Policy,
    RangeDomain,
    TableDomain,
    ValuesDomain,
    fit,
    fold,
)
from dpsql.policy.columns import MOST_VALUES, fit_domain
from dpsql.types import DATE, INTEGER, TIMESTAMPTZ, SqlType


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
                    self._spans[key] = _days(domain)
                    continue
                if isinstance(domain, RangeDomain) and domain.size > MOST_VALUES:
                    self._integers[key] = _integers(domain, types[fold(column)], where)
                    continue
                self._domains[key] = self._define(where, domain, types[fold(column)], readers, _name(*key))

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

    def listed(self) -> dict[str, SqlType]:
        """Return the names of the tables that `create` makes, with the types of their values."""
        return {_name(*k): kind.held for k, (_, values, kind) in self._domains.items() if values is not None}

    def columns(self) -> dict[str, str]:
        """Return the columns of the domains, as `table.column`, by the names of their tables."""
        return {_name(*key): ".".join(key) for key in self._domains}

    def types(self) -> dict[str, SqlType]:
        """Return the types of the values in the tables of listed values, by the names of the tables."""
        listed = (
            (_name(*key), sql_type.held) for key, (_, texts, sql_type) in self._domains.items() if texts
        )
        return dict(listed)

    def create(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the tables of listed values and of public columns; the public tables exist already."""
        connection.execute(f"CREATE SCHEMA {DOMAIN_SCHEMA}")
        for key, (_, values, sql_type) in self._domains.items():
            if values is None:
                continue
            name = f"{DOMAIN_SCHEMA}.{_name(*key)}"
            if isinstance(values, str):
                connection.execute(f"CREATE TABLE {name} AS {values}")
                continue
            listed = "SELECT unnest($1::VARCHAR[]) AS v, unnest(range(len($1))) AS o"
            connection.execute(
                f"CREATE TABLE {name} AS "
                f"SELECT CAST(v AS {sql_type.held}) AS v, MIN(o) AS o FROM ({listed}) AS r GROUP BY ALL",
                [values],
            )

    def _define(
        self, where: str, domain: Domain, sql_type: SqlType, readers: dict[str, Reader], name: str
    ) -> tuple[Query, list[str] | str | None, SqlType]:
        match domain:
            case ValuesDomain(values=values):
                try:
                    texts = [_text(fit(value, sql_type)) for value in values]
                except ValueError as error:
                    raise PolicyError(f"{where}: {error}") from None
                return _scan(name), texts, sql_type
            case BooleanDomain():
                return _scan(name), ["false", "true"], sql_type
            case EnumDomain():
                return _scan(name), list(sql_type.values), sql_type
            case RangeDomain(start=start, stop=stop):
                return _range(start, stop, sql_type), None, sql_type
            case TableDomain(table=table, column=column):
                made = _column(where, table, column, sql_type, readers)
                return _scan(name), made, sql_type
        raise PolicyError(f"{where}: unknown kind of domain")


def _scan(name: str) -> Query:
    return Select((Item(Column("", "v")), Item(Column("", "o"))), DomainScan(name))


def _name(table: str, column: str) -> str:
    """Name a domain's table by its column only, so that other domains do not change a compiled query."""
    return "d_" + hashlib.sha256(repr((table, column)).encode()).hexdigest()[:12]


def _text(value: object) -> str:
    return "true" if value is True else "false" if value is False else str(value)


def _days(domain: RangeDomain) -> tuple[date, date]:
    if not isinstance(domain.start, date) or not isinstance(domain.stop, date):
        raise PolicyError("a range of a TIMESTAMP column goes from a date to a date")
    return domain.start, domain.stop


def _integers(domain: RangeDomain, sql_type: SqlType, where: str) -> tuple[int, int]:
    if not fits_bigint(sql_type):
        raise PolicyError(f"{where}: a domain of a {sql_type} has at most {MOST_VALUES:,} values")
    if not isinstance(domain.start, int) or not isinstance(domain.stop, int):
        raise PolicyError("a range of days has at most 10 million of them")
    if not -(2**63) <= domain.start <= domain.stop < 2**63 - 1:
        raise PolicyError("a range of integers must lie within BIGINT")
    return domain.start, domain.stop


def _range(start: int | date, stop: int | date, sql_type: SqlType) -> Query:
    i = Column("", "i")
    if isinstance(start, date) and isinstance(stop, date):
        day = Binary("+", Constant(start, DATE), Cast(i, INTEGER))
        return Select((Item(Cast(day, sql_type), "v"), Item(i, "o")), Range(0, (stop - start).days + 1))
    if isinstance(start, date) or isinstance(stop, date):
        raise PolicyError("a range has two dates or two integers")
    if not -(2**63) <= start <= stop < 2**63 - 1:
        raise PolicyError("a range of integers must lie within BIGINT")
    return Select((Item(Cast(i, sql_type), "v"), Item(i, "o")), Range(start, stop + 1))


def _column(where: str, name: str, column: str, sql_type: SqlType, readers: dict[str, Reader]) -> str:
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
