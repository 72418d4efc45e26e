"""The tools and resources of the Model Context Protocol, by which a program prices and asks statements.

The official SDK does the protocol. ``json_facts`` says what is answered, ``statement_service`` what may be
spent without a confirmation. A refusal is a result with `refused` and `hint`, never an exception.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from dpsql import __version__
from dpsql.login import draw_key
from dpsql.places import list_renamed, make_distinct
from dpsql.release import tell_opening
from dpsql.render.grid import escape_controls
from dpsql.render.readable import price
from dpsql.serve import json_facts
from dpsql.serve.json_facts import MOST_ROWS, JsonObject, records, refusal
from dpsql.serve.statement_service import Confirmations, ConfirmedStatements, SpendingRule

if TYPE_CHECKING:
    from fractions import Fraction

    import pyarrow as pa

    from dpsql.kernel.loss import Charge
    from dpsql.release import Release
    from dpsql.serve.statement_service import StatementService

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

_Tool = Callable[..., Awaitable[JsonObject]]


def _return_errors(tool: _Tool) -> _Tool:
    """Return a tool that returns its errors as results."""

    @functools.wraps(tool)
    async def call(*args: Any, **named: Any) -> JsonObject:  # noqa: ANN401  those of the tool
        try:
            return await tool(*args, **named)
        except Exception as problem:  # noqa: BLE001  its text may hold private values
            return json_facts.refusal(problem)

    return call


class Tools(ConfirmedStatements):
    """The tools of one analyst's program."""

    @_return_errors
    async def tables(self) -> JsonObject:
        """List tables, their columns, units and public domains."""
        return {"tables": await json_facts.describe_tables(self.service)}

    @_return_errors
    async def policy(self) -> JsonObject:
        """Return what the owner's policy says to analysts."""
        return await json_facts.describe_policy(self.service)

    @_return_errors
    async def explain(self, sql: str) -> JsonObject:
        """Return the price of a statement, the error to expect and how it is read; charge nothing."""
        price, said, _ = await json_facts.explain(self, sql)
        said.pop("considered", None)  # a program has no use for it
        errors = {name: said.pop(name) for name in _ERRORS if name in said}
        return {**price, "expected_error": errors, "reading": said}

    @_return_errors
    async def ask(self, sql: str, confirm: str | None = None) -> JsonObject:
        """Run a statement; above the free price only with the confirmation of its price."""
        result = await self.run(sql, confirm)
        if result.release is None:
            return {**_rows_facts(result.table, 0), "epsilon": 0.0}
        with tell_opening(result.release):
            facts = release_page(result.release, 0)
        return {**facts, "left": json_facts.left_of(await self.service.budget())}

    @_return_errors
    async def budget(self) -> JsonObject:
        """Return what may be spent, what is spent and what is left."""
        return json_facts.budget_facts(await self.service.budget())

    @_return_errors
    async def releases(self) -> JsonObject:
        """List the analyst's own releases, the newest last."""
        return {"releases": records(await json_facts.latest_releases(self.service))}

    @_return_errors
    async def release(self, number: int, first_row: int = 0) -> JsonObject:
        """Return an earlier answer again, free of charge."""
        return release_page(await self.service.release(number), max(0, first_row))


def release_page(release: Release, first: int) -> JsonObject:
    """Return a release as JSON, with at most `MOST_ROWS` of its rows, from row `first` on."""
    return {**_rows_facts(release.table, first), **json_facts.release_facts(release)}


def _rows_facts(table: pa.Table, first: int) -> JsonObject:
    """Return rows as objects; those of a release have its intervals beside each number.

    An object has a name once: of two columns `n` the second one is `n_1`, which `renamed` says.
    """
    part = table.slice(first, MOST_ROWS)
    found: JsonObject = {"columns": make_distinct(table.column_names), "rows": records(part)}
    if renamed := list_renamed(table.column_names):
        found["renamed"] = [f"{new} is another column called {old}" for old, new in renamed]
    if first or part.num_rows < table.num_rows:
        found |= {"first_row": first, "rows_in_all": table.num_rows}
    return found


INSTRUCTIONS = """\
dpsql answers SQL questions about private data; every answer is differentially private and spends a budget \
(epsilon) that does not come back. Begin with `tables`. Call `explain` before `ask`: it is free and gives \
the price, the error to expect and, where the price needs one, a `confirm` string for `ask`. A statement \
asked again costs nothing. A refusal says why and what to write instead. The SQL is in dpsql://language.\
"""

_FREE = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_CHARGED = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
)

_MOST_SHOWN = 4_000
"""Characters of a statement that a person is shown."""

Sql = Annotated[
    str, Field(description="One statement, such as SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (..) ..")
]
Confirm = Annotated[
    str | None, Field(description="The `confirm` that `explain` returned for exactly this statement")
]


class Agreement(BaseModel):
    """What a person answers who is asked whether a price may be spent."""

    spend: bool = Field(title="Spend it", description="Whether the statement may be charged this price")


class NotAsked(BaseModel):
    """Stands for an answer where no person had to be asked."""


