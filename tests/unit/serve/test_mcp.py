"""The MCP server by the official client: tools, resources, a person who is asked, both protocols."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from dpsql.session import Session

mcp = pytest.importorskip("mcp")
from mcp_types import ElicitResult  # noqa: E402

from dpsql.serve.mcp.tools import serve_one  # noqa: E402
from dpsql.serve.statement_service import LocalService  # noqa: E402
from tests.support.world import write_world  # noqa: E402

POLICY = """
[budget]
epsilon = 10
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
"""
COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.75) COUNT(DISTINCT user_id) AS n FROM visits"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    write_world(tmp_path, POLICY, visits={"user_id": range(100)})
    session = Session(tmp_path / "dpsql.toml", "agent7")
    yield session
    session.close()


@dataclass
class Person:
    """Answers what a program asks a person."""

    action: Literal["accept", "decline", "cancel"] = "accept"
    content: dict[str, Any] | None = field(default_factory=lambda: {"spend": True})
    questions: list[str] = field(default_factory=list)

    async def __call__(self, context: object, params: Any) -> ElicitResult:
        self.questions.append(params.message)
        return ElicitResult(action=self.action, content=self.content)


@dataclass
class Program:
    """A program that calls tools, with or without a person behind it."""

    session: Session
    mode: str
    person: Person | None = None

    def __call__(self, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """Call tools in one connection; `confirm: ...` stands for the confirmation of the last price."""

        async def run() -> list[dict[str, Any]]:
            server = serve_one(
                LocalService(self.session), free_below=Fraction(0), ask_person_above=Fraction(1, 2)
            )
            answers: list[dict[str, Any]] = []
            confirm = None
            async with mcp.Client(server, mode=self.mode, elicitation_callback=self.person) as client:
                for name, given in calls:
                    arguments = given
                    if given.get("confirm") is ...:
                        arguments = {**given, "confirm": confirm}
                    result = await client.call_tool(name, arguments)
                    assert not result.is_error, result
                    assert json.loads(result.content[0].text) == result.structured_content
                    answers.append(result.structured_content)
                    confirm = result.structured_content.get("confirm", confirm)
            return answers

        return anyio.run(run)

    @property
    def spent(self) -> Fraction:
        return self.session.budget().spent.epsilon


@pytest.fixture(params=["legacy", "auto"])
def program(session: Session, request: pytest.FixtureRequest) -> Program:
    return Program(session, request.param)


EXPLAIN = ("explain", {"sql": COUNT})
ASK = ("ask", {"sql": COUNT, "confirm": ...})


def test_tools_and_resources(program: Program) -> None:
    async def run() -> None:
        server = serve_one(LocalService(program.session), free_below=Fraction(0), ask_person_above=None)
        async with mcp.Client(server, mode=program.mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert sorted(tools) == ["ask", "budget", "explain", "release", "releases", "tables"]
            assert sorted(tools["ask"].input_schema["properties"]) == ["confirm", "sql"]
            assert [name for name, tool in tools.items() if not tool.annotations.read_only_hint] == ["ask"]
            resources = sorted(str(each.uri) for each in (await client.list_resources()).resources)
            assert resources == ["dpsql://language", "dpsql://policy"]
            policy = (await client.read_resource("dpsql://policy")).contents[0].text
            assert json.loads(policy)["tables"][0]["name"] == "visits"
            guide = (await client.read_resource("dpsql://language")).contents[0].text
            assert guide.startswith("# dpsql's SQL")

    anyio.run(run)


def test_without_a_confirmation_nothing_is_spent(program: Program) -> None:
    (answer,) = program(("ask", {"sql": COUNT}))
    assert "not confirmed" in answer["refused"]
    assert program.spent == 0


def test_a_confirmed_price_is_spent_once(program: Program) -> None:
    _, answer, again = program(EXPLAIN, ASK, ASK)
    assert (answer["epsilon"], again["epsilon"]) == (0.75, 0.0)
    assert program.spent == Fraction(3, 4)


def test_a_person_is_asked_with_statement_and_price(program: Program) -> None:
    program.person = Person()
    _, answer = program(EXPLAIN, ASK)
    assert answer["epsilon"] == 0.75
    (question,) = program.person.questions
    assert "epsilon 0.75" in question
    assert COUNT in question


@pytest.mark.parametrize(
    "person",
    [Person("decline", None), Person("cancel", None), Person("accept", {"spend": False})],
    ids=["decline", "cancel", "no"],
)
def test_a_person_who_does_not_agree_is_obeyed(program: Program, person: Person) -> None:
    program.person = Person(person.action, person.content)
    _, answer = program(EXPLAIN, ASK)
    assert "did not agree" in answer["refused"]
    assert program.spent == 0
    assert len(program.person.questions) == 1


def test_no_person_is_asked_for_what_cannot_be_spent(program: Program) -> None:
    program.person = Person()
    wrong = ("ask", {"sql": COUNT, "confirm": "1-1-" + "A" * 43})
    program(("ask", {"sql": COUNT}), wrong, ("ask", {"sql": "SELECT 1 AS one"}), ("ask", {"sql": "SELCT"}))
    cheap = COUNT.replace("0.75", "0.5")
    program(("explain", {"sql": cheap}), ("ask", {"sql": cheap, "confirm": ...}))
    assert program.person.questions == []
    assert program.spent == Fraction(1, 2)


def test_each_charge_is_asked_for(program: Program) -> None:
    program.person = Person()
    fresh = COUNT.replace("0.75", "0.75, fresh = TRUE")
    explain, ask = ("explain", {"sql": fresh}), ("ask", {"sql": fresh, "confirm": ...})
    program(explain, ask, explain, ask)
    assert len({*program.person.questions}) == 2
    assert program.spent == Fraction(3, 2)


def test_a_person_is_shown_the_whole_statement(program: Program) -> None:
    program.person = Person()
    hidden = f"{COUNT} -- \x1b[8m{'x' * 5000}"
    program(("explain", {"sql": hidden}), ("ask", {"sql": hidden, "confirm": ...}))
    (question,) = program.person.questions
    assert "\x1b" not in question
    assert "characters more" in question
