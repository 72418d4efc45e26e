"""What is written of an expression: SQL, DuckDB's type, the range of values, and what it costs an engine.

The costs of a text are its size once columns are substituted, and the time of one row. An engine puts the
expression of a subquery's column in the place of each name of the column. A text that is short as it is
written can thus become as long as the product of the numbers of names at each level. Both costs are computed
from what is written, before anything is sent: the name of a column counts as much as the expression that it
stands for.

A `Form` says for which types of arguments a dialect writes a function, and how; rules of ranges give the
magnitudes of DOUBLE arithmetic and the years of dates. Engines that raise on overflow run only what cannot
overflow, and no engine computes dates beyond its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from datetime import date, datetime

from dpsql.engines.worker import Untranslatable
from dpsql.kernel.tree.forms import RESULTS
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.types import BIGINT, HUGEINT, NULL, SqlType


@dataclass(frozen=True, slots=True)
class Cost:
    """The words of a text, its size, and the microseconds that its calls take for the longest text.

    In the size a word counts once more for each subquery around it, and four times for each parameter of a
    function: engines copy what is within, or look through it, at each of them.
    """

    words: int
    size: int
    micros: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.words + other.words, self.size + other.size, self.micros + other.micros)

    def most(self, other: Cost) -> Cost:
        """Return the higher one of each of two costs."""
        words, size = max(self.words, other.words), max(self.size, other.size)
        return Cost(words, size, max(self.micros, other.micros))


NOTHING = Cost(0, 0)
NAME = Cost(1, 1)
"""The cost of a name that the engine computes once."""

_MAX_SECONDS = 4.0
"""The most seconds that one row of the longest texts may take: an engine hears no cancel in a row."""
READING = 300.0
"""The microseconds that reading the longest text takes at each place where its column is named."""
_SHARE = 0.1
"""The part of the time limit that one row may take."""
_REFERENCE = 65_536
"""The length in bytes of the texts by which the times of calls were measured."""
_TEXT = 256
"""The characters of a literal that count as one word."""

_WORDS = lazy_pattern(
    r"""
    (?P<text>'(?:[^'\\]++|''|\\.)*+')
    |(?P<name>"(?:[^"]|"")*"\."(?:[^"]|"")*"|`(?:[^`]|``)*`\.`(?:[^`]|``)*`)
    |"(?:[^"]|"")*"|`(?:[^`]|``)*`
    |(?P<call>\w+)
    |(?P<bracket>[()])
    |[^\s\w'"`(),]+
    """,
    re.VERBOSE | re.DOTALL,
)


def measure(sql: str, names: Mapping[str, Cost], times: Mapping[str, float]) -> Cost:
    """Return the cost of a text of SQL; `names` has costs of qualified columns, `times` of words.

    >>> measure("lower(`a`.`b`) = 'x'", {"`a`.`b`": Cost(10, 10)}, {"lower": 5.0})
    Cost(words=13, size=13, micros=5.0)
    >>> measure("(SELECT f((SELECT x)))", {}, {})
    Cost(words=4, size=10, micros=0.0)
    """
    words, size, micros, depth = 0, 0, 0.0, 0
    around: list[int] = []
    """For each open bracket, how often a word within it counts more."""
    last = ""
    for found in _WORDS.finditer(sql):
        text, cost = found[0].lower(), NAME
        match found.lastgroup:
            case "bracket":
                if text == "(":
                    around.append(4 if last == "transform" else 0)
                    depth += around[-1]
                elif around:
                    depth -= around.pop()
                cost = NOTHING
            case "name":
                cost = names.get(found[0], NAME)
            case "call":
                if text == "select" and last == "(":
                    around[-1], depth = 1, depth + 1 - around[-1]
                cost = Cost(1, 1, times.get(text, 0.0))
            case "text":
                cost = Cost(1 + len(text) // _TEXT, 1 + len(text) // _TEXT)
        words += cost.words
        size += cost.size + depth * cost.words
        micros += cost.micros
        last = text
    return Cost(words, size, micros)


def is_too_slow(cost: Cost, longest: int, timeout: int) -> bool:
    """Whether one row with texts of `longest` bytes could take more than its part of the time limit."""
    return cost.micros / 1e6 * longest / _REFERENCE > min(_MAX_SECONDS, _SHARE * timeout)


NOT_CONSTANT = object()
"""Stands for the constant of a value that depends on the row."""


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column of a translated query: its name, its type, and its range (see `Value.value_range`).

    `cost` is that of the expression which an engine may put in the place of the name.
    """

    name: str
    type: SqlType
    value_range: tuple[float, float] | None = None
    cost: Cost = NAME
    one_zero: bool = True


@dataclass(frozen=True, slots=True)
class Value:
    """An expression in the engine's SQL, with its range and what it costs to compute."""

    sql: str
    """The SQL of the engine; it may stand wherever an operand may."""
    type: SqlType
    """The type in DuckDB. In the engine, integers of up to 64 bits (except UBIGINT) are BIGINT."""
    value_range: tuple[float, float] | None = None
    """For DOUBLE the least and largest magnitude of a value that is not zero, or None if the value may be
    infinite or NaN. For DATE and TIMESTAMP the first and last year. None for other types."""
    constant: object = field(default=NOT_CONSTANT)
    """The value if it is the same in every row, else `NOT_CONSTANT`."""
    one_zero: bool = False
    """Whether a DOUBLE is never -0.0: a stored value, a converted one, a canonical one, or a constant."""

    def as_column(self, name: str, cost: Cost = NAME) -> TargetColumn:
        """Return the column of a query that selects this value under a name."""
        return TargetColumn(name, self.type, self.value_range, cost)

    def with_sql(self, sql: str) -> Value:
        """Return the value with another SQL text, not marked as constant."""
        return replace(self, sql=sql, constant=NOT_CONSTANT)


_FAMILIES = {
    "BOOLEAN": "L",
    "DECIMAL": "N",
    "DOUBLE": "D",
    "VARCHAR": "S",
    "DATE": "T",
    "TIMESTAMP": "M",
    "TIME": "C",
    "UUID": "U",
    "BLOB": "X",
    "UBIGINT": "B",
    "HUGEINT": "B",
    "NULL": "0",
}


def type_family(sql_type: SqlType) -> str:
    """Return the letter of a type's family: an engine has one type for the values of a family.

    I integers up to 64 bits, B wider integers, N DECIMAL, D DOUBLE, S text, T date, M timestamp, C time,
    L boolean, U UUID, X bytes, 0 a NULL without a type.
    """
    letter = _FAMILIES.get(sql_type.name)
    if letter is not None:
        return letter
    if sql_type.integer:
        return "I"
    raise Untranslatable(f"values of type {sql_type.name} are not translated")


def joint_range(values: list[Value]) -> tuple[float, float] | None:
    """Return the range of a choice among values; a constant NULL has no effect on it."""
    parts = [v.value_range for v in values if v.type != NULL and v.constant is not None]
    known = [p for p in parts if p is not None]
    if not known or len(known) < len(parts):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def common_type(types: list[SqlType]) -> SqlType:
    """Return the common type of several results, to which DuckDB's binder has converted them already."""
    known = [t for t in types if t != NULL]
    if not known:
        return NULL
    families = {type_family(t) for t in known}
    if families == {"I"}:
        return BIGINT if len({t.name for t in known}) > 1 else known[0]
    if families in ({"B"}, {"I", "B"}):
        return HUGEINT
    if len(families) > 1 or (families == {"N"} and len(set(known)) > 1):
        raise Untranslatable("results of different types have no common type here")
    return known[0]


def constant_range(value: object) -> tuple[float, float] | None:
    """Return the range of a constant: of a DOUBLE its magnitude, of a date or timestamp its year."""
    if isinstance(value, (date, datetime)):
        return float(value.year), float(value.year)
    if isinstance(value, float) and abs(value) < float("inf"):
        return abs(value) or 1.0, abs(value) or 1.0
    return None


Range = tuple[float, float] | None
RangeRule = Callable[[list[Value]], Range]
"""Computes the value range of a result from the arguments, or refuses them."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a dialect writes functions for one list of argument types.

    `names` are DuckDB's names of the functions, separated by spaces. `wanted` has an entry for each argument:
    letters of `type_family`, `I!` or `D!` for a constant that is not zero, `#p` for a positive integer
    literal, `#n` for an integer literal from zero on, `#s` for a text literal that is not empty, or `=year`
    for the text literal "year". `text` is a template of the arguments' SQL, or a function of the arguments.
    """

    names: str
    wanted: str
    type: SqlType | str | None
    """The type of the result, or the name of its rule in `RESULTS`; None: that of the first argument."""
    text: str | Callable[[list[Value]], str]
    value_range: RangeRule | None = None

    def apply(self, values: list[Value]) -> Value:
        """Write the function call with given arguments."""
        value_range = self.value_range(values) if self.value_range is not None else None
        text = self.text.format(*(v.sql for v in values)) if isinstance(self.text, str) else self.text(values)
        return Value(f"({text})", self.find_type(values) or values[0].type, value_range)

    def find_type(self, values: list[Value]) -> SqlType | None:
        """Return the type of the result for given arguments; None if it has no rule for these."""
        if isinstance(self.type, str):
            return RESULTS[self.type]([value.type for value in values], None)
        return values[0].type if self.type is None else self.type


def collect_forms(*groups: Iterable[Form]) -> dict[str, list[Form]]:
    """Collect forms by function name; of several that take the arguments, the first is used."""
    found: dict[str, list[Form]] = {}
    for group in groups:
        for entry in group:
            for name in entry.names.split():
                found.setdefault(name, []).append(entry)
    return found


def takes_arguments(entry: Form, values: list[Value]) -> bool:
    """Whether a form accepts these arguments."""
    wanted = entry.wanted.split()
    fit = len(wanted) == len(values) and all(map(_takes, wanted, values))
    return fit and entry.find_type(values) is not None


def _takes(want: str, value: Value) -> bool:
    constant = value.constant
    if want.startswith("="):
        return isinstance(constant, str) and constant.lower() == want[1:]
    if want in ("#p", "#n"):
        least = 1 if want == "#p" else 0
        return isinstance(constant, int) and not isinstance(constant, bool) and least <= constant < 2**31
    if want == "#s":
        return isinstance(constant, str) and bool(constant)
    if want.endswith("!") and (constant is NOT_CONSTANT or not constant):
        return False
    return value.type.name != "NULL" and type_family(value.type) in want


def no_form_error(name: str, engine: str, forms: bool) -> Untranslatable:
    """Return the error that an engine has no form of a function, or none for these arguments."""
    what = f"{name} with these arguments" if forms else name
    return Untranslatable(
        f"{engine} does not run {what}: its result could differ from DuckDB's, or it could fail"
    )


INTEGERS = (1.0, 2.0**63)
"""The value range of a BIGINT converted to DOUBLE."""

_LEAST, _MOST = 1e-290, 1e290
_ULP = 2.0**-53


def _within_doubles(low: float, high: float) -> Range:
    return (low, high) if low >= _LEAST and high <= _MOST else None


def first_range(values: list[Value]) -> Range:
    """Return the range of a function's result that is the range of its first argument."""
    return values[0].value_range


def sum_range(values: list[Value]) -> Range:
    """Return the range of a sum or difference.

    Where the operands cancel, the result is zero or a multiple of the last bit of the smaller one.
    """
    a, b = (v.value_range for v in values)
    if a is None or b is None:
        return None
    return _within_doubles(min(a[0], b[0]) * _ULP, a[1] + b[1])


def product_range(values: list[Value]) -> Range:
    """Return the range of the product of a function's arguments."""
    a, b = (v.value_range for v in values)
    return None if a is None or b is None else _within_doubles(a[0] * b[0], a[1] * b[1])


def quotient_range(values: list[Value]) -> Range:
    """Return the range of a quotient whose divisor is not zero."""
    a, b = (v.value_range if type_family(v.type) == "D" else _integer_range(v) for v in values)
    return None if a is None or b is None else _within_doubles(a[0] / b[1], a[1] / b[0])


def _integer_range(value: Value) -> Range:
    constant = value.constant
    return (abs(constant), abs(constant)) if isinstance(constant, int) and constant else INTEGERS


def since_year_one(values: list[Value]) -> Range:
    """Refuse dates before year 1, where engines count otherwise than DuckDB."""
    for value in values:
        low, _ = value.value_range or (0, 0)
        if type_family(value.type) in "TM" and low < 1:
            raise Untranslatable("this date could lie before year 1, where engines count differently")
    return None


def same_year(values: list[Value]) -> Range:
    """Return the value range of a date in the same year as the last argument."""
    return values[-1].value_range


def same_or_previous_year(values: list[Value]) -> Range:
    """Return the value range of a date in the year of the last argument, or in the year before."""
    value_range = values[-1].value_range
    return None if value_range is None else (value_range[0] - 1, value_range[1])


def shifted_range(values: list[Value]) -> Range:
    """Return the value range of a date plus or minus a constant number of days."""
    value_range, days = values[0].value_range, values[1].constant
    if value_range is None or not isinstance(days, int) or abs(days) > 1_000_000:
        raise Untranslatable("only a fixed number of days, at most a million, is added to a date")
    reach = abs(days) / 365 + 1 if abs(days) > 365 else 1.0
    low, high = value_range[0] - reach, value_range[1] + reach
    if low < -4000 or high > 20_000:
        raise Untranslatable(
            "a result of this date arithmetic could lie beyond the dates that every engine has"
        )
    return low, high
