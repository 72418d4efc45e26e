"""Sessions that are mutated, divided anywhere, or made at random: the server answers, ends and goes on."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Iterator

import pytest

from tests.serve import frontend as f
from tests.serve.bench import PASSWORD, Bench, run
from tests.serve.fuzz import FuzzError, alive, case, check
from tests.serve.mutations import SESSIONS


def fuzz(seeds: range) -> None:
    async def test(bench: Bench) -> None:
        for seed in seeds:
            try:
                await case(seed, bench.connect, "alice", PASSWORD, None)
            except FuzzError as problem:
                pytest.fail(f"seed {seed}: {problem}")
            bench.opened.clear()
        await alive(bench.connect, "alice", PASSWORD)
        await _settled(bench)
        assert [fields for event, fields in bench.events if event == "bug"] == []

    run(test)


async def _settled(bench: Bench) -> None:
    """Wait until no connection is left: what ended is given back."""
    async with asyncio.timeout(20):
        await bench.connections.wait_closed()
        while bench.connections.handshakes:
            await asyncio.sleep(0)
    assert all(client.closed for client in bench.service.clients.values())


def test_mutated_sessions() -> None:
    fuzz(range(150))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_mutated_sessions(block: int) -> None:
    fuzz(range(1_000 + block * 1_000, 2_000 + block * 1_000))


def messages(data: bytes) -> Iterator[f.Message]:
    at = 0
    while at < len(data):
        size = struct.unpack_from("!i", data, at + 1)[0]
        yield data[at : at + 1], data[at + 5 : at + 1 + size]
        at += 1 + size


@pytest.mark.parametrize("session", SESSIONS[:10], ids=range(10))
@pytest.mark.sampled(5)
def test_a_session_may_be_divided_at_any_byte(session: tuple[bytes, ...]) -> None:
    data = b"".join(session)
    answers = sum(one[:1] in b"QSF" for one in session)

    async def test(bench: Bench) -> None:
        alice = await bench.log_in()

        async def batch(*parts: bytes) -> list[f.Message]:
            for part in parts:
                await alice.send(part)
                await asyncio.sleep(0)
            found = [message for _ in range(answers) for message in await alice.until()]
            await alice.ask(f.query("ROLLBACK"))
            return found

        await batch(data)  # settings that it leaves are told once
        whole = await batch(data)
        for place in range(1, len(data), 1 if len(data) < 200 else 3):
            assert await batch(data[:place], data[place:]) == whole, place
        assert await batch(*(bytes([byte]) for byte in data)) == whole

    run(test)


class Model:
    """What a connection answers, told from the protocol's description: one state for each batch."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.status = "I"
        self.statements: dict[str, str] = {}
        self.portals: dict[str, str] = {}
        self.skipping = False

    def step(self) -> tuple[bytes, str]:
        """Return a message and the types of the answers to it."""
        name = self.draw.choice(("", "a", "b"))
        kinds = ("query", "parse", "parse", "bind", "bind", "execute", "execute", "describe", "close", "sync")
        kind = self.draw.choice(kinds)
        data, answer = getattr(self, f"_{kind}")(name)
        if kind == "sync":
            self.skipping = False
        elif self.skipping:
            return data, ""
        return data, answer() if callable(answer) else answer

    def _fail(self) -> str:
        self.skipping = True
        if self.status == "T":
            self.status = "E"
        return "E"

    def _query(self, _name: str) -> tuple[bytes, object]:
        text, tags = self.draw.choice(
            (("SELECT 1", "TDC"), ("BEGIN", "C"), ("ROLLBACK", "C"), ("COMMIT", "C"), ("SELECT oops", "E"))
        )

        def answer() -> str:
            self.statements.pop("", None)
            self.portals.pop("", None)
            before = self.status
            if before == "E" and text not in ("ROLLBACK", "COMMIT"):
                return "EZ"
            if text == "BEGIN":
                self.status = "T"
                return "NCZ" if before == "T" else "CZ"
            if text in ("ROLLBACK", "COMMIT"):
                if before != "I":
                    self.portals.clear()
                self.status = "I"
                return "NCZ" if before == "I" else "CZ"
            if tags == "E" and before == "T":
                self.status = "E"
            return f"{tags}Z"

        return f.query(text), answer

    def _parse(self, name: str) -> tuple[bytes, object]:
        text = self.draw.choice(("SELECT 1", "SELECT * FROM range(3)", "", "SELECT oops", "ROLLBACK"))

        def answer() -> str:
            if not name:
                self.statements.pop("", None)
            if name in self.statements or text == "SELECT oops":
                return self._fail()
            if self.status == "E" and text not in ("", "ROLLBACK"):
                return self._fail()
            self.statements[name] = text
            return "1"

        return f.parse(text, name), answer

    def _bind(self, name: str) -> tuple[bytes, object]:
        portal = self.draw.choice(("", "p"))

        def answer() -> str:
            text = self.statements.get(name)
            if text is None or (self.status == "E" and text not in ("", "ROLLBACK")):
                return self._fail()
            if not portal:
                self.portals.pop("", None)
            if portal in self.portals:
                return self._fail()
            self.portals[portal] = text
            return "2"

        return f.bind(statement=name, portal=portal), answer

    def _execute(self, name: str) -> tuple[bytes, object]:
        portal = "p" if name else ""

        def answer() -> str:
            text = self.portals.get(portal)
            if text is None or (self.status == "E" and text not in ("", "ROLLBACK", "done")):
                return self._fail()
            if self.status == "E" and text == "done":
                return self._fail()
            if text == "":
                return "I"
            if text == "ROLLBACK":
                before, self.status = self.status, "I"
                if before != "I":
                    self.portals.clear()
                else:
                    self.portals[portal] = "ended"
                return "NC" if before == "I" else "C"
            if text in ("done", "ended"):
                return "C"
            self.portals[portal] = "done"
            return "DC" if text == "SELECT 1" else "DDDC"

        return f.execute(portal), answer

    def _describe(self, name: str) -> tuple[bytes, object]:
        def answer() -> str:
            if name not in self.statements:
                return self._fail()
            return "tT" if self.statements[name].startswith("SELECT") else "tn"

        return f.describe(b"S", name), answer

    def _close(self, name: str) -> tuple[bytes, object]:
        def answer() -> str:
            self.statements.pop(name, None)
            return "3"

        return f.close(b"S", name), answer

    def _sync(self, _name: str) -> tuple[bytes, object]:
        def answer() -> str:
            if self.status == "I":
                self.portals.clear()
            return "Z"

        return f.SYNC, answer


