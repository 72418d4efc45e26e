"""Limits of what is decoded: counted before it is allocated, for each message, each analyst and all."""

from __future__ import annotations

import asyncio
import json
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.errors import Error
from dpsql.serve import limits
from dpsql.serve.limits import (
    LIMITS,
    DecodingBudget,
    LimitExceeded,
    MemoryAccount,
    MemoryAccounts,
    check_json,
)
from dpsql.serve.wire.types import TYPES
from dpsql.serve.wire.types.parameters import decode_parameter
from tests.serve import decoding, multiplied
from tests.serve import frontend as f
from tests.serve.bench import Bench, run
from tests.served import clinic, serving

# -- budgets and accounts


def test_a_budget_is_asked_before() -> None:
    budget = DecodingBudget("bind")
    most = LIMITS["bind"]
    budget.take(most.bytes, most.steps)
    for more in ((1, 0), (0, 1)):
        with pytest.raises(LimitExceeded):
            budget.take(*more)
    assert (budget.size, budget.steps) == (most.bytes, most.steps)


def test_all_above_an_account_are_charged_and_given_back() -> None:
    accounts = MemoryAccounts(of_all=400_000, of_analyst=300_000)
    first, second, other = accounts.open("ann"), accounts.open("ann"), accounts.open("bob")
    first.take(200_000)
    with pytest.raises(LimitExceeded, match="your connections have") as raised:
        second.take(150_000)
    assert raised.value.sqlstate == "53200"
    assert (second.used, accounts.all.used) == (0, 200_000)
    other.take(200_000)
    with pytest.raises(LimitExceeded, match="of all"):
        second.take(50_000)
    with pytest.raises(LimitExceeded), DecodingBudget("bind", second) as budget:
        budget.take(10)
    assert second.used == 0
    first.close()
    with DecodingBudget("bind", second) as budget:
        budget.take(10)
        assert accounts.all.used > 200_000
    assert (second.used, accounts.all.used) == (0, 200_000)


def test_a_connection_has_a_limit_of_its_own() -> None:
    account = MemoryAccount(most=100)
    account.take(100)
    with pytest.raises(LimitExceeded, match="this connection has"):
        account.take(1)
    assert account.used == 100


# -- parameters


def deep(value: object) -> int:
    """Return the bytes that a value takes."""
    return sys.getsizeof(value) + (sum(map(deep, value)) if isinstance(value, list) else 0)


def counted(oid: int, code: int, data: bytes) -> None:
    """Decode a value: it may be refused, and takes no more than was counted."""
    budget = DecodingBudget("bind")
    value: object = None
    try:
        value = decode_parameter(data, oid, code, budget)
    except Error:
        return
    assert deep(value) <= 2 * budget.size + 200, (oid, code, data[:50])


def test_no_multiplied_value_takes_more_than_was_counted() -> None:
    for oid, code, data in multiplied.values():
        counted(oid, code, data)


@given(st.sampled_from(sorted(TYPES)), st.sampled_from([0, 1]), st.binary(max_size=200))
def test_no_value_takes_more_than_was_counted(oid: int, code: int, data: bytes) -> None:
    counted(oid, code, data)


@pytest.mark.parametrize(("weight", "scale"), [(32_767, 0), (0, 16_383), (-30_000, 16_383), (240, 100)])
def test_a_numeric_of_many_digits_is_refused_before_they_are_written(weight: int, scale: int) -> None:
    with pytest.raises(Error) as raised:
        decode_parameter(struct.pack("!HhHHH", 1, weight, 0, scale, 1), 1700, 1)
    assert raised.value.sqlstate == "22003"


@pytest.mark.parametrize("text", ["1e1000", "1e-1000", "9" * 1_001, "0." + "1" * 1_000, "1e99999"])
def test_a_number_of_many_digits_is_refused_as_text_as_well(text: str) -> None:
    with pytest.raises(Error) as raised:
        decode_parameter(text.encode(), 1700, 0)
    assert raised.value.sqlstate == "22003"


def test_escapes_are_steps() -> None:
    for oid, data in ((1009, b'{"' + b"\\a" * 200_000 + b'"}'), (17, b"\\000" * 200_000)):
        budget = DecodingBudget("bind")
        with pytest.raises(LimitExceeded):
            decode_parameter(data, oid, 0, budget)
        assert budget.steps == 0


