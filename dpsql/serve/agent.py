"""Tools by which a program, such as an agent, prices and asks statements; what it is answered is plain data.

A refusal is a result with `refused` and `hint`, never an exception. Of an unexpected error only the type is
told: its text could hold private values.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from dpsql.errors import Error, ProgrammingError, QueryRefused, QuerySyntaxError
from dpsql.places import distinct, renamed_columns
from dpsql.privacy import Charge
from dpsql.release import told
from dpsql.render.figures import charged, left
from dpsql.serve.confirm import LIFETIME, Question, SpendingRule
from dpsql.serve.public_facts import described_policy, described_tables, records

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.ledger import Budget
    from dpsql.release import Release
    from dpsql.serve.backends import Asked, Backend
    from dpsql.sessions import StatementResult

Facts = dict[str, Any]
"""What a program is answered: an object of JSON."""

MOST_ROWS = 1_000
"""The most rows in one result; `release` gives the others."""

_LEFT_OUT = ("considered", "compiled_sql", "outer_sql", "epsilon", "delta", "budget_left")
"""Fields of EXPLAIN that are said otherwise, or that a program has no use for."""
_ERRORS = (
    "predicted_stddev",
    "half_width",
    "tells_apart",
    "rank_error",
    "units_reaching",
    "numbers",
    "error",
)
"""Fields of EXPLAIN that say how far an answer may be off."""


_Tool = Callable[..., Awaitable[Facts]]


def _refusing(tool: _Tool) -> _Tool:
    """Return a tool that returns its errors as results."""

    @functools.wraps(tool)
    async def answered(*args: Any, **named: Any) -> Facts:  # noqa: ANN401  those of the tool
        try:
            return await tool(*args, **named)
        except Exception as problem:  # noqa: BLE001  its text may hold private values
            return refusal(problem)

    return answered


def refusal(problem: Exception) -> Facts:
    """Return an error as a result."""
    if not isinstance(problem, Error):
        return {
            "refused": f"internal error ({type(problem).__name__}): this is a bug of dpsql",
            "hint": "report it to the owner of the data; nothing more is shown, it could be private",
        }
    if not isinstance(problem, (QueryRefused, QuerySyntaxError)):
        message, _, hint = str(problem).partition("\nHint: ")
        return {"refused": message, **({"hint": hint} if hint else {})}
    found: list[Facts] = []
    for obstacle in problem.obstacles:
        facts = {
            "refused": obstacle.message,
            "hint": obstacle.hint,
            "line": obstacle.line,
            "column": obstacle.col,
        }
        found.append({name: value for name, value in facts.items() if value is not None})
    result = found[0] | ({"others": found[1:]} if found[1:] else {})
    return result | ({"would_be_accepted": problem.rewrite} if problem.rewrite is not None else {})


class Tools:
    """The tools of one analyst's program."""

    def __init__(self, backend: Backend, rule: SpendingRule) -> None:
        self._backend = backend
        self.rule = rule

    async def question(self, sql: str) -> tuple[Asked, Question]:
        """Price a statement; raises `Error` if it is refused."""
        asked = await self._backend.price(sql)
        if asked.setting:
            raise ProgrammingError(
                "settings do not hold from one call to the next\n"
                "Hint: write them in it: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) .."
            )
        return asked, Question(self._backend.analyst, asked.key, asked.price)

    async def answered(self, sql: str, confirm: str | None) -> StatementResult:
        """Run a statement; above the free price only with the confirmation of its price. Raises `Error`."""
        asked, question = await self.question(sql)
        most = self.rule.agreed(question, confirm) if asked.private else Charge()
        return await self._backend.run(asked, most)

    @_refusing
    async def tables(self) -> Facts:
        """List tables, their columns, units and public domains."""
        return {"tables": await described_tables(self._backend)}

    @_refusing
    async def policy(self) -> Facts:
        """Return what the owner's policy says to analysts."""
        return await described_policy(self._backend)

    @_refusing
    async def explain(self, sql: str) -> Facts:
        """Return the price of a statement, the error to expect and how it is read; charge nothing."""
        asked, question = await self.question(sql)
        table = (await self._backend.free(f"EXPLAIN (FORMAT JSON)\n{sql}")).table
        facts = json.loads(table.column(0)[0].as_py())
        confirm = self.rule.offer(question)
        return {
            **amounts(asked.price),
            "left": left_of(await self._backend.budget()),
            **({"confirm": confirm, "confirm_holds_seconds": LIFETIME} if confirm is not None else {}),
            "expected_error": {name: facts[name] for name in _ERRORS if facts.get(name) is not None},
            "reading": {
                name: value
                for name, value in facts.items()
                if value is not None and name not in (*_ERRORS, *_LEFT_OUT)
            },
        }

    @_refusing
    async def ask(self, sql: str, confirm: str | None = None) -> Facts:
        """Run a statement; above the free price only with the confirmation of its price."""
        result = await self.answered(sql, confirm)
        if result.release is None:
            return {**_rows(result.table, 0), "epsilon": 0.0}
        with told(result.release):
            facts = _released(result.release, 0)
        return {**facts, "left": left_of(await self._backend.budget())}

    @_refusing
    async def budget(self) -> Facts:
        """Return what may be spent, what is spent and what is left."""
        return budget_facts(await self._backend.budget())

    @_refusing
    async def releases(self) -> Facts:
        """List the analyst's own releases, the newest last."""
        table = (await self._backend.free("SHOW RELEASES")).table
        return {"releases": records(table.slice(max(0, table.num_rows - MOST_ROWS)))}

    @_refusing
    async def release(self, number: int, first_row: int = 0) -> Facts:
        """Return an earlier answer again, free of charge."""
        return _released(await self._backend.release(number), max(0, first_row))