def model(seed: int, steps: int) -> None:
    """Send a random sequence of valid messages; compare types of answers and states with the model's."""
    it = Model(random.Random(seed))

    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        expected, sent = "", []
        states = []
        for _ in range(steps):
            data, answer = it.step()
            sent.append(data)
            expected += answer
            states += [it.status] if answer.endswith("Z") else []
        sent.append(f.SYNC)
        expected += "Z"
        states.append(it.status)
        await alice.send(*sent)
        found = [await alice.receive() for _ in expected]
        assert b"".join(tag for tag, _ in found).decode() == expected
        assert [body.decode() for tag, body in found if tag == b"Z"] == states

    run(test)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.sampled(3)
def test_random_sequences_are_answered_as_the_protocol_says(seed: int) -> None:
    model(seed, 120)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_200))
def test_long_random_sequences_are_answered_as_the_protocol_says(seed: int) -> None:
    model(seed, 1_500)


@pytest.mark.parametrize(
    "received",
    [
        b"Z\0\0\0\5",
        b"?\0\0\0\4",
        b"Z\0\0\0\3I",
        f.message(b"E", b"MTraceback\0\0"),
        f.message(b"E", b"CXX000\0Mno\0\0"),
    ],
)
def test_a_wrong_answer_is_found(received: bytes) -> None:
    with pytest.raises(FuzzError):
        check(received, after_login=True)