def make_server(tools_of: Callable[[], Awaitable[Tools]], **options: Any) -> MCPServer[Any]:  # noqa: ANN401  those of MCPServer
    """Make the server; `tools_of` returns the tools of the analyst who makes the present request."""
    made: MCPServer[Any] = MCPServer(
        "dpsql", instructions=INSTRUCTIONS, version=__version__, log_level="CRITICAL", **options
    )

    async def call_tool(call: Callable[[Tools], Awaitable[JsonObject]]) -> JsonObject:
        try:
            tools = await tools_of()
        except Exception as problem:  # noqa: BLE001  its text may hold private values
            return refusal(problem)
        return await call(tools)

    async def agreement(
        ctx: Context, sql: str, confirm: str | None
    ) -> Agreement | NotAsked | Elicit[Agreement]:
        """Ask a person for a price above the policy's limit; nobody where nothing would be charged."""
        capabilities = ctx.client_capabilities
        if capabilities is None or capabilities.elicitation is None:
            return NotAsked()
        try:
            tools = await tools_of()
            priced, question = await tools.question(sql)
            if not priced.statement.private or not tools.rule.needs_person(priced.price):
                return NotAsked()
            tools.rule.check(question, confirm)
        except Exception:  # noqa: BLE001  `ask` meets the same error, and tells it as a refusal
            return NotAsked()
        return Elicit(_write_question(sql, confirm, priced.price), Agreement)

    @made.tool(annotations=_FREE)
    async def tables() -> JsonObject:
        """List the tables: columns with types, what is protected (the unit), public values of columns."""
        return await call_tool(lambda tools: tools.tables())

    @made.tool(annotations=_FREE)
    async def explain(sql: Sql) -> JsonObject:
        """Price a statement without running it: epsilon, expected error, how it is read, what is left.

        Free. Returns `confirm`, which `ask` wants for the same statement at the same price, once, within ten
        minutes.
        """
        return await call_tool(lambda tools: tools.explain(sql))

    async def ask(sql: Sql, agreed: ElicitationResult[Agreement], confirm: Confirm = None) -> JsonObject:
        """Run a statement and return its rows with intervals. Charges the privacy budget, which is finite.

        Statements that were asked before, that read public tables only, SHOW and DESCRIBE cost nothing.
        """
        answer = agreed.data if isinstance(agreed, AcceptedElicitation) else None
        if answer is None or not (isinstance(answer, NotAsked) or answer.spend):
            return {
                "refused": "the person who was asked did not agree to the price",
                "hint": "do not ask again",
            }
        return await call_tool(lambda tools: tools.ask(sql, confirm))

    # As an object: the SDK cannot find a local name in the text of an annotation.
    ask.__annotations__["agreed"] = Annotated[ElicitationResult[Agreement], Resolve(agreement)]
    made.add_tool(ask, annotations=_CHARGED)

    @made.tool(annotations=_FREE)
    async def budget() -> JsonObject:
        """Return how much epsilon and delta may be spent in all, is spent and is left."""
        return await call_tool(lambda tools: tools.budget())

    @made.tool(annotations=_FREE)
    async def releases() -> JsonObject:
        """List your earlier answers by number; reading one again is free."""
        return await call_tool(lambda tools: tools.releases())

    @made.tool(annotations=_FREE)
    async def release(number: int, first_row: int = 0) -> JsonObject:
        """Return an earlier answer again, free, from one of its rows on."""
        return await call_tool(lambda tools: tools.release(number, first_row))

    @made.resource("dpsql://policy", mime_type="application/json")
    async def policy() -> str:
        """Return what the owner's policy says to analysts: tables, public values, bounds, limits."""
        return json.dumps(await call_tool(lambda tools: tools.policy()), ensure_ascii=False, indent=1)

    @made.resource("dpsql://language", mime_type="text/markdown")
    def language() -> str:
        """Return dpsql's SQL in two pages."""
        return Path(__file__).with_name("language.md").read_text("utf-8")

    return made


def serve_one(
    service: StatementService, *, free_below: Fraction, ask_person_above: Fraction | None
) -> MCPServer[Any]:
    """Make the server of one program, over its standard input and output.

    Over a session in this process it is for owners' trials: whoever starts it may read the data. Over one
    on a server it runs on the program's side, which never sees the data.
    """
    tools = Tools(service, SpendingRule(Confirmations(draw_key(32)), free_below, ask_person_above))

    async def tools_of() -> Tools:
        return tools

    return make_server(tools_of)


def _write_question(sql: str, confirm: str | None, cost: Charge) -> str:
    """Write what a person is asked; the number of the confirmation makes each question another one."""
    number = "" if confirm is None else f" (confirmation {confirm.split('-')[1]})"
    shown = "\n".join(map(escape_controls, sql[:_MOST_SHOWN].split("\n")))
    more = f"\n... and {len(sql) - _MOST_SHOWN} characters more" if len(sql) > _MOST_SHOWN else ""
    return f"A program wants to spend {price(cost)} of the privacy budget{number} on:\n\n{shown}{more}"
