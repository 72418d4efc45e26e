"""The end-to-end audit: runs a statement thousands of times on the data and on the neighbouring data."""

from __future__ import annotations

import shutil
import tempfile
import threading
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsql.cli.audit.neighbour import neighbour
from dpsql.errors import ProgrammingError
from dpsql.language import Set
from dpsql.prepared import PreparedCommand, PreparedPrivate
from dpsql.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from dpsql.audit import Verdict
    from dpsql.cli.sources import Piece
    from dpsql.policy import Policy
    from dpsql.session import StatementResult

__all__ = ["Audited", "audit_statement", "private_statements"]

_DERIVED = ("_stddev", "_low", "_high", "p_value")
"""Endings of the names of columns that are functions of other columns."""


@dataclass(frozen=True, slots=True)
class Audited:
    """A private statement, and the settings of its session that come before it."""

    text: str
    where: str
    before: tuple[str, ...]


def private_statements(policy: Policy, pieces: Sequence[Piece]) -> list[Audited]:
    """Return the private ones of some statements; raises `Error` if any statement is wrong.

    Settings (SET) apply to the statements after them; other public statements are skipped.
    """
    found: list[Audited] = []
    before: tuple[str, ...] = ()
    with tempfile.TemporaryDirectory(prefix="dpsql-audit-") as folder:
        session = Session(_scratch(policy, Path(folder) / "ledger.sqlite"), analyst="audit")
        try:
            for piece in pieces:
                prepared = session.prepare(piece.text)
                match prepared:
                    case PreparedCommand(command=Set()):
                        session.execute(prepared)
                        before = (*before, piece.text)
                    case PreparedPrivate():
                        found.append(Audited(piece.text, piece.where, before))
        finally:
            session.close()
    return found


def _scratch(policy: Policy, ledger: Path) -> Policy:
    """Return the policy with a separate ledger and a budget that is never used up."""
    budget = replace(policy.budget, epsilon=_ENDLESS, delta=_DELTA, ledger=ledger)
    return replace(policy, budget=budget, analysts={}, share_releases=False)


_ENDLESS, _DELTA = Fraction(10**12), Fraction(999, 1000)


@dataclass(eq=False, slots=True)
class _Side:
    """One of the two neighbouring databases, with a session whose budget is never used up."""

    policy: Policy
    folder: Path
    name: str
    asked: Audited
    on_progress: Callable[[int], None]
    lock: threading.Lock
    session: Session | None = None
    prepared: PreparedPrivate | None = None
    left: int = 0
    ledgers: int = 0

    def __str__(self) -> str:
        return self.name

    def open(self) -> PreparedPrivate:
        """Open a session on a new ledger, and prepare the statement with reuse switched off."""
        self.close()
        ledger = self.folder / f"ledger{self.ledgers}.sqlite"
        self.ledgers += 1
        session = Session(_scratch(self.policy, ledger), analyst="audit")
        self.session = session
        for text in self.asked.before:
            session.run(text)
        prepared = session.prepare(self.asked.text)
        if not isinstance(prepared, PreparedPrivate):
            raise ProgrammingError("only a private statement can be audited")
        plan = replace(prepared.plan, options=replace(prepared.plan.options, fresh=True))
        self.prepared = replace(prepared, counting=replace(prepared.counting, plan=plan))
        delta = prepared.price.delta
        self.left = 10**9 if not delta else max(1, int(_DELTA / delta))
        return self.prepared

    def run(self) -> StatementResult:
        """Run the statement once."""
        if self.left <= 0 or self.prepared is None or self.session is None:
            self.open()
        self.left -= 1
        if self.session is None or self.prepared is None:
            raise ProgrammingError("the statement is not prepared")
        answer = self.session.execute(self.prepared)
        self.on_progress(1)
        return answer

    def close(self) -> None:
        """Close the session."""
        session, self.session = self.session, None
        if session is not None:
            session.close()


