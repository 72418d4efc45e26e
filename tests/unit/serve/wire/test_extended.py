"""The extended query: prepared statements, portals, errors up to Sync, pipelines, caps."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa
import pytest

from dpsql.serve.limits import COLUMN
from dpsql.serve.wire import portals
from tests.serve import frontend as f
from tests.serve.answers import AnsweringClient
from tests.serve.bench import Bench, run
from tests.unit.serve.wire.test_simple import completed, error, tags


def rows(messages: Sequence[f.Message]) -> list[tuple[bytes | None, ...]]:
    return [f.row(body) for tag, body in messages if tag == b"D"]


def ask(*batches: Sequence[bytes]) -> list[list[f.Message]]:
    """Send batches on one connection, a Sync behind each."""

    async def test(bench: Bench) -> list[list[f.Message]]:
        alice = await bench.log_in()
        return [await alice.ask(*batch, f.SYNC) for batch in batches]

    return run(test)


def test_a_statement_is_prepared_described_and_run_twice() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        found = await alice.ask(
            f.parse("SELECT $1::int + 1 AS n, $2 AS t", "s", [0, 25]), f.describe(b"S", "s"), f.SYNC
        )
        assert tags(found) == "1tTZ"
        assert found[1][1] == struct.pack("!HII", 2, 23, 25)
        assert f.columns(found[2][1]) == [("n", 23, 0), ("t", 25, 0)]
        assert bench.service.asked == [], "nothing is run by Parse and Describe"
        found = await alice.ask(
            f.bind([b"41", b"x"], statement="s"),
            f.execute(),
            f.bind([struct.pack("!i", 1), None], statement="s", codes=[1, 0], columns=[1, 0]),
            f.describe(b"P"),
            f.execute(),
            f.SYNC,
        )
        assert tags(found) == "2DC2TDCZ"
        assert rows(found) == [(b"42", b"x"), (struct.pack("!i", 2), None)]
        assert f.columns(found[4][1]) == [("n", 23, 1), ("t", 25, 0)]

    run(test)


def test_a_portal_gives_its_rows_in_parts_and_is_asked_once() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        await alice.ask(f.query("BEGIN"))
        found = await alice.ask(
            f.parse("SELECT * FROM range(5)"), f.bind(portal="p"), f.execute("p", 2), f.SYNC
        )
        assert tags(found) == "12DDsZ"
        found = await alice.ask(f.execute("p", 2), f.execute("p", 2), f.execute("p", 2), f.SYNC)
        assert tags(found) == "DDsDCCZ"
        assert completed(found) == ["SELECT 1", "SELECT 0"]
        assert bench.service.asked == ["SELECT * FROM range(5)"]

    run(test)


def test_portals_end_at_sync_outside_a_transaction() -> None:
    inside, outside = ask(
        [f.parse("SELECT 1", "s"), f.bind(statement="s", portal="p"), f.execute("p", 1)], [f.execute("p")]
    )
    assert tags(inside) == "12DCZ"
    assert error(outside)["C"] == "34000"


def test_portals_end_with_their_transaction() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        await alice.ask(f.query("BEGIN"))
        await alice.ask(f.parse("SELECT * FROM range(3)"), f.bind(portal="p"), f.execute("p", 1), f.SYNC)
        assert tags(await alice.ask(f.execute("p", 1), f.SYNC)) == "DsZ"
        await alice.ask(f.query("COMMIT; BEGIN"))
        assert error(await alice.ask(f.execute("p"), f.SYNC))["C"] == "34000"

    run(test)


def test_all_is_skipped_from_an_error_to_sync() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        found = await alice.ask(
            f.parse("SELECT 1", "a"),
            f.parse("SELECT oops"),
            f.parse("SELECT 2", "b"),
            f.bind(statement="a"),
            f.execute(),
            f.query("SELECT 3"),
            f.FLUSH,
            f.SYNC,
        )
        assert tags(found) == "1EZ"
        assert error(found)["P"] == "8"
        assert bench.service.asked == []
        found = await alice.ask(f.describe(b"S", "a"), f.SYNC, f.describe(b"S", "b"), f.SYNC)
        assert tags(found + await alice.until()) == "tTZEZ"

    run(test)


def test_batches_of_a_pipeline_are_answered_in_order() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        data = [f.parse(f"SELECT {n}") + f.bind() + f.execute() + f.SYNC for n in range(20)]
        data[7] = f.parse("SELECT oops") + f.bind() + f.execute() + f.SYNC
        await alice.send(*data)
        found = [await alice.until() for _ in data]
        assert [tags(one) for one in found] == ["12DCZ"] * 7 + ["EZ"] + ["12DCZ"] * 12
        assert [one[2][1][-2:].strip(b"\1") for one in found[:7]] == [str(n).encode() for n in range(7)]

    run(test)


def test_flush_sends_what_there_is() -> None:
    async def test(bench: Bench) -> str:
        alice = await bench.log_in()
        await alice.send(f.parse("SELECT 1"), f.describe(b"S"), f.FLUSH)
        return tags([await alice.receive() for _ in range(3)])

    assert run(test) == "1tT"


@pytest.mark.parametrize(
    ("batch", "sqlstate"),
    [
        ([f.parse("SELECT 1; SELECT 2")], "42601"),
        ([f.parse("SELECT 1", "s"), f.parse("SELECT 2", "s")], "42P05"),
        ([f.parse("SELECT $1", oids=[999_999])], "0A000"),
        ([f.bind(statement="none")], "26000"),
        ([f.describe(b"S", "none")], "26000"),
        ([f.describe(b"P", "none")], "34000"),
        ([f.execute("none")], "34000"),
        ([f.parse("SELECT 1"), f.bind(portal="p"), f.bind(portal="p")], "42P03"),
        ([f.parse("SELECT $1::int"), f.bind()], "08P01"),
        ([f.parse("SELECT 1"), f.bind([b"1"])], "08P01"),
        ([f.parse("SELECT $1::int"), f.bind([b"x"])], "22P02"),
        ([f.parse("SELECT $1::int"), f.bind([b"123"], codes=[1])], "22P03"),
        ([f.parse("SELECT $1::int"), f.bind([b"1"], codes=[0, 0])], "08P01"),
        ([f.parse("SELECT 1"), f.bind(columns=[0, 0])], "08P01"),
        ([f.parse("SELECT 1"), f.bind(columns=[7])], "08P01"),
        ([f.parse("SELECT '" + "x" * 70_000 + "'")], "54000"),
        ([f.parse("SHOW application_name", oids=[23])], "42P02"),
        ([f.parse("SELECT 'changed'"), f.bind(), f.execute()], "55000"),
    ],
)
@pytest.mark.sampled(4, rest="longer")
def test_a_mistake_ends_the_batch_and_leaves_the_connection(batch: list[bytes], sqlstate: str) -> None:
    found, after = ask(batch, [f.parse("SELECT 1"), f.bind(), f.execute()])
    assert (error(found)["S"], error(found)["C"]) == ("ERROR", sqlstate)
    assert tags(after) == "12DCZ"


class Shaped(AnsweringClient):
    """Answers with a column more where `dp_columns` asks for it, as a real client does."""

    def _table(self, text: str, parameters: Sequence[object]) -> pa.Table:
        table = super()._table(text, parameters)
        more = self.settings.dp_columns == "interval"
        return table.append_column("n_low", [[1] * table.num_rows]) if more else table


@pytest.mark.parametrize("value", ["interval", ""])
def test_a_setting_that_changes_the_columns_is_told_before_anything_is_run(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setattr("tests.serve.answers.AnsweringClient", Shaped)
    asked = "SELECT $1::int AS n"

    async def test(bench: Bench) -> tuple[list[f.Message], list[f.Message], list[str]]:
        alice = await bench.log_in()
        await alice.ask(f.parse(asked, "s"), f.bind([b"1"], portal="p", statement="s"), f.SYNC)
        await alice.ask(f.query(f"SET dp_columns = '{value}'"))
        first = await alice.ask(f.bind([b"1"], portal="q", statement="s"), f.execute("q"), f.SYNC)
        before = list(bench.service.asked)
        again = await alice.ask(f.parse(asked), f.bind([b"1"]), f.execute(), f.SYNC)
        return first, again, before

    first, again, before = run(test)
    if value:
        assert error(first)["C"] == "55000"
        assert "nothing was charged" in error(first)["H"]
        assert before == []
        assert rows(again) == [(b"1", b"1")]
    else:  # another setting changes nothing
        assert rows(first) == rows(again) == [(b"1",)]
        assert before == [asked]


def test_statements_and_portals_without_a_name_are_replaced() -> None:
    (found,) = ask(
        [
            f.parse("SELECT 1"),
            f.parse("SELECT 2"),
            f.bind(),
            f.bind(),
            f.execute(),
            f.close(b"P"),
            f.close(b"S"),
        ]
    )
    assert tags(found) == "1122DC33Z"
    assert rows(found) == [(b"2",)]


def test_a_simple_query_forgets_what_has_no_name() -> None:
    async def test(bench: Bench) -> str:
        alice = await bench.log_in()
        await alice.ask(f.parse("SELECT 1"), f.SYNC)
        await alice.ask(f.query("SELECT 2"))
        return error(await alice.ask(f.bind(), f.SYNC))["C"]

    assert run(test) == "26000"


def test_what_is_closed_is_gone_and_closing_nothing_is_no_error() -> None:
    closed, again = ask(
        [f.parse("SELECT 1", "s"), f.close(b"S", "s"), f.close(b"S", "s"), f.close(b"P", "none")],
        [f.bind(statement="s")],
    )
    assert tags(closed) == "1333Z"
    assert error(again)["C"] == "26000"


def test_an_empty_statement_gives_nothing() -> None:
    (found,) = ask([f.parse("-- nothing"), f.describe(b"S"), f.bind(), f.describe(b"P"), f.execute()])
    assert tags(found) == "1tn2nIZ"


def test_commands_of_the_session_can_be_prepared() -> None:
    def batch(text: str) -> list[bytes]:
        return [f.parse(text), f.describe(b"S"), f.bind(), f.describe(b"P"), f.execute()]

    begin, show, setting, deallocate, everything, failed, commit = ask(
        batch("BEGIN"),
        batch("SHOW application_name"),
        batch("SET application_name = 'x'"),
        batch("DEALLOCATE ALL"),
        batch("SHOW ALL"),
        batch("SELECT oops"),
        batch("COMMIT"),
    )
    assert tags(begin) == "1tn2nCZ"
    assert begin[-1] == (b"Z", b"T")
    assert tags(show) == "1tT2TDCZ"
    assert tags(setting) == "1tn2nSCZ"
    assert completed(deallocate) == ["DEALLOCATE ALL"]
    assert len(f.columns(everything[2][1])) == 3
    assert failed[-1] == (b"Z", b"E")
    assert completed(commit) == ["ROLLBACK"]


def test_the_catalogue_sees_named_statements_and_cursors() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        await alice.ask(f.parse("SELECT 1", "s"), f.parse("SELECT 2"), f.SYNC)
        await alice.ask(f.query("BEGIN; DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT 3"))
        client = bench.service.clients[alice.number]
        assert [(row.name, row.statement) for row in client.prepared()] == [("s", "SELECT 1")]
        assert [(row.name, row.hold) for row in client.cursors()] == [("c", True)]
        assert client.in_transaction()

    run(test)


def test_in_a_failed_transaction_nothing_is_prepared_bound_or_run() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        await alice.ask(f.query("BEGIN"))
        await alice.ask(f.parse("SELECT 1", "s"), f.bind(statement="s", portal="p"), f.SYNC)
        await alice.ask(f.query("SELECT oops"))
        for message in (f.parse("SELECT 2"), f.bind(statement="s"), f.execute("p")):
            assert error(await alice.ask(message, f.SYNC))["C"] == "25P02"
        assert bench.service.asked == ["SELECT oops"]

    run(test)


def test_a_copy_and_a_cursor_may_have_parameters() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        copy = [f.parse("COPY (SELECT $1::int) TO STDOUT"), f.bind([b"7"]), f.describe(b"P"), f.execute()]
        found = await alice.ask(*copy, f.SYNC)
        assert tags(found) == "12nHdcCZ"
        declare = [f.parse("DECLARE c CURSOR FOR SELECT * FROM range($1::int)"), f.bind([b"3"]), f.execute()]
        assert completed(await alice.ask(f.query("BEGIN"))) == ["BEGIN"]
        assert completed(await alice.ask(*declare, f.SYNC)) == ["DECLARE CURSOR"]
        found = await alice.ask(f.describe(b"P", "c"), f.SYNC)
        assert [name for name, _, _ in f.columns(found[0][1])] == ["range"]
        found = await alice.ask(
            f.parse("FETCH ALL FROM c"), f.bind(columns=[1]), f.describe(b"P"), f.execute(), f.SYNC
        )
        assert tags(found) == "12TDDDCZ"
        assert rows(found) == [(struct.pack("!q", n),) for n in range(3)]
        assert tags(await alice.ask(f.close(b"P", "c"), f.SYNC)) == "3Z"
        assert error(await alice.ask(f.query("FETCH c")))["C"] == "34000"

    run(test)


def test_statements_and_portals_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portals.PreparedStatements, "most", 3)
    monkeypatch.setattr(portals.Portals, "most", 2)
    full, again, bound = ask(
        [f.parse("SELECT 1", str(n)) for n in range(4)],
        [f.close(b"S", "0"), f.parse("SELECT 1", "4")],
        [f.bind(statement="1", portal=str(n)) for n in range(3)],
    )
    assert (tags(full), error(full)["C"]) == ("111EZ", "54000")
    assert tags(again) == "31Z"
    assert (tags(bound), error(bound)["C"]) == ("22EZ", "54000")


def test_texts_parameters_and_held_rows_are_limited_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        portals.PreparedStatements, "most_bytes", 2 * (2 * len("SELECT 'xxxxxxxx'") + COLUMN + 30)
    )
    monkeypatch.setattr(portals.Portals, "most_bytes", 200)
    monkeypatch.setattr(portals, "MOST_HELD", 1_000)
    texts, parameters, held = ask(
        [f.parse("SELECT 'xxxxxxxx'", str(n)) for n in range(3)],
        [
            *(f.close(b"S", str(n)) for n in range(2)),
            f.parse("SELECT $1", "4"),
            *(f.bind([b"x" * 60], statement="4", portal=str(n)) for n in range(2)),
        ],
        [f.close(b"S", "1"), f.parse("SELECT * FROM range(200)"), f.bind(portal="p"), f.execute("p", 1)],
    )
    assert (tags(texts), error(texts)["C"]) == ("11EZ", "54000")
    assert (tags(parameters), error(parameters)["C"]) == ("3312EZ", "54000")
    assert error(held)["C"] == "54000"


def test_a_failed_statement_is_not_run_again_by_its_portal() -> None:
    async def test(bench: Bench) -> None:
        alice = await bench.log_in()
        await alice.ask(f.parse("SELECT 'secret'", "s"), f.SYNC)
        assert bench.service.asked == []

    run(test)


def test_two_clients_never_see_each_others_statements_and_rows() -> None:
    async def test(bench: Bench) -> None:
        alice, bob = await bench.log_in("alice"), await bench.log_in("bob")
        clients = {b"alice": alice, b"bob": bob}
        for name, client in clients.items():
            await client.ask(f.query(f"BEGIN; SET application_name = '{name.decode()}'"))
            await client.send(f.parse(f"SELECT '{name.decode()}' FROM range(50)", "s"))
            await client.send(f.bind(statement="s", portal="p"), f.SYNC)
        for client in clients.values():
            await client.until()
        for _ in range(5):
            for client in clients.values():
                await client.send(f.execute("p", 9), f.SYNC)
            for name, client in clients.items():
                found = rows(await client.until())
                assert set(found) == {(name,)}
        for name, client in clients.items():
            assert rows(await client.ask(f.query("SHOW application_name"))) == [(name,)]

    run(test)
