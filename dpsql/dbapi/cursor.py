"""PEP 249's cursor: runs statements, returns rows, Arrow data and the release."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, Self

from dpsql.dbapi.rows import ResultRows, Row, data_frame
from dpsql.errors import DataError, InterfaceError, NotSupportedError, PriceNotAgreed, ProgrammingError
from dpsql.places import list_renamed, make_distinct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from fractions import Fraction

    import pyarrow as pa

    from dpsql.dbapi.rows import ResultColumn
    from dpsql.kernel.loss import Number
    from dpsql.language import Parameters
    from dpsql.ledger import Budget
    from dpsql.release import Release
    from dpsql.session_api import AnalystSession, StatementResult


def read_epsilon(amount: Number) -> Fraction:
    """Read the largest epsilon that a statement may cost; raises `ProgrammingError` if it is none."""
    from dpsql.kernel.loss import exact  # noqa: PLC0415  imported where somebody sets a limit

    try:
        epsilon = exact(amount)
    except ValueError:
        raise ProgrammingError(f"a limit is an epsilon, such as 0.5, not {amount!r}") from None
    if epsilon < 0:
        raise ProgrammingError(f"a limit is an epsilon of at least 0, not {amount!r}")
    return epsilon


class _Connection(Protocol):
    """The methods of `Connection`, whose module imports this one."""

    def cursor(self) -> Cursor: ...
    def execute(self, operation: str, parameters: Parameters = None) -> Cursor: ...
    def release(self, number: int) -> Release: ...
    def budget(self) -> Budget: ...
    def cancel(self) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...


class Cursor:
    """Runs statements of one connection; `Connection.cursor()` makes it.

    One `execute` is one charge. Fetching, in whatever form and however often, costs nothing and never
    runs the statement again.

    Attributes
    ----------
    connection
        The connection it belongs to.
    arraysize
        How many rows `fetchmany()` returns by default.
    lastrowid
        Always None: dpsql inserts nothing.
    """

    lastrowid = None

    def __init__(self, connection: _Connection, session: AnalystSession) -> None:
        self.connection = connection
        self.arraysize = 1
        self._session = session
        self._rows: ResultRows | None = None
        self._release: Release | None = None
        self._closed = False

    # -- the result

    @property
    def description(self) -> tuple[ResultColumn, ...] | None:
        """The result's columns, seven fields each (PEP 249); None before there is a result."""
        return None if self._rows is None else self._rows.columns

    @property
    def rowcount(self) -> int:
        """Number of rows of the result; -1 before there is one."""
        return -1 if self._rows is None else self._rows.count

    @property
    def rownumber(self) -> int | None:
        """Index of the next row to be fetched; None before there is a result."""
        return None if self._rows is None else self._rows.position

    @property
    def release(self) -> Release | None:
        """The release of a private statement; None for a public statement.

        If the statement computes from several releases, its `parts` are these.
        """
        return self._release

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases that the statement is made of, in the order in which they were written."""
        return () if self._release is None else self._release.parts or (self._release,)

    # -- running

    def execute(self, operation: str, parameters: Parameters = None) -> Self:
        """Run one statement and return this cursor.

        Parameters
        ----------
        operation
            One statement. `?` and `$name` markers stand for values, also for epsilon, k and thresholds.
        parameters
            A sequence for `?`, a mapping for `$name`.

        Raises
        ------
        QuerySyntaxError, QueryRefused
            It does not parse, or cannot be proved private; nothing was charged.
        BudgetExceeded
            It does not fit; nothing was charged.
        OperationalError
            The engine or the ledger failed. A private statement that failed keeps its charge.
        """
        self._begin()
        self._take(self._session.run(operation, parameters))
        return self

    def execute_within(self, operation: str, parameters: Parameters, at_most: Number) -> Self:
        """Run one statement that is charged no more than this epsilon, and return this cursor.

        Raises `PriceNotAgreed` if it would cost more; nothing was charged.
        """
        # Imported here: few statements come with a limit.
        from dpsql.kernel.loss import Charge  # noqa: PLC0415

        self._begin()
        epsilon = read_epsilon(at_most)
        prepared = self._session.prepare(operation, parameters)
        if prepared.price.epsilon > epsilon:
            from dpsql.render.figures import show_left, show_spent  # noqa: PLC0415

            raise PriceNotAgreed(
                f"the statement costs epsilon {show_spent(prepared.price.epsilon)} and may cost at most "
                f"{show_left(epsilon)}; nothing was charged"
            )
        self._take(self._session.execute(prepared, most=Charge(epsilon, prepared.price.delta)))
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Self:
        """Run one public statement for each set of parameters; the last one's result can be fetched.

        A private statement is refused: it would spend the budget once for each set. Nothing runs before
        all sets were checked.
        """
        self._begin()
        prepared = [self._session.prepare(operation, parameters) for parameters in list(seq_of_parameters)]
        if any(one.private for one in prepared):
            raise NotSupportedError(
                "executemany of a private statement would charge the budget once for each set of parameters; "
                "call execute for each one you want to pay for"
            )
        for one in prepared:
            self._take(self._session.execute(one))
        return self

    # -- fetching

    def fetchone(self) -> Row | None:
        """Return the next row as a tuple, None when there is no more."""
        rows = self._result()
        with self._tell_opening():
            return rows.one()

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return the next `size` rows (default `arraysize`), fewer at the end."""
        wanted = self.arraysize if size is None else size
        if wanted < 0:
            raise InterfaceError("fetchmany takes a number of rows that is not negative")
        rows = self._result()
        with self._tell_opening():
            return rows.many(wanted)

    def fetchall(self) -> list[Row]:
        """Return all rows that were not fetched yet."""
        rows = self._result()
        with self._tell_opening():
            return rows.many(rows.count)

    def fetch_arrow_table(self) -> pa.Table:
        """Return the rows that were not fetched yet as a `pyarrow.Table`."""
        return self._result().rest()

    def fetch_record_batch(self, rows_per_batch: int = 1_000_000) -> pa.RecordBatchReader:
        """Return the rows that were not fetched yet as a `pyarrow.RecordBatchReader`."""
        if rows_per_batch < 1:
            raise InterfaceError("rows_per_batch is a positive number")
        return self._result().rest().to_reader(max_chunksize=rows_per_batch)

    def arrow(self) -> pa.Table:
        """Return the whole result as a `pyarrow.Table`, rows fetched before as well."""
        return self._result().table

    def df(self) -> Any:  # noqa: ANN401  pandas has no types
        """Return the whole result as a `pandas.DataFrame`, whose columns may have equal names.

        pandas must be installed.
        """
        table = self._result().table
        with self._tell_opening(), _convert_errors("pandas"):
            return data_frame(table)

    def pl(self) -> Any:  # noqa: ANN401  polars need not be installed
        """Return the whole result as a `polars.DataFrame`; polars must be installed.

        polars has no two columns of one name: the second column `n` is called `n_1`, and a `UserWarning` says
        so.
        """
        import polars  # noqa: PLC0415

        table = self._result().table
        for old, new in list_renamed(table.column_names):
            told = f"polars has no two columns of one name: another {old!r} is called {new!r}"
            warnings.warn(told, UserWarning, stacklevel=2)
        with self._tell_opening(), _convert_errors("polars"):
            return polars.DataFrame(table.rename_columns(make_distinct(table.column_names)))

    def show(self, width: int | None = None) -> None:
        """Print the whole result as the command line does: numbers with their ±, bars, the price.

        Parameters
        ----------
        width
            Characters of a line, 0 for as many as it takes; by default those of the terminal, else 120.
        """
        # Imported here: only those who print draw.
        from dpsql.render.table import show  # noqa: PLC0415

        table = self._result().table
        with self._tell_opening():
            show(table, self._release, self._session.budget().total, width)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the whole result to pandas, polars, DuckDB, ... (Arrow's PyCapsule interface).

        Rows fetched before are part of it, and it may be read any number of times.
        """
        return self._result().table.__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Self:
        self._result()
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def __repr__(self) -> str:
        if self._release is not None:
            return repr(self._release)
        state = "closed" if self._closed else "no result" if self._rows is None else f"{self.rowcount} rows"
        return f"<dpsql cursor: {state}>"

    def _repr_html_(self) -> str | None:
        """Show an answer in a notebook: a private one with its noise, gaps and bars."""
        if self._closed or self._rows is None:
            return None
        # Imported here: only notebooks draw.
        from dpsql.render.html import release_html, rows_html  # noqa: PLC0415

        with self._tell_opening():
            if self._release is None:
                return rows_html(self._rows.table)
            return release_html(self._release, self._session.budget().total)

    # -- PEP 249's hints, which dpsql has no use for

    def setinputsizes(self, sizes: object) -> None:
        """Accept PEP 249's hint on parameter sizes; it changes nothing."""
        self._check_open()

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Accept PEP 249's hint on column sizes; it changes nothing."""
        self._check_open()

    # -- the end

    def close(self) -> None:
        """Drop the result and close the cursor. Closing twice is harmless."""
        self._forget()
        self._closed = True

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _begin(self) -> None:
        # A statement that fails leaves no result, not its predecessor's.
        self._check_open()
        self._forget()

    def _take(self, answer: StatementResult) -> None:
        # A statement without a result (SET) answers a table without columns.
        self._rows = ResultRows(answer.table) if answer.table.num_columns else None
        self._release = answer.release

    def _forget(self) -> None:
        self._rows = None
        self._release = None

    def _tell_opening(self) -> AbstractContextManager[None]:
        """Let what fails in a block say how the stored answer is opened."""
        # Imported here: there is an answer, so it is loaded.
        from dpsql.release import tell_opening  # noqa: PLC0415

        return tell_opening(self._release)

    def _result(self) -> ResultRows:
        self._check_open()
        if self._rows is None:
            raise InterfaceError("there is nothing to fetch: execute a statement with a result first")
        return self._rows

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self._session.check()


@contextmanager
def _convert_errors(package: str) -> Iterator[None]:
    """Raise `DataError` for an error of another package that cannot hold a value: its text quotes it."""
    try:
        yield
    except ImportError:
        raise
    except Exception as problem:  # noqa: BLE001  each package has errors of its own
        raise DataError(
            f"a value of this result has no form in {package} ({type(problem).__name__}); "
            "use fetch_arrow_table() or cast it to VARCHAR"
        ) from None