# -- the wire


class Counted(Bench):
    """Notes the most that was counted for all connections."""

    most = 0

    def start(self) -> None:
        super().start()
        everyone, bench = self.context.accounts.all, self

        class Noted(MemoryAccount):
            @property
            def used(self) -> int:
                return self._now

            @used.setter
            def used(self, now: int) -> None:
                self._now = now
                bench.most = max(bench.most, now)

        everyone.__class__ = Noted
        everyone.used = 0


def bugs(events: list[tuple[str, Mapping[str, object]]]) -> list[Any]:
    return [each for each in events if each[0] == "bug"]


async def answered(alice: f.Frontend, data: bytes) -> bool:
    """Send messages; return whether the connection is still open."""
    try:
        await alice.ask(data, *([] if data[:1] in b"QF" else [f.SYNC]))
    except (ConnectionError, asyncio.IncompleteReadError):
        return False
    return True


def test_each_message_is_answered_or_ends_the_connection_within_the_limits() -> None:
    bench = Counted()

    async def test(_: Bench) -> int:
        alice, ended = await bench.log_in(), 0
        for message in multiplied.messages():
            await alice.ask(f.parse("SELECT $1 AS one, $2 AS two", "s", [25, 25]), f.SYNC)
            await alice.ask(f.query("BEGIN"))
            if not await answered(alice, message):
                alice, ended = await bench.log_in(), ended + 1
                continue
            await alice.ask(f.query("ROLLBACK"))
            await alice.ask(f.query("DEALLOCATE ALL"))
        return ended

    assert run(test, bench) < 60
    assert not bugs(bench.events)
    assert 0 < bench.most < limits.OF_CONNECTION
    assert bench.context.accounts.all.used == 0


def test_lengths_that_are_too_large_wait_or_end_the_connection() -> None:
    async def test(bench: Bench) -> None:
        for message in multiplied.lengths():
            alice = await bench.log_in()
            await alice.send(message)
            alice.writer.close()
        for message in (*multiplied.starts(), *multiplied.proofs()):
            client = await bench.connect()
            if message[:1] == b"p":
                await client.send(f.startup({"user": "alice"}))
            await client.send(message)
            client.writer.close()
        await bench.connections.wait_closed()
        assert not bugs(bench.events)

    run(test)


def test_kept_values_and_statements_are_counted_until_they_are_let_go() -> None:
    async def test(bench: Bench) -> None:
        alice, used = await bench.log_in(), bench.context.accounts.all
        await alice.ask(f.query("BEGIN"))
        await alice.ask(f.parse("SELECT $1 AS v", "p", [25]), f.SYNC)
        one = used.used
        assert one > 0
        for name in ("a", "b"):
            await alice.ask(f.bind([b"x" * 100_000], statement="p", portal=name), f.SYNC)
        assert used.used - one > 200_000
        await alice.ask(f.close(b"P", "a"), f.SYNC)
        assert 100_000 < used.used - one < 110_000
        await alice.ask(f.query("COMMIT"))
        assert used.used == one
        await alice.ask(f.query("DEALLOCATE ALL"))
        assert used.used == 0
        await alice.ask(f.parse("SELECT $1 AS v", "p", [25]), f.SYNC)
        alice.writer.close()
        await bench.connections.wait_closed()
        assert used.used == 0

    run(test)


