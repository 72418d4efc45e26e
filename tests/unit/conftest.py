"""A small session for the front ends' tests: DuckDB for what is public, made-up releases for the rest."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pytest

from dpsql import errors
from dpsql.composition.prepared import PreparedCommand
from dpsql.kernel.loss import Charge, exact
from dpsql.language import Set, StatementText, copy_parameters, copy_text
from dpsql.release import Release
from dpsql.session_api import Turn

NAMES = ["Essential hypertension", "Type 2 diabetes", "Low back pain", "Asthma", "Ménière's disease"]
COUNTS = [1234.4, 987.1, 803.0, 212.6, 20.3]


def top_k(k: int = 3, epsilon: Fraction = Fraction(1), half: float = 40.3, statement: str = "") -> Release:
    """A release as a top-k with a measuring phase gives it."""
    names, counts = NAMES[:k], COUNTS[:k]
    rows = pa.table({"diagnosis": names, "n": counts})
    gaps = [a - b for a, b in itertools.pairwise(counts)] + [None]
    table = (
        rows.append_column("gap", pa.array(gaps, pa.float64()))
        .append_column("n_stddev", pa.array([half / 1.96] * k))
        .append_column("n_low", pa.array([n - half for n in counts]))
        .append_column("n_high", pa.array([n + half for n in counts]))
    )
    return Release(
        rows=rows,
        table=table,
        keys=("diagnosis",),
        counts=("n",),
        selection="top-k",
        mechanism="noisy top-k with gap",
        guarantee="epsilon-differential privacy for each patient",
        charge=Charge(epsilon),
        scale=10.0,
        statement=statement,
    )


@dataclass(frozen=True)
class Budget:
    total: Charge
    spent: Charge
    remaining: Charge
    by_parts: bool = False
    scopes: tuple[object, ...] = ()


@dataclass(frozen=True)
class Prepared:
    text: str
    parameters: object
    private: bool
    price: Charge
    setting: bool = False


@dataclass(frozen=True)
class StatementResult:
    table: pa.Table
    release: Release | None
    notices: tuple[str, ...] = ()


_NUMBERS = itertools.count()


class FakeSession:
    """The seam's API. Private statements cost their epsilon; the word BOOM fails as the engine would."""

    def __init__(self, total: str = "10") -> None:
        self.total = Charge(exact(total))
        self.spent = Charge()
        self.ran: list[str] = []
        self.defaults = ""
        self.policy = SimpleNamespace(analysts={"*": None})
        self.max_epsilon_per_query: Fraction | None = None
        self.closed = self.cancelled = False
        self.turn = Turn("connection")
        self.messages: tuple[str, ...] = ()

    @cached_property
    def engine(self) -> duckdb.DuckDBPyConnection:
        """The database of what is public, made by the first statement that is; all are of one instance."""
        made, name = duckdb.cursor(), f"fake_{next(_NUMBERS)}"
        made.execute(f"ATTACH ':memory:' AS {name}; USE {name}")
        return made

    def check(self) -> None:
        if self.closed:
            raise errors.InterfaceError("the connection is closed")

    def together(self, statements: object) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def pricing(self) -> Iterator[None]:
        before = self.defaults
        yield
        self.defaults = before

    def prepare(self, text: str, parameters: object = None) -> Prepared | PreparedCommand:
        self.check()
        text, parameters = copy_text(text), copy_parameters(parameters)
        if "SELCT" in text:
            line = text[: text.index("SELCT")].count("\n") + 1
            raise errors.QuerySyntaxError(
                "I do not know SELCT", hint="write SELECT", line=line, col=1, source="SELCT 1"
            )
        if "secret" in text:
            raise errors.QueryRefused("this shows single patients", hint="count them")
        if text.upper().startswith("SET DP_"):
            return PreparedCommand(text, Set(StatementText(text), "epsilon", None))
        private = "DIFFERENTIAL_PRIVACY" in text
        found = re.search(r"epsilon = ([0-9.]+)", text) or re.search("= ([0-9.]+)", self.defaults)
        price = Charge(exact(found[1] if found else "1")) if private else Charge()
        return Prepared(text, parameters, private, price)

    def execute(self, prepared: Prepared | PreparedCommand, *, most: Charge | None = None) -> StatementResult:
        self.ran.append(prepared.text)
        if "BUG" in prepared.text:
            raise KeyError("patient 4711")
        if "INTERRUPT" in prepared.text:
            raise KeyboardInterrupt
        if isinstance(prepared, PreparedCommand):
            self.defaults = prepared.text
            return StatementResult(pa.table({}), None)
        if not prepared.private:
            return self._public(prepared)
        remaining = self.total - self.spent
        if not prepared.price.fits(remaining):
            raise errors.BudgetExceeded(
                "the budget does not pay for it",
                (prepared.price.epsilon, prepared.price.delta),
                (remaining.epsilon, remaining.delta),
                "policy",
            )
        self.spent += prepared.price
        if "BOOM" in prepared.text:
            raise errors.OperationalError("the engine failed")
        release = top_k(epsilon=prepared.price.epsilon, statement=prepared.text)
        return StatementResult(release.rows, release)

    def _public(self, prepared: Prepared) -> StatementResult:
        relation = self.engine.sql(prepared.text, params=prepared.parameters or None)
        writes = re.match(r"\s*(CREATE|INSERT|DROP)", prepared.text, re.IGNORECASE)
        return StatementResult(
            pa.table({}) if relation is None or writes else relation.to_arrow_table(), None
        )

    def run(self, text: str, parameters: object = None) -> StatementResult:
        return self.execute(self.prepare(text, parameters))

    def budget(self) -> Budget:
        return Budget(self.total, self.spent, self.total - self.spent)

    def budget_by_parts(self) -> Budget:
        return self.budget()

    def cancel(self) -> None:
        self.cancelled = True

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def fakes() -> SimpleNamespace:
    """What the front ends' tests build their situations from."""
    return SimpleNamespace(Session=FakeSession, Budget=Budget, top_k=top_k)


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()
