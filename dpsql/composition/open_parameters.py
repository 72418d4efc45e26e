"""The parameters `$1`, .. of a statement: their types where a client leaves them open, and dummy values.

A type follows from what stands around the parameter, on tokens. A dummy is a value of the type with which the
statement can be prepared, so that its columns are known before its values are: they do not depend on them.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.kernel.tree import duckdb_sql
from dpsql.language import Outline
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold
from dpsql.types import BIGINT, DOUBLE, TIMESTAMPTZ, VARCHAR, SqlType, column_type

if TYPE_CHECKING:
    from dpsql.engines.schema_database import SchemaDatabase
    from dpsql.policy import Policy

MOST = 1000
"""The most parameters of a statement."""

_WIDE = 2**40
"""A whole number whose literal is a BIGINT, as the parameters of that type are announced."""
_LARGE = 1e22
"""A number whose literal is a DOUBLE: it is written with an exponent."""

_COMPARED = {
    TokenType.EQ: "equal",
    TokenType.NEQ: "equal",
    TokenType.GT: "low",
    TokenType.GTE: "low",
    TokenType.LT: "high",
    TokenType.LTE: "high",
    TokenType.LIKE: "equal",
    TokenType.ILIKE: "equal",
    TokenType.PLUS: "equal",
    TokenType.DASH: "equal",
    TokenType.STAR: "equal",
    TokenType.SLASH: "equal",
    TokenType.MOD: "equal",
}
"""Operators, and the end of a range that a value on their right side would be."""
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_COUNTED = ("LIMIT", "OFFSET", "TOP", "FIRST", "NEXT")
_SPELLED = {
    "CHARACTER VARYING": "VARCHAR",
    "DOUBLE PRECISION": "DOUBLE",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
}
"""PostgreSQL's names of types that DuckDB calls otherwise."""
_OPTIONS = {"epsilon": 1.0, "error": 50.0, "delta": 1e-6, "candidates": 10.0, "base_hits": 5.0}
_COUNTS = ("max_groups_contributed", "max_rows_contributed")
"""Options whose dummy is no proper fraction; that of all others is one half."""

End = Literal["equal", "low", "high"]


@dataclass(frozen=True, slots=True)
class OpenParameter:
    """A parameter: its type, and values to prepare the statement with, the best first."""

    type: pa.DataType
    dummies: tuple[object, ...]


