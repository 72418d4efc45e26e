"""Tools by which a program, such as an agent, prices and asks statements; what it is answered is plain data.

A refusal is a result with `refused` and `hint`, never an exception.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from dpsql.places import distinct, renamed_columns
from dpsql.release import told
from dpsql.serve import json_facts
from dpsql.serve.confirm import ConfirmedStatements
from dpsql.serve.json_facts import MOST_ROWS, Facts, records

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.release import Release

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


def _return_errors(tool: _Tool) -> _Tool:
    """Return a tool that returns its errors as results."""

    @functools.wraps(tool)
    async def call(*args: Any, **named: Any) -> Facts:  # noqa: ANN401  those of the tool
        try:
            return await tool(*args, **named)
        except Exception as problem:  # noqa: BLE001  its text may hold private values
            return json_facts.refusal(problem)

    return call


class Tools(ConfirmedStatements):
    """The tools of one analyst's program."""

    @_return_errors
    async def tables(self) -> Facts:
        """List tables, their columns, units and public domains."""
        return {"tables": await json_facts.describe_tables(self.service)}

    @_return_errors
    async def policy(self) -> Facts:
        """Return what the owner's policy says to analysts."""
        return await json_facts.describe_policy(self.service)

    @_return_errors
    async def explain(self, sql: str) -> Facts:
        """Return the price of a statement, the error to expect and how it is read; charge nothing."""
        price, said, _ = await json_facts.explain(self, sql)
        said.pop("considered", None)  # a program has no use for it
        errors = {name: said.pop(name) for name in _ERRORS if name in said}
        return {**price, "expected_error": errors, "reading": said}

    @_return_errors
    async def ask(self, sql: str, confirm: str | None = None) -> Facts:
        """Run a statement; above the free price only with the confirmation of its price."""
        result = await self.run(sql, confirm)
        if result.release is None:
            return {**_rows_facts(result.table, 0), "epsilon": 0.0}
        with told(result.release):
            facts = released_facts(result.release, 0)
        return {**facts, "left": json_facts.left_of(await self.service.budget())}

    @_return_errors
    async def budget(self) -> Facts:
        """Return what may be spent, what is spent and what is left."""
        return json_facts.budget_facts(await self.service.budget())

    @_return_errors
    async def releases(self) -> Facts:
        """List the analyst's own releases, the newest last."""
        return {"releases": records(await json_facts.latest_releases(self.service))}

    @_return_errors
    async def release(self, number: int, first_row: int = 0) -> Facts:
        """Return an earlier answer again, free of charge."""
        return released_facts(await self.service.release(number), max(0, first_row))


def released_facts(release: Release, first: int) -> Facts:
    """Return a release with its rows from one on."""
    return {**_rows_facts(release.table, first), **json_facts.release_facts(release)}


def _rows_facts(table: pa.Table, first: int) -> Facts:
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
