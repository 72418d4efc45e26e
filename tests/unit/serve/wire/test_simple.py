"""Simple queries: several statements, errors and their places, notices, transactions, COPY."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from dpsql.errors import QueryRefused, error_from_json
from dpsql.serve.wire import WireConnection, channel, session
from tests.serve import frontend as f
from tests.serve.answers import AnsweringClient
from tests.serve.bench import Bench, run


def tags(messages: list[f.Message]) -> str:
    return b"".join(tag for tag, _ in messages).decode()


def error(messages: list[f.Message]) -> dict[str, str]:
    return f.fields(next(body for tag, body in messages if tag == b"E"))


def completed(messages: list[f.Message]) -> list[str]:
    return [body[:-1].decode() for tag, body in messages if tag == b"C"]


def ask(*texts: str) -> list[list[f.Message]]:
    """Ask one query after the other on one connection."""

    async def test(bench: Bench) -> list[list[f.Message]]:
        alice = await bench.log_in()
        return [await alice.ask(f.query(text)) for text in texts]

    return run(test)


def test_a_query_gives_its_rows_and_the_state() -> None:
    (found,) = ask("SELECT 1 AS one, NULL AS none UNION ALL SELECT 2, 'x'")
    assert tags(found) == "TDDCZ"
    assert [(name, code) for name, _, code in f.columns(found[0][1])] == [("one", 0), ("none", 0)]
    assert [f.row(body) for tag, body in found if tag == b"D"] == [(b"1", None), (b"2", b"x")]
    assert found[-2:] == [(b"C", b"SELECT 2\0"), (b"Z", b"I")]


@pytest.mark.parametrize("text", ["", " ", ";", "-- nothing", "/* nothing */ ; \n --"])
def test_a_query_without_a_statement_is_empty(text: str) -> None:
    assert ask(text) == [[(b"I", b""), (b"Z", b"I")]]


def test_each_statement_is_answered_up_to_the_first_error() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        found = await alice.ask(f.query("SELECT 1; SELECT ';'; SELECT oops; SELECT 3"))
        assert tags(found) == "TDCTDCEZ"
        assert bench.service.asked == ["SELECT 1", "SELECT ';'", "SELECT oops"]

    run(test)


def test_the_place_of_an_error_counts_characters_of_what_was_sent() -> None:
    sent = "SELECT 'ü';\n  SELECT 'é' || oops"
    (found,) = ask(sent)
    assert error(found)["P"] == str(sent.index("oops") + 1)
    copied = "COPY (SELECT 1,\n oops) TO STDOUT"
    (found,) = ask(copied)
    assert error(found)["P"] == str(copied.index("oops") + 1)


def test_a_text_that_is_too_long_is_refused_before_it_is_read() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        found = await alice.ask(f.query("SELECT '" + "x" * 65_536 + "'"))
        assert error(found)["C"] == "54000"
        assert bench.service.asked == []
        await alice.ask(f.query("SELECT '" + "x" * 65_000 + "'"))
        assert len(bench.service.asked) == 1

    run(test)


def test_what_is_not_utf8_is_an_error_and_the_connection_goes_on() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        assert error(await alice.ask(f.message(b"Q", b"SELECT '\xff'\0")))["C"] == "22021"
        assert tags(await alice.ask(f.query("SELECT 1"))) == "TDCZ"

    run(test)


def test_an_error_that_is_not_dpsqls_own_shows_nothing() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        found = error(await alice.ask(f.query("SELECT 'secret'")))
        assert found["C"] == "XX000"
        assert "Asthma" not in "".join(found.values())
        logged = [fields for event, fields in bench.events if event == "bug"]
        assert logged == [{"number": alice.number, "class": "ValueError"}]

    run(test)


def test_what_a_release_says_comes_before_its_rows() -> None:
    (found,) = ask("SELECT 'noticed'")
    assert tags(found) == "NNTDCZ"
    notice, warning = (f.fields(body) for tag, body in found if tag == b"N")
    assert (notice["S"], notice["C"], notice["M"]) == ("NOTICE", "00000", "epsilon 0.5 charged")
    assert (warning["S"], warning["C"], warning["H"]) == ("WARNING", "01000", "ask for more")


@pytest.mark.parametrize(("least", "shown"), [("notice", "NN"), ("warning", "N"), ("error", "")])
def test_a_client_hears_only_what_it_wants(least: str, shown: str) -> None:
    _, found = ask(f"SET client_min_messages = {least}", "SELECT 'noticed'")
    assert tags(found) == f"{shown}TDCZ"


def test_the_state_follows_the_transaction() -> None:
    def state(text: str) -> str:
        (*_, last) = ask(*text.split("; "))
        return last[-1][1].decode()

    assert state("BEGIN") == "T"
    assert state("BEGIN; SELECT 1") == "T"
    assert state("BEGIN; SELECT oops") == "E"
    assert state("BEGIN; SELECT oops; SELECT 1") == "E"
    assert state("BEGIN; SELECT oops; ROLLBACK") == "I"
    assert state("BEGIN; COMMIT AND CHAIN") == "T"
    assert state("SELECT oops") == "I"
    assert state("BEGIN; SAVEPOINT a; SELECT oops; ROLLBACK TO a") == "T"


def test_what_was_set_behind_a_savepoint_is_undone_with_it() -> None:
    def epsilon(*texts: str) -> str:
        (*_, last) = ask("BEGIN; SAVEPOINT a; SET dp_epsilon = 2", *texts, "SHOW dp_epsilon")
        return next(f.row(body)[0] or b"" for tag, body in last if tag == b"D").decode()

    assert epsilon() == "2"
    assert epsilon("ROLLBACK TO a") == ""
    assert epsilon("SAVEPOINT b; SET dp_epsilon = 3; ROLLBACK TO b") == "2"
    assert epsilon("SAVEPOINT b; SET dp_epsilon = 3; RELEASE b; ROLLBACK TO a") == ""
    assert epsilon("SAVEPOINT b; SET dp_epsilon = 3; RELEASE b; COMMIT") == "3"
    assert epsilon("SELECT oops; ROLLBACK TO a", "ROLLBACK TO a; COMMIT") == ""


def test_in_a_failed_transaction_only_its_end_is_heard() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        await alice.ask(f.query("BEGIN; SELECT oops"))
        for text in ("SELECT 1", "SHOW TABLES", "SAVEPOINT a", "SET application_name = 'x'", "BEGIN"):
            assert error(await alice.ask(f.query(text)))["C"] == "25P02"
        assert bench.service.asked == ["SELECT oops"]
        assert completed(await alice.ask(f.query("COMMIT"))) == ["ROLLBACK"]
        assert completed(await alice.ask(f.query("SELECT 1"))) == ["SELECT 1"]

    run(test)


def test_commands_of_transactions_out_of_place() -> None:
    found = ask("COMMIT", "ROLLBACK", "SAVEPOINT a", "BEGIN", "BEGIN", "RELEASE nothing")
    assert [tags(one) for one in found] == ["NCZ", "NCZ", "EZ", "CZ", "NCZ", "EZ"]
    assert f.fields(found[0][0][1])["C"] == "25P01"
    assert error(found[2])["C"] == "25P01"
    assert f.fields(found[4][0][1])["C"] == "25001"
    assert error(found[5])["C"] == "3B001"


def test_savepoints_end_with_those_behind_them() -> None:
    found = ask(
        "BEGIN",
        "SAVEPOINT a",
        "SAVEPOINT b",
        "SAVEPOINT a",
        "RELEASE b",
        "ROLLBACK TO a",
        "RELEASE a",
        "RELEASE a",
    )
    assert [tags(one) for one in found] == ["CZ"] * 7 + ["EZ"]


def test_a_setting_that_clients_follow_is_told() -> None:
    found, shown = ask("SET application_name = 'mine'", "SHOW application_name")
    assert (b"S", b"application_name\0mine\0") in found
    assert completed(found) == ["SET"]
    assert [f.row(body) for tag, body in shown if tag == b"D"] == [(b"mine",)]
    assert f.columns(shown[0][1])[0][0] == "application_name"


def test_a_local_setting_ends_with_its_transaction_and_needs_one() -> None:
    alone, unknown, inside, after = ask(
        "SET LOCAL application_name = 'x'; SHOW application_name",
        "SET LOCAL nothing = 1",
        "BEGIN; SET LOCAL application_name = 'x'; SHOW application_name",
        "ROLLBACK; SHOW application_name",
    )
    assert tags(alone) == "NCTDCZ"
    assert f.fields(alone[0][1])["C"] == "25P01"
    assert error(unknown)["C"] == "42704"
    values = [f.row(body) for tag, body in [*alone, *inside, *after] if tag == b"D"]
    assert values == [(b"",), (b"x",), (b"",)]


def test_a_result_is_copied_out() -> None:
    (found,) = ask("COPY (SELECT * FROM range(3)) TO STDOUT")
    assert tags(found).replace("d", "") == "HcCZ"
    assert b"".join(body for tag, body in found if tag == b"d") == b"0\n1\n2\n"
    assert completed(found) == ["COPY 3"]


def test_a_cursor_is_asked_once_and_read_in_parts() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        found = await alice.ask(
            f.query(
                "BEGIN; DECLARE c CURSOR FOR SELECT * FROM range(5); FETCH 2 FROM c; FETCH 9 FROM c; CLOSE c"
            )
        )
        assert completed(found) == ["BEGIN", "DECLARE CURSOR", "FETCH 2", "FETCH 3", "CLOSE CURSOR"]
        assert [f.row(body) for tag, body in found if tag == b"D"] == [(str(n).encode(),) for n in range(5)]
        assert bench.service.asked == ["SELECT * FROM range(5)"]

    run(test)


def test_a_cursor_that_cannot_be_declared_is_not_answered() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        assert error(await alice.ask(f.query("DECLARE c CURSOR FOR SELECT 1")))["C"] == "25P01"
        await alice.ask(f.query("BEGIN; DECLARE c CURSOR FOR SELECT 1"))
        assert error(await alice.ask(f.query("DECLARE c CURSOR FOR SELECT 2")))["C"] == "42P03"
        assert bench.service.asked == ["SELECT 1"]

    run(test)


@pytest.mark.parametrize("data", [f.message(b"F", b"\0" * 14), f.message(b"Q", b"SELECT 1\0")])
def test_a_call_of_a_function_is_refused_and_ends_as_a_query_does(data: bytes) -> None:
    async def test(bench: Bench) -> str:
        alice = await bench.log_in()
        return tags(await alice.ask(data))

    assert run(test) == ("EZ" if data[:1] == b"F" else "TDCZ")


@pytest.mark.parametrize(
    "data",
    [
        b"q\0\0\0\4",
        b"\0\0\0\0\4",
        b"Q\0\0\0\3",
        b"Q\xff\xff\xff\xff",
        b"Q\x7f\xff\xff\xff",
        b"Q\0\x10\0\1",
        f.message(b"Q", b"SELECT 1"),
        f.message(b"Q", b"SELECT 1\0more\0"),
        f.message(b"S", b"x"),
        f.message(b"P", b"\0SELECT 1\0\0\1"),
        f.message(b"B", b"\0\0"),
        f.message(b"D", b"X\0"),
        f.message(b"C", b"X\0"),
        f.message(b"E", b"\0\0\0"),
        f.message(b"H", b"x"),
    ],
)
def test_a_violation_of_the_protocol_ends_the_connection(data: bytes) -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        await alice.send(data)
        *_, (tag, body) = await alice.rest()
        assert tag == b"E"
        assert (f.fields(body)["S"], f.fields(body)["C"]) == ("FATAL", "08P01")
        assert bench.service.clients[alice.number].closed
        assert len(bench.connections) == 0

    run(test)


def test_what_follows_a_failed_copy_in_is_ignored() -> None:
    async def test(bench: Bench) -> str:
        alice = await bench.log_in()
        await alice.send(f.message(b"d", b"1\n"), f.message(b"c"), f.message(b"f", b"why\0"))
        return tags(await alice.ask(f.query("SELECT 1")))

    assert run(test) == "TDCZ"


def test_a_client_that_leaves_is_forgotten() -> None:
    async def test(bench: Bench) -> None:
        alice, bob = await bench.log_in("alice"), await bench.log_in("bob")
        await alice.send(f.TERMINATE)
        assert await alice.rest() == []
        assert bench.service.clients[alice.number].closed
        assert list(bench.connections.live) == [bob.number]
        left = [fields["reason"] for event, fields in bench.events if event == "disconnected"]
        assert left == ["left"]

    run(test)


def test_statements_of_a_client_that_is_gone_are_not_begun() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        await alice.send(f.query("SELECT 'pause'; SELECT 1"), f.query("SELECT 2"))
        await bench.service.began.wait()
        alice.writer.write_eof()
        connection = bench.connections.live[alice.number]
        assert isinstance(connection, WireConnection)
        while not connection._channel.is_lost:
            await asyncio.sleep(0)
        bench.service.resumed.set()
        assert tags(await alice.rest()) == "TDC", "what runs is finished"
        await bench.connections.wait_closed()
        assert bench.service.asked == ["SELECT 'pause'"]

    run(test)


def test_a_client_of_dpsql_gets_errors_as_json_too() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in(**{"_pq_.dpsql_errors": "1"})
        found = error(await alice.ask(f.query("SELECT oops")))
        copy = error_from_json(found["J"])
        assert isinstance(copy, QueryRefused)
        assert (copy.message, copy.line, copy.col, copy.hint) == (
            "this shows single patients",
            1,
            8,
            "count them",
        )
        assert "J" not in error(await alice.ask(f.query("SELECT 'secret'")))
        other = await bench.log_in()
        assert "J" not in error(await other.ask(f.query("SELECT oops")))

    run(test)


def test_a_message_of_many_statements_lets_others_be_answered() -> None:
    async def test(bench: Bench) -> None:
        alice, bob = await bench.log_in(), await bench.log_in("bob")
        await alice.send(f.query("SHOW ALL;" * 300 + "SELECT 'last'"))
        await bob.ask(f.query("SELECT 1"))
        assert bench.service.asked == ["SELECT 1"]
        assert tags(await alice.until()).count("C") == 301

    run(test)


def test_a_client_that_does_not_read_gets_no_further_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "SEND_BUFFER", 1 << 16)

    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        rows = "SELECT repeat('x', 2000) AS x FROM range(5000)"
        await alice.ask(f.query(f"DECLARE c CURSOR WITH HOLD FOR {rows}"))
        alice.writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is a socket's
        await alice.send(f.query("FETCH 10 c;" * 500))
        (connection,) = bench.connections.live.values()
        assert isinstance(connection, WireConnection)
        for _ in range(50):
            await asyncio.sleep(0.01)
            assert connection._channel._transport.get_write_buffer_size() < 1 << 20
        alice.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert tags(await alice.until()).count("D") == 5_000

    run(test)


def test_what_an_analysts_connections_keep_is_limited_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MOST_OF_ANALYST", 50_000)

    async def test(bench: Bench) -> None:
        alice, ali, bob = [await bench.log_in(name) for name in ("alice", "ali", "bob")]
        rows = "SELECT repeat('x', 1000) AS x FROM range(60)"
        await alice.ask(f.query(f"DECLARE c CURSOR WITH HOLD FOR {rows}"))
        asked = len(bench.service.asked)
        for statement in ("SELECT 1", f"DECLARE d CURSOR WITH HOLD FOR {rows}", f"COPY ({rows}) TO STDOUT"):
            for client in (alice, ali):  # one analyst
                assert error(await client.ask(f.query(statement)))["C"] == "54000"
        assert len(bench.service.asked) == asked  # so nothing was charged
        assert "E" not in tags(await bob.ask(f.query("SELECT 1")))
        await alice.ask(f.query("CLOSE c"))
        assert "E" not in tags(await ali.ask(f.query("SELECT 1")))
        # Portals count as well.
        await alice.ask(f.query("BEGIN"))
        suspended = (f.parse(rows), f.bind(portal="p"), f.execute("p", 1), f.SYNC)
        assert "s" in tags(await alice.ask(*suspended))
        assert error(await ali.ask(f.query("SELECT 1")))["C"] == "54000"
        await alice.ask(f.query("ROLLBACK"))
        assert "E" not in tags(await ali.ask(f.query("SELECT 1")))

    run(test)


def test_a_connection_that_ends_lets_go_of_its_results() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        (connection,) = bench.connections.live.values()
        assert isinstance(connection, WireConnection)
        await alice.ask(f.query("DECLARE c CURSOR WITH HOLD FOR SELECT repeat('x', 1000) AS x"))
        await alice.ask(f.parse("SELECT 1", "s"), f.SYNC)
        assert connection.held_bytes > 1000
        alice.writer.close()
        await bench.connections.wait_closed()
        assert (connection.held_bytes, len(connection._session.prepared)) == (0, 0)

    run(test)


def test_many_statements_let_other_connections_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []
    true = WireConnection._next_turn

    async def next_turn(connection: WireConnection) -> None:
        turns.append(1)
        await true(connection)

    monkeypatch.setattr(WireConnection, "_next_turn", next_turn)

    async def test(bench: Bench) -> int:
        alice = await bench.log_in()
        before = len(turns)
        found = await alice.ask(f.query("BEGIN;" * 200))
        assert completed(found) == ["BEGIN"] * 200
        return len(turns) - before

    assert run(test) == 199  # and behind the last one others go on while the whole answer is sent


def test_a_text_that_is_split_slowly_is_split_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    beside: list[int] = []
    true = AnsweringClient.beside

    async def noted(client: AnsweringClient, size: int, work: Callable[[], object]) -> object:
        beside.append(size)
        return await true(client, size, work)

    monkeypatch.setattr(AnsweringClient, "beside", noted)
    one, several = f"SELECT '{'x' * 3000}'", f"SELECT '{'x' * 3000}'; SELECT 2"
    ask(one, "SELECT 1;")
    assert beside == []
    ask(several, f"SET application_name = '{'x' * 3000}'")
    assert beside == [len(several), 3025]
