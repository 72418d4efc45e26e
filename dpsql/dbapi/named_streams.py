"""`NamedStream`, `UnnamedStream`, `NamedBoard`, `NamedHoldout`: they write the statements that SQL has."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import count
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from dpsql.errors import InterfaceError, ProgrammingError
from dpsql.kernel.loss import exact
from dpsql.language import Query, parse, write_name
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from dpsql.kernel.loss import Number
    from dpsql.language import Parameters
    from dpsql.session_api import AnalystSession

    Expected: TypeAlias = Number | tuple[Number | None, Number | None] | Literal["last", "models"] | pa.Table


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """The answer of one check: a row for each group that was checked."""

    table: pa.Table
    notes: tuple[str, ...] = ()

    @property
    def off(self) -> bool:
        """Whether any number is off."""
        return "checked" in self.table.column_names and "off" in self.table.column("checked").to_pylist()

    @property
    def stable(self) -> bool:
        """Of a question of exact answers: whether it was answered, if with no row."""
        return not any(note.startswith("unstable:") for note in self.notes)

    def df(self) -> Any:  # noqa: ANN401  pandas has no types
        """Return the rows as a pandas DataFrame."""
        return self.table.to_pandas()


class NamedStream:
    """A stream of checks of an analyst, by name; it lasts until it is closed, in any session."""

    def __init__(self, session: AnalystSession, name: str) -> None:
        if not name.isidentifier():
            raise InterfaceError("the name of a stream is a word")
        self._session, self.name = session, name

    def check(
        self,
        sql: str,
        expect: Expected | None = None,
        *,
        table: str | None = None,
        tolerance: Number | None = None,
        within: Number | None = None,
        per: str | None = None,
        column: str | None = None,
        parameters: Parameters = None,
    ) -> CheckedRows:
        """Check the numbers of a SELECT; those that are off are answered, and use a miss each.

        Parameters
        ----------
        sql
            A SELECT of one number, by groups of a public domain or without.
        expect
            A number; a pair, the least and the most (None: that side is open); "last", what the stream
            last accepted or answered of the same SELECT; "models", the weighted median of its models; or a
            DataFrame or Arrow table, with the keys of groups and what is expected of each.
        table
            A public table with the keys of the groups and what is expected of each, in place of `expect`.
        tolerance, within
            How far off a number may be: an amount, or a share of what is expected, 0.05 for 5%.
        per
            The name under which "last" is found, in place of the SELECT.
        column
            Which column is checked; the last one.
        parameters
            Values of the statement's parameters.
        """
        wanted = _write_expected(expect, table, per)
        width = "" if tolerance is None else f" TOLERANCE {_write(tolerance)}"
        width += "" if within is None else f" WITHIN {_write(exact(within) * 100)}%"
        name = write_name(_last_column(sql, parameters) if column is None else column)
        text = f"CHECK {self.name} {sql.rstrip().rstrip(';')}\nEXPECT {name} {wanted}{width}"
        found = self._session.run(text, parameters)
        return CheckedRows(found.table, found.notices)

    def ask(self, sql: str, parameters: Parameters = None) -> CheckedRows:
        """Ask what the stream was opened for.

        With models, the last column is checked by what they expect. Of exact answers, it is a SELECT of keys
        or of a quantile, which is answered if no unit could change the answer.
        """
        found = self._session.run(f"ASK {self.name} {sql}", parameters)
        return CheckedRows(found.table, found.notices)

    def refill(self, misses: int | None = None) -> None:
        """Settle the stream and open it again, at its price."""
        options = "" if misses is None else f" OPTIONS (misses = {_write(misses)})"
        self._session.run(f"REFILL STREAM {self.name}{options}")

    def close(self) -> None:
        """Settle the stream: what was used stays charged."""
        self._session.run(f"CLOSE STREAM {self.name}")

    @property
    def facts(self) -> dict[str, Any]:
        """What SHOW STREAMS has of it: its state, its misses, what is left of them, what it has cost."""
        rows: list[dict[str, Any]] = self._session.run("SHOW STREAMS").table.to_pylist()
        for row in rows:
            if row["stream"] == self.name.lower():
                return row
        raise ProgrammingError(f"you have no stream {self.name}")

    @property
    def left(self) -> int:
        """How many misses are left."""
        return int(self.facts["left"])

    def __repr__(self) -> str:
        return f"NamedStream({self.name!r})"


@dataclass(frozen=True, slots=True)
class Checked:
    """The answer to one count: the guess if that was good enough (`hit`), else a fresh count."""

    hit: bool
    value: float
    gap: float | None
    """By how much the guess was beyond the tolerance, with noise; None if it was not."""


class UnnamedStream(NamedStream):
    """A stream of checks that is closed with its connection, or at the end of a `with` block."""

    def count(self, sql: str, guess: Number, parameters: Parameters = None) -> Checked:
        """Answer one count: the guess if it is good enough, else a fresh noisy count, which uses a miss.

        The guess may depend on public data and on earlier answers, on nothing else.
        """
        rows = self.check(sql, guess, parameters=parameters).table.to_pylist()
        if len(rows) != 1:
            raise ProgrammingError("a count has no groups: `check` returns them, and these are stored")
        return Checked(rows[0]["checked"] != "off", next(iter(rows[0].values())), rows[0]["gap"])

    def close(self) -> None:
        """Settle the stream; harmless if it is closed."""
        with suppress(ProgrammingError):  # it was closed by its name
            super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        # A child of a fork leaves the block as well; the stream is its parent's.
        if self._session.turn.in_own_process and not self._session.closed:
            self.close()


def open_unnamed(
    session: AnalystSession, epsilon: Number, misses: int, options: dict[str, Any]
) -> UnnamedStream:
    """Open a stream under a name that no stream of the analyst has had."""
    while True:
        name = _find_free_name(session)
        try:
            open_named(session, name, epsilon, misses, options)
        except ProgrammingError:
            if _find_free_name(session) == name:
                raise
            continue  # another process has opened it meanwhile
        return UnnamedStream(session, name)


def _find_free_name(session: AnalystSession) -> str:
    known = session.run("SHOW STREAMS").table.column("stream").to_pylist()
    return next(name for number in count(1) if (name := f"unnamed_{number}") not in known)


def open_named(
    session: AnalystSession, name: str, epsilon: Number | None, misses: int | None, options: dict[str, Any]
) -> NamedStream:
    """Open a stream and return it; without `epsilon` and `misses`, return one that is open."""
    found = NamedStream(session, name)
    if epsilon is None and misses is None and not options:
        found.facts  # noqa: B018  it raises if there is none
        return found
    if epsilon is None or misses is None:
        raise InterfaceError("a stream is opened with its epsilon and its misses")
    given = {"epsilon": epsilon, "misses": misses, **options}
    kind = "STABLE" if "delta" in given else "CHECKS"
    session.run(f"OPEN {kind} {name} OPTIONS ({write_options(given)})".replace("misses =", _MISSES[kind]))
    return found


_MISSES = {"CHECKS": "misses =", "STABLE": "unstable ="}


def write_options(given: Mapping[str, Number | str]) -> str:
    """Write the options of OPEN, each with its value."""
    return ", ".join(f"{name} = {_write_option(name, value)}" for name, value in given.items())


def _write_rows(rows: Any) -> str:  # noqa: ANN401  pandas has no types
    """Write the rows of a DataFrame or an Arrow table as a relation of SQL."""
    import pyarrow as pa  # noqa: PLC0415  loaded where rows are

    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows, preserve_index=False)
    if not table.num_rows:
        raise InterfaceError("the table of what is expected has no rows")
    written = ", ".join(
        "(" + ", ".join(map(_write_value, row)) + ")"
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True)
    )
    return f"(VALUES {written}) AS expected({', '.join(map(write_name, table.column_names))})"


def _write_value(value: Any) -> str:  # noqa: ANN401  whatever a table has
    if value is None or value != value:  # noqa: PLR0124  NaN is how pandas has NULL
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, (int, float, Decimal)):
        if not isfinite(value):
            raise InterfaceError("the table of what is expected has a number that is not finite")
        text = f"{Decimal(repr(value) if isinstance(value, float) else value):f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    text = "'" + str(value).replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"TIMESTAMP {text}"
    return f"DATE {text}" if isinstance(value, date) else text


def _write_expected(expect: Expected | None, table: str | None, per: str | None) -> str:
    if hasattr(expect, "columns"):
        return f"FROM {_write_rows(expect)}"
    if (expect is None) == (table is None):
        raise InterfaceError("a check has what is expected, or a table of it")
    if table is not None:
        return f"FROM {write_name(table)}"
    if isinstance(expect, str) and expect == "models":
        return "= MODELS"
    if isinstance(expect, str) and expect == "last":
        return "= LAST" if per is None else "= LAST PER '" + per.replace("'", "''") + "'"
    if isinstance(expect, tuple):
        if len(expect) != 2:
            raise InterfaceError("a pair has two numbers, of which one may be None")
        low, high = expect
        if low is None or high is None:
            side, one = ("AT MOST", high) if low is None else ("AT LEAST", low)
            if one is None:
                raise InterfaceError("a pair has at least one number")
            return f"{side} {_write(one)}"
        return f"BETWEEN {_write(low)} AND {_write(high)}"
    given: Any = expect
    try:
        return f"= {_write(given)}"
    except (TypeError, ValueError):
        raise InterfaceError(
            'what is expected is a number, a pair, "last", "models", or a DataFrame or Arrow table'
        ) from None


def _write_option(key: str, value: Any) -> str:  # noqa: ANN401  whatever OPEN CHECKS takes
    if key in ("models", "scales", "training"):
        words = value if isinstance(value, str) else ", ".join(map(str, value))
        return "'" + words.replace("'", "''") + "'"
    return value if isinstance(value, str) else _write(value)


def _write(number: Number) -> str:
    """Write a number exactly: as a decimal, or as a division of whole numbers."""
    value: Fraction = exact(number)
    digits = next((n for n in range(_DIGITS) if not (value * 10**n).denominator - 1), None)
    sign = "-" if value < 0 else ""
    if digits is None:
        return f"{sign}{abs(value.numerator)}/{value.denominator}"
    text = f"{abs(value.numerator) * 10**digits // value.denominator:0{digits + 1}d}"
    return sign + (f"{text[:-digits]}.{text[-digits:]}" if digits else text)


_DIGITS = 30
"""How many decimals a number has that is written as one."""


def _last_column(sql: str, parameters: Parameters) -> str:
    parsed = parse(sql, parameters)
    if not isinstance(parsed, Query):
        raise ProgrammingError("a check is of a SELECT")
    names = parsed.tree.named_selects
    if not names:
        raise ProgrammingError("a check is of a SELECT with one number")
    return str(names[-1])


@dataclass(frozen=True, slots=True)
class Submitted(CheckedRows):
    """The answer of one submission to a board."""

    @property
    def new_best(self) -> bool:
        """Whether the score is the best until now."""
        return bool(self._row["checked"] == "new best")

    @property
    def score(self) -> float | None:
        """The score, with noise; None if it is no improvement."""
        found = self._row[self.table.column_names[0]]
        return None if found is None else float(found)

    @property
    def edge(self) -> float:
        """What it was compared with: the best until then, better by the step."""
        return float(self._row["expected"])

    @property
    def _row(self) -> dict[str, Any]:
        found: dict[str, Any] = self.table.to_pylist()[0]
        return found


class NamedBoard(NamedStream):
    """A board of an analyst, by name; it lasts until it is closed, in any session."""

    def submit(self, sql: str, parameters: Parameters = None) -> Submitted:
        """Compare the score of a SELECT of one AVG with the best; an improvement is answered.

        >>> board.submit("SELECT AVG(CASE WHEN age > 60 = ill THEN 0 ELSE 1 END) FROM rows")  # doctest: +SKIP
        """
        found = self._session.run(f"CHECK {self.name} {sql.rstrip().rstrip(';')}", parameters)
        return Submitted(found.table, found.notices)

    @property
    def best(self) -> float:
        """The best score until now: an answer, or that with which the board began."""
        rows = self._session.run(f"SHOW STREAM {self.name}").table.to_pylist()
        return next(float(row["value"]) for row in rows if row["property"] == "best")


class NamedHoldout(NamedStream):
    """A holdout of an analyst, by name: whether scores on training rows stand on the rows of a table."""

    def __init__(self, session: AnalystSession, name: str, table: str | None, where: str | None) -> None:
        super().__init__(session, name)
        self._table, self._where = table, where

    def score(
        self,
        prediction: str,
        *,
        label: str,
        train: Number,
        tolerance: Number = 0.03,
        parameters: Parameters = None,
    ) -> CheckedRows:
        """Check the share of rows in which a prediction is the label against that of the training rows.

        Parameters
        ----------
        prediction, label
            SQL expressions over the columns of the table, "0.03 * age + 1.2 * bmi > 42" and "readmitted".
        train
            The share on the training rows.
        tolerance
            How far the share may be from it.
        parameters
            Values of the expressions' parameters.
        """
        if self._table is None:
            raise InterfaceError(f'score needs the table: con.holdout("{self.name}", table="..")')
        condition = "" if self._where is None else f" WHERE {self._where}"
        text = (
            f"SELECT AVG(CASE WHEN ({prediction}) = ({label}) THEN 1 ELSE 0 END) AS score"
            f" FROM {write_name(self._table)}{condition}"
        )
        return self.check(text, train, tolerance=tolerance, parameters=parameters)


def open_board(session: AnalystSession, name: str, given: Mapping[str, Number | str]) -> NamedBoard:
    """Open a board and return it; without options, return one that is open."""
    found = NamedBoard(session, name)
    _open(found, session, "BOARD", given)
    return found


def open_holdout(
    session: AnalystSession,
    name: str,
    given: Mapping[str, Number | str],
    table: str | None,
    where: str | None,
) -> NamedHoldout:
    """Open a holdout and return it; without options, return one that is open."""
    found = NamedHoldout(session, name, table, where)
    _open(found, session, "HOLDOUT", given)
    return found


def _open(found: NamedStream, session: AnalystSession, what: str, given: Mapping[str, Number | str]) -> None:
    if given:
        session.run(f"OPEN {what} {found.name} OPTIONS ({write_options(given)})")
    else:
        found.facts  # noqa: B018  it raises if there is none