def budget_facts(budget: Budget) -> Facts:
    """Return what may be spent, what is spent and what is left, as numbers."""
    return {
        "total": amounts(budget.total, up=False),
        "spent": amounts(budget.spent),
        "left": left_of(budget),
    }


def _released(release: Release, first_row: int) -> Facts:
    return {**_rows(release.table, first_row), **release_facts(release)}


def release_facts(release: Release) -> Facts:
    """Return what a release says beside its rows, and what it cost now."""
    reused = None if release.reused is None else release.reused.isoformat(" ", "minutes")
    facts = {
        "release": release.number,
        "receipt": release.receipt or None,
        "statement": release.statement,
        "mechanism": release.mechanism,
        "reused_from": reused,
        "charged_again": release.charged_again or None,
        "confidence": float(release.confidence),
        "warnings": list(release.warnings) or None,
        "assumed": [str(each) for each in release.assumed] or None,
        "line": release.line or None,
        "null_group": release.null_group or None,
        "outside": None
        if (out := release.outside) is None
        else {"value": out.value, "low": out.low, "high": out.high},
    }
    cost = Charge() if release.reused is not None else release.charge
    return {**amounts(cost), **{name: value for name, value in facts.items() if value is not None}}


def _rows(table: pa.Table, first: int) -> Facts:
    """Return rows as objects; those of a release have its intervals beside each number.

    An object has a name once: of two columns `n` the second one is `n_1`, which `renamed` says.
    """
    part = table.slice(first, MOST_ROWS)
    found: Facts = {"columns": distinct(table.column_names), "rows": records(part)}
    if renamed := renamed_columns(table.column_names):
        found["renamed"] = [f"{new} is another column called {old}" for old, new in renamed]
    if first or part.num_rows < table.num_rows:
        found |= {"first_row": first, "rows_in_all": table.num_rows}
    return found


def amounts(charge: Charge, *, up: bool = True) -> Facts:
    """Return amounts as numbers, rounded against the analyst."""
    shown = charged if up else left
    return {"epsilon": float(shown(charge.epsilon)), "delta": float(shown(charge.delta))}


def left_of(budget: Budget) -> Facts:
    """Return what is left of a budget, rounded down."""
    return amounts(budget.remaining, up=False)
