"""A remote session answers as a local one: rows, releases, prices, errors, budgets, settings."""

from __future__ import annotations

import _thread
import datetime
import threading
from fractions import Fraction
from typing import Any

import pytest

import dpsql
from dpsql.dbapi import Connection
from dpsql.errors import (
    BudgetExceeded,
    InterfaceError,
    InternalError,
    NotSupportedError,
    QueryRefused,
    QuerySyntaxError,
)
from dpsql.kernel.loss import Charge
from dpsql.remote import RemoteSession
from dpsql.session import Session

ASK = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) page, COUNT(*) AS n FROM visits GROUP BY page"


def test_rows_and_release_are_those_of_the_server(remote: RemoteSession, local: Session) -> None:
    there, here = remote.run(ASK), local.run(ASK)
    assert there.release is not None
    assert here.release is not None
    assert there.table.equals(here.table)
    assert there.release.table.equals(here.release.table)
    assert there.release.number == here.release.number
    assert here.release.reused is not None  # it was charged for once, by the remote statement
    assert repr(there.release).splitlines()[:4] == repr(here.release).splitlines()[:4]


def test_a_release_of_several_has_its_parts(remote: RemoteSession) -> None:
    release = remote.run(f"WITH r AS ({ASK}) SELECT page, n, (SELECT COUNT(*) FROM r) AS k FROM r").release
    assert release is not None
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) page, COUNT(*) AS n, "
        "(SELECT COUNT(DISTINCT user_id) FROM visits) AS users FROM visits GROUP BY page"
    )
    both = remote.run(text).release
    assert both is not None
    assert [part.number for part in both.parts] == [2, 3]
    assert sum((part.charge for part in both.parts), Charge()) == Charge(Fraction(1, 2))


def test_prices_are_exact(remote: RemoteSession, local: Session) -> None:
    prepared = remote.prepare(ASK.replace("0.5", "0.123456789123"))
    assert (prepared.private, prepared.setting) == (True, False)
    assert prepared.price == Charge(Fraction("0.123456789123"))
    public = remote.prepare("SELECT 1 AS one")
    assert (public.private, public.price) == (False, Charge())
    assert local.budget().spent == Charge()


def test_the_price_of_a_refinement(remote: RemoteSession) -> None:
    count = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(DISTINCT user_id) AS n FROM visits"
    )
    number = remote.run(count).release.number  # type: ignore[union-attr]  # it is private
    text = f"REFINE RELEASE {number} TO 0.75"
    assert remote.prepare(text).price == Charge(Fraction(1, 4))
    remote.execute(remote.prepare(text))
    assert remote.budget().spent == Charge(Fraction(3, 4))


def test_budget_and_cap_are_exact(remote: RemoteSession, local: Session) -> None:
    assert remote.max_epsilon_per_query == Fraction(3)
    remote.run(ASK.replace("0.5", "0.3333333333333333"))
    assert remote.budget() == local.budget()


def test_an_earlier_release_is_read_again(remote: RemoteSession, local: Session) -> None:
    number = remote.run(ASK).release.number  # type: ignore[union-attr]  # it is private
    assert number is not None
    assert repr(remote.release(number)) == repr(local.release(number))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT user_id FROM visits",
        "SELECT page,\n       COUNT(*) AS n\nFROM visitz GROUP BY page",
        "SELECT user_id FROM (SELECT page FROM visits)",
        "INSERT INTO visits VALUES (1)",
        "SELECT page, COUNT(*) FROM visits GROUP BY page TOP 3 TOP 2",
        "SELCT 1",
        "DESCRIBE nothing",
        "EXPLAIN SET dp_epsilon = 1",
    ],
)
@pytest.mark.parametrize("step", ["run", "prepare"])
@pytest.mark.sampled(3, rest="longer")
def test_errors_are_the_servers_with_their_places(
    remote_of_shared: RemoteSession, shared: Session, text: str, step: str
) -> None:
    with pytest.raises(dpsql.Error) as here:
        getattr(shared, step)(text)
    with pytest.raises(dpsql.Error) as there:
        getattr(remote_of_shared, step)(text)
    assert type(there.value) is type(here.value)
    assert str(there.value) == str(here.value)


def test_a_budget_error_has_its_exact_amounts(remote: RemoteSession) -> None:
    with pytest.raises(BudgetExceeded) as caught:
        remote.run(ASK.replace("0.5", "3.25"))
    assert caught.value.requested == (Fraction(13, 4), Fraction(0))
    assert caught.value.remaining[0] == Fraction(3)
    assert caught.value.scope == "query"


def test_parameters_are_written_out(remote: RemoteSession, wire: Any) -> None:
    found = remote.run("SELECT ? AS a, $2 AS b, '?' AS c", ["it's", datetime.date(2026, 1, 31)])
    assert found.table.to_pylist() == [{"a": "it's", "b": datetime.date(2026, 1, 31), "c": "?"}]
    named = remote.run("SELECT $k AS k -- $other\n", {"k": -5})
    assert named.table.to_pylist() == [{"k": -5}]
    with pytest.raises(QuerySyntaxError, match="here is one more"):
        remote.run("SELECT ?, ?", [1])
    with pytest.raises(QueryRefused, match="Fraction"):
        remote.run("SELECT ?", [Fraction(1, 3)])


def test_a_value_that_is_bound_asks_what_its_literal_asks(remote: RemoteSession, local: Session) -> None:
    text = ASK.replace("GROUP", "WHERE page <> {} AND page = {} GROUP")
    written = local.run(text.format("'it''s'", "'a'")).release
    assert written is not None
    for session in (remote, local):
        for marked, values in (
            (text.format("?", "?"), ["it's", "a"]),
            (text.format("$2", "$1"), ["a", "it's"]),
            (text.format("$x", "$y"), {"x": "it's", "y": "a"}),
        ):
            bound = session.run(marked, values).release
            assert bound is not None
            assert (bound.number, bound.reused is None) == (written.number, False)
    assert local.budget().spent == written.charge


