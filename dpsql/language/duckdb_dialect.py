"""`DuckDBText`: how DuckDB's SQL is split into tokens and parsed, as by sqlglot's dialect of it.

That one is defined in a module which imports the generator of SQL texts of 30 dialects, and parses their
templates: a tenth of the time in which a process starts. A statement is parsed; few are written again. A test
compares every setting with sqlglot's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect, NormalizationStrategy, UsingColumnOrder
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer as _Tokenizer

if TYPE_CHECKING:
    from sqlglot.generator import Generator

_LEFT_OUT = {"/*+", "SORT BY"}
"""Keywords of other dialects."""


class DuckDBText(Dialect):
    """The dialect; what it writes is written by sqlglot's own."""

    NULL_ORDERING = "nulls_are_last"
    SUPPORTS_USER_DEFINED_TYPES = True
    INDEX_OFFSET = 1
    CONCAT_COALESCE = True
    CONCAT_WS_COALESCE = True
    SUPPORTS_ORDER_BY_ALL = True
    SUPPORTS_LIMIT_ALL = True
    PREFER_COLUMNS_TO_ALIASES_IN_HAVING_AND_QUALIFY = True
    HAVING_ALIASES_SHADOW_UNGROUPED_COLUMNS = True
    SUPPORTS_FIXED_SIZE_ARRAYS = True
    TABLES_REFERENCEABLE_AS_COLUMNS = True
    QUERY_RESULTS_ARE_STRUCTS = True
    STRICT_JSON_PATH_SYNTAX = False
    NUMBERS_CAN_BE_UNDERSCORE_SEPARATED = True
    UUID_IS_STRING_TYPE = False
    USING_COLUMN_ORDER = UsingColumnOrder.IN_PLACE
    REGEXP_EXTRACT_NO_MATCH_RETURNS_NULL = False
    REGEXP_EXTRACT_MISSING_GROUP_RETURNS_EMPTY = True
    NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_INSENSITIVE
    ASCII_ONLY_NORMALIZATION = True

    DATE_PART_MAPPING = {
        name: part for name, part in Dialect.DATE_PART_MAPPING.items() if name != "WEEKDAY"
    } | {"DAYOFWEEKISO": "ISODOW"}

    INVERSE_TIME_MAPPING = {  # noqa: RUF012  so sqlglot declares it
        "%e": "%-d",
        "%:z": "%z",
        "%-z": "%z",
        **{f"%f_{digits}": "%n" for digits in ("zero", "one", "two", "four", "five")},
        **{f"%f_{digits}": "%n" for digits in ("seven", "eight", "nine")},
        "%f_three": "%g",
    }

    UNESCAPED_SEQUENCES = {"\\a": "a", "\\v": "v"}  # noqa: RUF012  as above

    class Tokenizer(_Tokenizer):
        """Splits a text into tokens."""

        NUMERIC_ESCAPES: ClassVar[dict[str, tuple[int, int, int, int]]] = {
            "x": (16, 1, 2, 0xFF),
            "0": (8, 1, 3, 0o777),
        }
        NUMERIC_ESCAPES_ARE_BYTES = True
        DROP_UNKNOWN_ESCAPES = True
        BYTE_STRINGS: ClassVar[list[Any]] = [("e'", "'"), ("E'", "'")]
        BYTE_STRING_ESCAPES: ClassVar[list[str]] = ["'", "\\"]
        HEREDOC_STRINGS: ClassVar[list[Any]] = ["$"]
        HEREDOC_TAG_IS_IDENTIFIER = True
        HEREDOC_STRING_ALTERNATIVE = TokenType.PARAMETER

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind for word, kind in _Tokenizer.KEYWORDS.items() if word not in _LEFT_OUT
        } | {
            "//": TokenType.DIV,
            "**": TokenType.DSTAR,
            "^@": TokenType.CARET_AT,
            "@>": TokenType.AT_GT,
            "<@": TokenType.LT_AT,
            "ATTACH": TokenType.ATTACH,
            "BINARY": TokenType.VARBINARY,
            "BITSTRING": TokenType.BIT,
            "BPCHAR": TokenType.TEXT,
            "CHAR": TokenType.TEXT,
            "CONNECT": TokenType.CONNECT,
            "DATETIME": TokenType.TIMESTAMPNTZ,
            "DETACH": TokenType.DETACH,
            "DISCONNECT": TokenType.DISCONNECT,
            "FORCE": TokenType.FORCE,
            "INSTALL": TokenType.INSTALL,
            "INT8": TokenType.BIGINT,
            "LOGICAL": TokenType.BOOLEAN,
            "MACRO": TokenType.FUNCTION,
            "ONLY": TokenType.ONLY,
            "PIVOT_WIDER": TokenType.PIVOT,
            "POSITIONAL": TokenType.POSITIONAL,
            "RESET": TokenType.COMMAND,
            "ROW": TokenType.STRUCT,
            "SIGNED": TokenType.INT,
            "STRING": TokenType.TEXT,
            "SUMMARIZE": TokenType.SUMMARIZE,
            "TIMESTAMP": TokenType.TIMESTAMPNTZ,
            "TIMESTAMP_S": TokenType.TIMESTAMP_S,
            "TIMESTAMP_MS": TokenType.TIMESTAMP_MS,
            "TIMESTAMP_NS": TokenType.TIMESTAMP_NS,
            "TIMESTAMP_US": TokenType.TIMESTAMP,
            "UBIGINT": TokenType.UBIGINT,
            "UINTEGER": TokenType.UINT,
            "USMALLINT": TokenType.USMALLINT,
            "UTINYINT": TokenType.UTINYINT,
            "VARCHAR": TokenType.TEXT,
        }
        SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {**_Tokenizer.SINGLE_TOKENS, "$": TokenType.PARAMETER}
        VAR_SINGLE_TOKENS: ClassVar[set[str]] = {"$"}
        COMMANDS: ClassVar[set[TokenType]] = _Tokenizer.COMMANDS - {TokenType.SHOW}

    Parser = DuckDBParser

    def to_json_path(self, path: exp.Expr | None) -> exp.Expr | None:
        """Return a path as a node, but for JSON pointers and places from a list's end, which stay texts."""
        if isinstance(path, exp.Literal) and (path.name.startswith("/") or "[#" in path.name):
            return path
        return super().to_json_path(path)

    def generator(self, **options: Any) -> Generator:  # noqa: ANN401  those of sqlglot's
        """Return the generator of sqlglot's dialect."""
        from sqlglot.dialects.duckdb import DuckDB  # noqa: PLC0415  it takes a tenth of a start

        return DuckDB().generator(**options)
