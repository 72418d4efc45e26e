"""`NamedBoard` and `NamedHoldout` in Python: scores of models, which write the statements that SQL has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsql.dbapi.named_streams import CheckedRows, NamedStream, write_options
from dpsql.errors import InterfaceError
from dpsql.language import write_name
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpsql.kernel.loss import Number
    from dpsql.language import Parameters
    from dpsql.session_api import AnalystSession


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