def test_one_statement_at_a_time(remote: RemoteSession, wire: Any) -> None:
    for text in ("", " -- nothing\n", ";"):
        with pytest.raises(QuerySyntaxError, match="there is no statement"):
            remote.run(text)
    with pytest.raises(QuerySyntaxError, match="one statement at a time"):
        remote.run("SELECT 1) TO STDOUT; SET dp_epsilon = 3; COPY (SELECT 1")
    assert wire.texts == []
    assert remote.run("SELECT 1 AS a; -- the end").table.to_pylist() == [{"a": 1}]
    assert remote.run("SELECT 2 AS a -- the end").table.to_pylist() == [{"a": 2}]


def test_settings_hold_on_the_server_and_pricing_undoes_them(remote: RemoteSession, wire: Any) -> None:
    bare = "SELECT page, COUNT(*) AS n FROM visits GROUP BY page"
    with pytest.raises(QueryRefused, match="no epsilon"):
        remote.prepare(bare)
    remote.run("SET dp_epsilon = 1")
    with remote.pricing():
        priced = remote.prepare("SET dp_epsilon = 2")
        assert priced.setting
        remote.execute(priced)
        remote.execute(remote.prepare("set dp_confidence = 0.9"))
        assert remote.prepare(bare).price == Charge(Fraction(2))
    assert remote.prepare(bare).price == Charge(Fraction(1))
    assert wire.texts[-3:-1] == ["RESET dp_confidence", "SET dp_epsilon = 1"]


def test_a_default_epsilon_ends_a_default_error_that_pricing_would_restore(
    remote: RemoteSession, wire: Any
) -> None:
    bare = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page"
    remote.run("SET dp_error = 50")
    remote.run("SET dp_epsilon = 1")
    with remote.pricing():
        for text in ("SET dp_error = 500", "SET dp_epsilon = 2", "SET dp_error = 10"):
            remote.execute(remote.prepare(text))
        assert remote.prepare(bare).price.epsilon < 1
    assert remote.prepare(bare).price == Charge(Fraction(1))


def test_a_price_is_told_as_if_nothing_was_stored(remote: RemoteSession) -> None:
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) page, COUNT(*) AS n FROM visits GROUP BY page"
    )
    remote.run(text)
    prepared = remote.prepare(text)
    assert (prepared.price, prepared.full_price) == (Charge(), Charge(Fraction(1)))


def test_a_command_of_the_connection_is_sent_as_it_is(remote: RemoteSession, wire: Any) -> None:
    assert remote.run("SHOW timezone").table.to_pylist() == [{"TimeZone": "UTC"}]
    assert wire.texts == ["SHOW timezone"]
    result = remote.run("SET dp_epsilon = 1")
    assert (result.table.num_columns, result.notices) == (0, ("noted",))


def test_notices_are_kept_where_no_release_says_them(remote: RemoteSession) -> None:
    assert remote.run("SELECT 1 AS a").notices == ("epsilon 1 charged",)
    assert remote.run(ASK).notices == ()


def test_a_server_of_another_kind_is_reported(remote: RemoteSession, wire: Any) -> None:
    wire._reply = lambda sent: type(wire)._reply(wire, sent)
    wire._reply = lambda sent: __import__("dpsql.remote.server_wire").remote.server_wire.Reply(
        bytearray(b"PGCOPY\n")
    )
    with pytest.raises(InternalError, match="is it a dpsql server"):
        remote.run("SELECT 1")


def test_a_closed_session_is_closed(remote: RemoteSession) -> None:
    remote.close()
    remote.close()
    for use in (remote.check, remote.cancel, remote.budget, lambda: remote.run("SELECT 1")):
        with pytest.raises(InterfaceError, match="the connection is closed"):
            use()


def test_an_interrupt_cancels_and_waits_for_the_end(remote: RemoteSession, wire: Any) -> None:
    def interrupted() -> None:
        _thread.interrupt_main()
        assert wire.cancelled.wait(10)

    wire.during = interrupted
    with pytest.raises(KeyboardInterrupt):
        remote.run("SELECT 1")
    assert not wire.lost
    wire.during = lambda: None
    assert remote.run("SELECT 1 AS a").table.to_pylist() == [{"a": 1}]


def test_another_thread_cancels_only_what_runs(remote: RemoteSession, wire: Any) -> None:
    remote.cancel()
    assert not wire.cancelled.is_set()
    running, go_on = threading.Event(), threading.Event()

    def during() -> None:
        running.set()
        assert go_on.wait(10)

    wire.during = during
    thread = threading.Thread(target=remote.run, args=("SELECT 1",))
    thread.start()
    assert running.wait(10)
    remote.cancel()
    assert wire.cancelled.is_set()
    go_on.set()
    thread.join(10)


def test_cursors_work_over_a_remote_session(remote: RemoteSession) -> None:
    connection = Connection(remote)
    with connection, connection.cursor() as cursor:
        cursor.execute(ASK.replace("0.5", "?"), [1])
        assert [column[0] for column in cursor.description or ()] == ["page", "n"]
        assert len(cursor.fetchall()) == 3
        assert cursor.release is not None
        assert "epsilon 1 of 10" in str(cursor._repr_html_())
        cursor.executemany("SELECT ? AS a", [[1], [2]])
        assert cursor.fetchall() == [(2,)]
        with pytest.raises(NotSupportedError, match="executemany"):
            cursor.executemany(ASK, [[], []])
        assert connection.budget().spent == Charge(Fraction(1))
    assert remote.closed
