"""The command line, `dpsql.connect` and SQLAlchemy take a server in place of a policy."""

from __future__ import annotations

import csv
import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas
import pytest
import sqlalchemy

import dpsql
from dpsql.cli import main
from dpsql.cli.narrate import ExitCode
from dpsql.errors import InterfaceError, OperationalError
from dpsql.session import Session

ASK = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) page, COUNT(*) AS n FROM visits GROUP BY page"
SERVER = ("-h", "localhost", "-p", "6000", "-U", "alice")


@pytest.fixture
def target(wire: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the servers that were spoken to."""
    from dpsql import remote as remote_session

    found: list[Any] = []

    def connected(target: Any, password: str) -> Any:
        found.append((target, password))
        wire.lost = False
        return wire

    monkeypatch.setattr(remote_session, "ServerWire", connected)
    monkeypatch.delenv("DPSQL_USER", raising=False)
    return found


# -- the command line


def test_statements_run_on_the_server(
    target: list[Any], local: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main([*SERVER, "-d", "shop", "--sslrootcert", "ca.pem", "--format", "csv", "-c", ASK]) == ExitCode.OK
    )
    ((spoken_to, password),) = target
    assert (spoken_to.label, spoken_to.user, spoken_to.database) == ("localhost:6000", "alice", "shop")
    assert (spoken_to.sslrootcert, password) == ("ca.pem", "a password of the test")
    done = capsys.readouterr()
    assert done.out.splitlines()[0] == "page,n"
    assert "epsilon 0.5 of 10" in done.err
    assert "9.5 of 10 left" in done.err
    assert "not verified" not in done.err
    assert local.budget().spent.epsilon == 0.5


def test_a_batch_is_priced_before_it_runs(
    target: list[Any], local: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.sql"
    file.write_text(f"SET dp_epsilon = 2;\nSELECT page, COUNT(*) AS n FROM visits GROUP BY page;\n{ASK};")
    assert main([*SERVER, "--dry-run", "-f", str(file)]) == ExitCode.OK
    assert "together epsilon 2.5; epsilon 10, delta 1e-5 is left; nothing was run" in capsys.readouterr().err
    assert local.defaults.epsilon is None
    file.write_text(f"{ASK};\n\nSELECT user_id\nFROM visits;")
    assert main([*SERVER, "-f", str(file)]) == ExitCode.REFUSED
    err = capsys.readouterr().err
    assert f"{file}:3" in err
    assert "line 3: SELECT user_id" in err
    assert main([*SERVER, "-c", ASK.replace("0.5", "3.5")]) == ExitCode.BUDGET_EXCEEDED
    assert local.budget().spent.epsilon == 0


def test_a_total_is_divided_over_a_batch(
    target: list[Any], local: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    count = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"
    batch = f"{count}; {count} WHERE page = 'home'; {ASK}"
    assert main([*SERVER, "--dry-run", "--epsilon-total", "1.5", "-c", batch]) == ExitCode.OK
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    prices = [float(row["epsilon"]) for row in rows]
    assert prices[0] == prices[1]
    assert 0.48 < prices[0] <= 0.5
    assert prices[2] == 0.5
    assert (local.defaults.epsilon, local.defaults.error) == (None, None)
    assert main([*SERVER, "--error", "50", "-c", count]) == ExitCode.OK
    assert local.budget().spent.epsilon == Fraction("0.06")
    capsys.readouterr()
    assert main([*SERVER, "--error", "5%", "-c", count]) == ExitCode.USAGE
    assert "--error 50" in capsys.readouterr().err


def test_the_shell_runs_on_the_server(
    target: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io
    import sys

    lines = f"{ASK};\n.budget\n.tables visits\n.explain\n.policy\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    assert main([*SERVER, "--on-error", "continue", "--format", "csv"]) == ExitCode.QUERY_FAILED
    done = capsys.readouterr()
    assert "epsilon,10,0.5,9.5" in done.out
    assert "page,VARCHAR,declared" in done.out
    assert "guarantee" in done.out
    assert "the policy lies on the server" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-h", "h", "-p", "x.toml"], "-p is the server's port"),
        (["-h", "h", "-p", "1", "--port", "2"], "-p is the server's port"),
        (["-h", "h", "--port", "0"], "--port"),
        (["-h", "h", "-p", "99999"], "port"),
        (["-h", "h", "--analyst", "bob"], "-U NAME in place of --analyst"),
        (["-U", "alice", "-c", "SELECT 1"], "goes with -h HOST"),
        (["--port", "1", "-c", "SELECT 1"], "goes with -h HOST"),
        (["-h", "h", "-U", "alice", "check"], "not on a server"),
    ],
)
def test_wrong_options(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == ExitCode.USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["-h"], ["-h", "--dry-run"], ["--help"]])
def test_h_alone_is_for_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == ExitCode.OK
    assert "Exit codes:" in capsys.readouterr().out


def test_commands_have_h_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["budget", "-h"]) == ExitCode.OK
    assert "--clear-failures" in capsys.readouterr().out


# -- Python


def test_connect_takes_a_url(target: list[Any]) -> None:
    with dpsql.connect("dpsql://alice@localhost:6000/shop", password="given") as connection:
        assert connection.execute(ASK).release is not None
        assert connection.budget().spent.epsilon == 0.5
        assert connection.release(1).number == 1
    assert [password for _, password in target] == ["given"]


def test_connect_refuses_what_belongs_to_the_other_form(policy: Path) -> None:
    with pytest.raises(InterfaceError, match="by the login"):
        dpsql.connect("dpsql://alice@h", analyst="bob")
    with pytest.raises(InterfaceError, match="a policy on this machine needs none"):
        dpsql.connect(policy, password="x")


# -- SQLAlchemy


def test_sqlalchemy_takes_a_url(target: list[Any]) -> None:
    engine = sqlalchemy.create_engine("dpsql://alice:se%2Fcret@localhost:6000/shop?dp_epsilon=0.5")
    frame = pandas.read_sql(ASK, engine)
    assert list(frame.columns) == ["page", "n"]
    names = sqlalchemy.inspect(engine).get_table_names()
    assert names == ["visits"]
    columns = sqlalchemy.inspect(engine).get_columns("visits")
    assert [column["name"] for column in columns] == ["user_id", "page"]
    engine.dispose()
    spoken_to, password = target[0]
    assert (spoken_to.label, spoken_to.user, password) == ("localhost:6000", "alice", "se/cret")
    assert spoken_to.settings == (("dp_epsilon", "0.5"),)


def test_sqlalchemy_hides_the_password_of_an_error(target: list[Any]) -> None:
    engine = sqlalchemy.create_engine("dpsql://alice:se%2Fcret@localhost:6000/shop?wrong=1")
    with pytest.raises(sqlalchemy.exc.InterfaceError, match="no parameter wrong") as caught:
        engine.connect()
    assert "cret" not in str(caught.value)


def test_a_lost_connection_is_a_disconnect(target: list[Any], wire: Any) -> None:
    engine = sqlalchemy.create_engine("dpsql://alice@localhost/shop")
    with engine.connect() as connection:
        lost = OperationalError("the server is shutting down")
        lost.sqlstate = "57P01"
        wire.during = lambda: (_ for _ in ()).throw(lost)
        with pytest.raises(sqlalchemy.exc.OperationalError) as caught:
            connection.exec_driver_sql("SELECT 1")
        assert caught.value.connection_invalidated
    engine.dispose()


def test_python_reads_prices_and_frames_from_a_server(target: list[Any]) -> None:
    with dpsql.connect("dpsql://alice@localhost:6000/shop", password="a password") as con:
        found = con.explain(ASK)
        assert (found.private, found.charge.epsilon, found.remaining.epsilon) == (
            True,
            Fraction(1, 2),
            Fraction(10),
        )
        assert con.budget().spent.epsilon == 0
        answer = con.sql(ASK)
        assert answer.df().columns.to_list() == ["page", "n"]
        assert answer.release is not None
        assert answer.release.to_svg().startswith("<svg ")
        assert con.explain(ASK).price == "costs nothing; epsilon 9.5, delta 1e-5 is left"
        with pytest.raises(dpsql.QueryRefused) as refused:
            con.explain("SELECT pge, COUNT(*)\nFROM visits GROUP BY pge")
        assert refused.value.line == 1