def test_all_connections_of_an_analyst_have_one_account(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(bench: Bench) -> None:
        bench.context.accounts = MemoryAccounts(of_analyst=3 << 20)
        clients = [await bench.log_in(), await bench.log_in("ali"), await bench.log_in("bob")]
        found = []
        for client in clients:
            await client.ask(f.query("BEGIN"))
            await client.ask(f.parse("SELECT $1 AS v", "p", [25]), f.SYNC)
            sent = await client.ask(
                *(f.bind([b"x" * 999_000], statement="p", portal=n) for n in "ab"), f.SYNC
            )
            found.append([f.fields(body)["C"] for tag, body in sent if tag == b"E"])
        assert found == [[], ["53200"], []]

    run(test)


@pytest.mark.parametrize(
    "sent",
    [
        f.parse("SELECT 1", "n" * 1_025),
        f.bind(portal="n" * 1_025),
        f.describe(b"S", "n" * 1_025),
        f.execute("n" * 1_025),
        f.close(b"P", "n" * 1_025),
        f.query(f'BEGIN; SAVEPOINT "{"n" * 1_025}"'),
        f.query(f'BEGIN; DECLARE "{"n" * 1_025}" CURSOR FOR SELECT 1'),
        f.parse("SELECT " + ",".join(["1"] * 1_665)),
        f.parse("SELECT $1", oids=[25] * 1_001),
        f.bind([b"1"] * 1_001),
        f.bind(codes=[0] * 1_001),
        f.bind(columns=[0] * 1_665),
    ],
)
def test_names_columns_and_parameters_are_limited(sent: bytes) -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        await alice.ask(f.parse("SELECT 1"), f.SYNC)
        found = await alice.ask(sent, *([] if sent[:1] == b"Q" else [f.SYNC]))
        codes = [f.fields(body)["C"] for tag, body in found if tag == b"E"]
        assert len(codes) == 1
        assert codes[0] in ("54000", "54011", "0A000"), codes

    run(test)


def test_a_startup_message_has_few_parameters() -> None:
    async def test(bench: Bench) -> None:
        client = await bench.connect()
        await client.send(f.startup({"user": "alice", **{f"_pq_.{n}": "" for n in range(200)}}))
        (message,) = await client.rest()
        assert f.fields(message[1])["C"] == "54000"

    run(test)


# -- JSON

DEEP = b'{"sql": ' + b"[" * 100 + b"]" * 100 + b"}"
WIDE = b'{"sql": [' + b"1," * 50_000 + b"1]}"
OBJECTS = b'{"sql": [' + b"{}," * 50_000 + b"{}]}"
TEXTS = b'{"sql": [' + b'"",' * 50_000 + b'""]}'
NUMBER = b'{"sql": ' + b"1" * 5_000 + b"}"
WIDE_CHARACTERS = '{"sql": "x"}'.encode("utf-16")


@pytest.mark.parametrize("kind", ["request", "sign in", "program"])
@pytest.mark.parametrize("data", [DEEP, WIDE, OBJECTS, TEXTS, NUMBER, WIDE_CHARACTERS])
def test_json_is_measured_before_it_is_read(kind: str, data: bytes) -> None:
    with pytest.raises(LimitExceeded):
        check_json(data, kind)


@pytest.mark.parametrize(
    "text", ["[[[[{{{{", 'a "quoted" \\ [[', "1" * 500, "\\", '"', "}}}}]]]]", ",,,,," * 99]
)
def test_what_stands_in_a_text_is_no_structure(text: str) -> None:
    check_json(json.dumps({"sql": text, "confirm": text}).encode(), "request")


@pytest.mark.parametrize("text", ["1," * 30_000, "(" * 60_000, "1;" * 30_000, "a " * 30_000])
def test_a_text_of_many_words_is_refused_before_it_is_split(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    split: list[str] = []

    def pieces(given: str) -> list[tuple[int, str]]:
        split.append(given)
        return []

    monkeypatch.setattr("dpsql.serve.wire.results.split_script_with_places", pieces)

    async def test(bench: Bench) -> list[f.Message]:
        alice = await bench.log_in()
        return await alice.ask(f.query(text))

    found = run(test)
    assert [f.fields(body)["C"] for tag, body in found if tag == b"E"] == ["54000"]
    assert split == []


@pytest.mark.slow
def test_no_multiplied_message_takes_much_memory(tmp_path: Path) -> None:
    """Of a connection at most 64 MiB, of all at most 512; the event loop's times are printed beside it."""
    seen = decoding.measure(decoding.Answering(), decoding.each_start, "before the login")
    seen += decoding.measure(decoding.Answering(), decoding.each_value, "values of parameters")
    with serving(clinic(tmp_path)) as service:
        bench = decoding.Unhurried()
        bench.real = service
        seen += decoding.measure(bench, decoding.each_message, "messages")
    assert max(one.grown for one in seen) < 64
    whole = decoding.measure(decoding.Answering(), decoding.all_at_once, "values kept by all")
    assert whole[0].grown < 512