def _places(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the index of each parameter's token, and its number.

    >>> [number for _, number in _places(Outline.of("SELECT '$9', $2 -- $3").tokens)]
    [2]
    """
    for i, token in enumerate(tokens[:-1]):
        name = tokens[i + 1].text
        if token.token_type == TokenType.PARAMETER and name.isdecimal() and 0 < int(name) <= MOST:
            yield i, int(name)


def parameters_of(
    text: str, policy: Policy, database: SchemaDatabase, given: Sequence[pa.DataType | None]
) -> tuple[OpenParameter, ...]:
    """Return the parameters of a statement; `given` are the types that the client announced."""
    tokens = Outline.of(text).tokens
    places = list(_places(tokens))
    around = _Around(tokens, policy, database)
    found: list[OpenParameter | None] = [None] * max((number for _, number in places), default=0)
    for i, number in places:
        if found[number - 1] is None:
            announced = given[number - 1] if number <= len(given) else None
            found[number - 1] = around.parameter(i, announced)
    return tuple(one or OpenParameter(pa.string(), ("a",)) for one in found)


class _Around:
    """The text around the parameters of a statement that have no values yet."""

    def __init__(self, tokens: Sequence[Token], policy: Policy, database: SchemaDatabase) -> None:
        self.tokens, self.database = tokens, database
        self.columns: dict[str, tuple[str, str, SqlType]] = {}
        """The columns of the tables that are named, by folded name: table, column, type."""
        for token in tokens:
            named = token.token_type in _NAMES and token.text.isascii()
            table = policy.table(token.text) if named else None
            if table is None:
                continue
            for name, sql_type in database.columns(table.name):
                self.columns.setdefault(fold(name), (table.name, name, sql_type))

    def parameter(self, i: int, given: pa.DataType | None) -> OpenParameter:
        """Return the parameter at a token; its type is `given`, if the client announced it."""
        option = self._option(i)
        if option is not None:
            number = 5.0 if option in _COUNTS else _OPTIONS.get(option, 0.5)
            return self._of(DOUBLE, given, (number,))
        if self._word(0) == "CHECK" and any(self._word(at) == "EXPECT" for at in range(2, i)):
            return self._of(DOUBLE, given, (5.0,))
        if self._word(i - 1) in _COUNTED:
            return self._of(BIGINT, given, (5,))
        if self._word(i - 1) == "THRESHOLD":
            return self._of(DOUBLE, given, (1000.0,))
        cast = self._cast(i)
        if cast is not None:
            return self._of(cast, given, self._dummies(cast))
        beside = self._beside(i)
        if isinstance(beside, SqlType):
            return self._of(beside, given, self._dummies(beside))
        if beside is not None:
            column, end = beside
            return self._of(column[2], given, self._values(column, end))
        return self._of(VARCHAR, given, self._dummies(VARCHAR))

    def _of(self, sql_type: SqlType, given: pa.DataType | None, dummies: tuple[object, ...]) -> OpenParameter:
        """Return a parameter of a type, unless the client announced another one."""
        own = self.database.arrow_type(str(sql_type))
        if given is None or given == own:
            return OpenParameter(own, dummies)
        return OpenParameter(given, (*_dummies_of(given), *dummies))

    # -- the tokens

    def _kind(self, i: int) -> TokenType | None:
        return self.tokens[i].token_type if 0 <= i < len(self.tokens) else None

    def _word(self, i: int) -> str:
        quoted = self._kind(i) in (None, TokenType.STRING, TokenType.IDENTIFIER)
        return "" if quoted else self.tokens[i].text.upper()

    def _option(self, i: int) -> str | None:
        """Return the name of the option whose value a parameter is."""
        if self._kind(i - 1) not in (TokenType.EQ, TokenType.FARROW):
            return None
        depth = 0
        for j in range(i - 1, 0, -1):
            kind = self._kind(j)
            depth += (kind == TokenType.R_PAREN) - (kind == TokenType.L_PAREN)
            if depth < 0:
                return self.tokens[i - 2].text.lower() if self._word(j - 1) == "OPTIONS" else None
        return None

    def _cast(self, i: int) -> SqlType | None:
        """Return the type that a parameter is cast to."""
        if self._kind(i + 2) == TokenType.DCOLON:
            return _type_of(self._word(i + 3))
        called = self._kind(i - 1) == TokenType.L_PAREN and self._word(i - 2) in ("CAST", "TRY_CAST")
        return _type_of(self._word(i + 3)) if called and self._kind(i + 2) == TokenType.ALIAS else None

    def _beside(self, i: int) -> tuple[tuple[str, str, SqlType], End] | SqlType | None:
        """Return the column that a parameter is compared with, or the type of another expression."""
        before, after = self._kind(i - 1), self._kind(i + 2)
        if before == TokenType.BETWEEN:
            return self._named(i - 2, "low")
        if before == TokenType.AND and self._kind(i - 4) == TokenType.BETWEEN:
            return self._named(i - 5, "high")
        if before == TokenType.AND and self._kind(i - 3) == TokenType.BETWEEN:
            return self._named(i - 4, "high")
        if before in (TokenType.L_PAREN, TokenType.COMMA):
            j = i - 1
            while j > 0 and self._kind(j) not in (TokenType.L_PAREN, TokenType.R_PAREN):
                j -= 1
            if self._kind(j - 1) == TokenType.IN:
                return self._named(j - 2, "equal")
        if before in _COMPARED:
            return self._named(i - 2, _COMPARED[before])  # type: ignore[arg-type]  # the table's values
        if after in _COMPARED and self._kind(i + 3) in _NAMES:
            j = i + 3
            while self._kind(j + 1) == TokenType.DOT and self._kind(j + 2) in _NAMES:
                j += 2
            mirrored: dict[str, End] = {"low": "high", "high": "low"}
            return self._named(j, mirrored.get(_COMPARED[after], "equal"))
        return None

    def _named(self, i: int, end: End) -> tuple[tuple[str, str, SqlType], End] | SqlType | None:
        """Return the column that a token names; a released or computed number is a DOUBLE."""
        if self._word(i) == "NOT":
            i -= 1
        if self._kind(i) in _NAMES:
            found = self.columns.get(fold(self.tokens[i].text))
            if found is not None:
                return found, end
            aliased = any(
                self._kind(j - 1) == TokenType.ALIAS and fold(token.text) == fold(self.tokens[i].text)
                for j, token in enumerate(self.tokens)
                if token.token_type in _NAMES
            )
            return DOUBLE if aliased else None
        return DOUBLE if self._kind(i) in (TokenType.R_PAREN, TokenType.NUMBER) else None

    # -- the values

    def _values(self, column: tuple[str, str, SqlType], end: End) -> tuple[object, ...]:
        """Return dummies for a column: an end of its public domain, then a value of its type."""
        table, name, sql_type = column
        query = self.database.domain(table, name)
        span = self.database.span(table, name)
        if span is not None:
            day = span[end == "high"]
            zone = datetime.UTC if sql_type == TIMESTAMPTZ else None
            return (datetime.datetime.combine(day, datetime.time(), zone), *self._dummies(sql_type, end))
        ends = self.database.integers(table, name)
        if ends is not None:
            return (ends[end == "high"], *self._dummies(sql_type, end))
        if query is None:
            return self._dummies(sql_type, end)
        function = "max" if end == "high" else "min"
        value = self.database.evaluate(f"(SELECT {function}(v) FROM ({duckdb_sql(query)}) AS d)")
        if sql_type == TIMESTAMPTZ and isinstance(value, datetime.datetime):
            value = value.replace(tzinfo=datetime.UTC)
        return (value, *self._dummies(sql_type, end))

    def _dummies(self, sql_type: SqlType, end: End = "equal") -> tuple[object, ...]:
        return _dummies_of(self.database.arrow_type(str(sql_type)), end)


def _type_of(word: str) -> SqlType | None:
    try:
        return column_type(_SPELLED.get(word, word))
    except ValueError:
        return None


def _dummies_of(kind: pa.DataType, end: End = "equal") -> tuple[object, ...]:
    """Return values of an Arrow type; of two, the literal of the first one has the type that is announced."""
    high = end == "high"
    if pa.types.is_boolean(kind):
        return (True,)
    if pa.types.is_integer(kind):
        small = 59 if high else 1
        return (_WIDE, small) if end == "equal" and kind.bit_width > 32 else (small,)
    if pa.types.is_floating(kind):
        return (_LARGE, 1.0) if end == "equal" else (59.0 if high else 1.0,)
    if pa.types.is_decimal(kind):
        return (Decimal("59.5" if high else "1.5"),)
    if pa.types.is_timestamp(kind):
        zone = None if kind.tz is None else datetime.UTC
        return (datetime.datetime(2024, *((12, 31) if high else (1, 1)), tzinfo=zone),)
    if pa.types.is_date(kind):
        return (datetime.date(2024, 12, 31) if high else datetime.date(2024, 1, 1),)
    if pa.types.is_time(kind):
        return (datetime.time(12),)
    return ("a",)


def attempts(parameters: Sequence[OpenParameter]) -> Iterator[tuple[object, ...]]:
    """Yield dummies for all parameters: their first values, then their last ones, then NULLs."""
    if not parameters:
        yield ()
        return
    yield tuple(one.dummies[0] for one in parameters)
    if any(len(one.dummies) > 1 for one in parameters):
        yield tuple(one.dummies[-1] for one in parameters)
    yield (None,) * len(parameters)