def audit_statement(
    policy: Policy,
    asked: Audited,
    *,
    unit: str | None,
    trials: int,
    confidence: float,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Verdict:
    """Audit one private statement end to end.

    Language, analysis, price, ledger, engine, mechanism and release are those of every statement; the
    ledger is a scratch one, and nothing is charged to the policy's own. The released rows, all that is
    free beside them, and the charge are what is tested.

    Parameters
    ----------
    policy
        A policy over a small database: the statement runs thousands of times.
    asked
        The statement.
    unit
        Which privacy unit to remove; None for the one with the most rows.
    trials, confidence
        As in `dpsql.audit.detect`; the search makes half as many runs again.
    on_progress
        Called with the number of runs just made.

    Raises
    ------
    dpsql.errors.Error
        Whatever is wrong with the statement; `ProgrammingError` if it is not private or the unit unknown.
    """
    from dpsql import audit

    folder = Path(tempfile.mkdtemp(prefix="dpsql-audit-"))
    sides: list[_Side] = []
    try:
        first = _Side(policy, folder / "all", "the data", asked, on_progress, threading.Lock())
        sides.append(first)
        first.folder.mkdir()
        prepared = first.open()
        without = neighbour(policy, prepared.plan.compiled.tables, unit, folder)
        name = f"the data without {without.removed}"
        second = _Side(without.policy, folder / "without", name, asked, on_progress, threading.Lock())
        sides.append(second)
        second.folder.mkdir()
        second.open()
        return audit.detect(
            _run,
            prepared.price.epsilon,
            delta=prepared.price.delta,
            inputs=[audit.Pair(f"{without.removed} removed, {without.rows} rows", first, second)],
            trials=trials,
            confidence=confidence,
            name=asked.where,
        )
    finally:
        for side in sides:
            side.close()
        shutil.rmtree(folder, ignore_errors=True)


def _run(side: _Side, trials: int, _: object) -> dict[str, Any]:
    """Run the statement `trials` times and return arrays of the released rows, by position."""
    with side.lock:
        return _laid_out([side.run() for _ in range(trials)])


def _laid_out(answers: list[StatementResult]) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa

    from dpsql.audit import CHARGE

    tables: list[pa.Table] = []
    charges = np.zeros(len(answers))
    for i, answer in enumerate(answers):
        if answer.release is None:
            raise ProgrammingError("the statement releases nothing")
        tables.append(answer.release.table)
        charges[i] = float(answer.release.charge.epsilon)
    height = max((table.num_rows for table in tables), default=0)
    parts: dict[str, Any] = {"rows": np.array([table.num_rows for table in tables]), CHARGE: charges}
    for place, name in enumerate(tables[0].column_names if tables else []):
        if name.endswith(_DERIVED):
            continue
        cells = [table.column(place).to_pylist() for table in tables]
        if _numeric(tables[0], place):
            parts[name] = _values(cells, height)
        else:
            labels = np.full((len(tables), height), "", dtype=object)
            for i, column in enumerate(cells):
                labels[i, : len(column)] = ["NULL" if cell is None else str(cell) for cell in column]
            parts[name] = labels.astype(np.str_)
            if pa.types.is_integer(tables[0].schema.field(place).type):
                # A noisy count that is rounded is whole: intervals and sums are about numbers.
                parts[f"{name} as a number"] = _values(cells, height)
    return parts


def _values(cells: list[list[Any]], height: int) -> NDArray[np.float64]:
    """Return numbers as an array, one row per run; NaN for NULL and for missing rows."""
    import numpy as np

    values = np.full((len(cells), height), np.nan)
    for i, column in enumerate(cells):
        values[i, : len(column)] = [np.nan if cell is None else float(cell) for cell in column]
    return values


def _numeric(table: pa.Table, place: int) -> bool:
    """Whether a column holds noisy numbers; whole numbers, which can be keys, are labels."""
    import pyarrow as pa

    kind = table.schema.field(place).type
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))
