"""Settings: a closed table, what each takes, what the client is told, and transactions."""

from __future__ import annotations

from fractions import Fraction

import pytest

import dpsql
from dpsql.kernel.loss import Charge
from dpsql.language import Options
from dpsql.serve.settings import Settings, read_options
from dpsql.serve.settings_table import SETTINGS, SettingError


def settings(**startup: str) -> Settings:
    return Settings("alice", "clinic", statement_timeout=300_000, startup=startup)


def test_what_a_client_is_told_at_its_start() -> None:
    assert dict(settings(application_name="psql", TimeZone="Europe/Zurich").reported_values()) == {
        "server_version": f"15.0 (dpsql {dpsql.__version__})",
        "server_encoding": "UTF8",
        "client_encoding": "UTF8",
        "DateStyle": "ISO, MDY",
        "IntervalStyle": "postgres",
        "TimeZone": "Europe/Zurich",
        "integer_datetimes": "on",
        "standard_conforming_strings": "on",
        "application_name": "psql",
        "is_superuser": "off",
        "default_transaction_read_only": "on",
        "in_hot_standby": "off",
        "session_authorization": "alice",
    }


def test_defaults_are_values_that_can_be_set() -> None:
    for setting in SETTINGS:
        if setting.check is not None and setting.name != "statement_timeout":
            assert setting.check(setting.default) == setting.default, setting.name
    assert len({setting.name.lower() for setting in SETTINGS}) == len(SETTINGS)


@pytest.mark.parametrize(
    ("name", "value", "shown", "told"),
    [
        ("datestyle", "iso", "ISO, MDY", False),
        ("DateStyle", "ISO, DMY", "ISO, DMY", True),
        ("DateStyle", "European", "ISO, DMY", True),
        ("timezone", "+02:00", "+02:00", True),
        ("client_encoding", "utf-8", "UTF8", False),
        ("client_encoding", "'utf-8'", "UTF8", False),
        ("client_encoding", "UNICODE", "UTF8", False),
        ("application_name", "Zürich" + "x" * 80, "Z??rich" + "x" * 56, True),
        ("EXTRA_FLOAT_DIGITS", " 3 ", "3", False),
        ("jit", "TRUE", "on", False),
        ("standard_conforming_strings", "true", "on", False),
        ("bytea_output", "HEX", "hex", False),
        ("transaction_isolation", "Repeatable Read", "repeatable read", False),
        ("default_transaction_read_only", "off", "off", True),
        ("statement_timeout", "30000", "30s", False),
        ("statement_timeout", "90 s", "90s", False),
        ("statement_timeout", "1500", "1500ms", False),
        ("statement_timeout", "0", "5min", False),
        ("lock_timeout", "0", "0", False),
        ("work_mem", "65536", "64MB", False),
        ("search_path", '"$user", public, x', '"$user", public, x', False),
        ("dp_epsilon", "0.5", "0.5", False),
        ("dp_columns", "INTERVAL", "interval", False),
        ("dp_columns", "", "", False),
    ],
)
def test_values_are_shown_as_postgresql_does(name: str, value: str, shown: str, told: bool) -> None:
    one = settings()
    changes = one.set(name, value)
    assert one.get(name) == shown
    assert one.show(name) == (one.show(name)[0], shown)
    assert changes == (((one.show(name)[0], shown),) if told else ())
    assert one.as_mapping()[one.show(name)[0]] == shown


@pytest.mark.parametrize(
    ("name", "value", "sqlstate"),
    [
        ("no_such", "1", "42704"),
        ("myapp.user", "1", "42704"),
        ("client_encoding", "LATIN1", "22023"),
        ("DateStyle", "SQL, DMY", "22023"),
        ("DateStyle", "", "22023"),
        ("TimeZone", " ", "22023"),
        ("TimeZone", "a\nb", "22023"),
        ("bytea_output", "escape", "22023"),
        ("standard_conforming_strings", "off", "22023"),
        ("IntervalStyle", "iso_8601", "22023"),
        ("extra_float_digits", "4", "22023"),
        ("extra_float_digits", "x", "22023"),
        ("jit", "perhaps", "22023"),
        ("statement_timeout", "301s", "22023"),
        ("statement_timeout", "1 fortnight", "22023"),
        ("statement_timeout", "-1", "22023"),
        ("work_mem", "99999999999", "22023"),
        ("client_min_messages", "fatal", "22023"),
        ("dp_epsilon", "0", "22023"),
        ("dp_epsilon", "x", "22023"),
        ("dp_epsilon", "0.5; SELECT 1", "22023"),
        ("dp_epsilon", "1 2", "22023"),
        ("dp_error", "0", "22023"),
        ("dp_error", "'5%'", "22023"),
        ("dp_confidence", "1", "22023"),
        ("dp_columns", "all", "22023"),
        ("dp_most", "-1", "22023"),
        ("dp_most", "1,1", "22023"),
        ("dp_most", "1,x", "22023"),
        ("dp_most", "1/0", "22023"),
        ("server_version", "16", "55P02"),
        ("session_authorization", "bob", "55P02"),
        ("is_superuser", "on", "55P02"),
    ],
)
def test_what_is_refused(name: str, value: str, sqlstate: str) -> None:
    one = settings()
    before = one.as_mapping()
    with pytest.raises(SettingError) as error:
        one.set(name, value)
    assert error.value.sqlstate == sqlstate
    assert one.as_mapping() == before
    with pytest.raises(SettingError) as error:
        settings(**{name: value})
    assert error.value.sqlstate == sqlstate


def test_a_misspelled_name_gets_a_hint() -> None:
    with pytest.raises(SettingError) as error:
        settings().get("statment_timeout")
    assert error.value.hint == "did you mean statement_timeout?"


def test_a_value_that_is_not_taken_says_why() -> None:
    with pytest.raises(SettingError) as error:
        settings().set("dp_epsilon", "0")
    assert error.value.hint is not None
    assert error.value.hint.startswith("epsilon must lie between")
    with pytest.raises(SettingError, match="statement_timeout") as error:
        settings().set("statement_timeout", "10min")
    assert error.value.hint == "the server's limit is 5min"


def test_a_default_epsilon_ends_a_default_error() -> None:
    one = settings()
    one.set("dp_epsilon", "0.5")
    one.set("dp_error", "50")
    assert one.defaults == Options(epsilon=Fraction(1, 2), error=Fraction(50))
    one.reset("dp_epsilon")
    assert one.defaults.error == 50
    one.begin()
    one.set("dp_epsilon", "0.5", local=True)
    assert one.defaults == Options(epsilon=Fraction(1, 2))
    one.end(committed=True)
    assert one.defaults == Options(error=Fraction(50))
    one.set("dp_epsilon", "0.5")
    assert one.defaults.error is None


def test_what_the_server_uses() -> None:
    one = settings()
    assert one.defaults == Options()
    assert (one.defaults.epsilon, one.defaults.delta, one.defaults.confidence) == (None, None, None)
    assert (one.dp_columns, one.statement_timeout, one.extra_float_digits) == ("", 300_000, 1)
    assert one.client_min_messages == "notice"
    for name, value in (("epsilon", "0.1"), ("delta", "1e-6"), ("confidence", "0.9"), ("measure", "auto")):
        one.set(f"dp_{name}", value)
    one.set("dp_columns", "interval")
    one.set("statement_timeout", "2min")
    assert (one.defaults.epsilon, one.defaults.delta) == (Fraction(1, 10), Fraction(1, 10**6))
    assert one.defaults.measure == "AUTO"
    assert one.defaults.confidence == Fraction(9, 10)
    assert (one.dp_columns, one.statement_timeout) == ("interval", 120_000)
    for value, charge in (
        ("1/2,0", Charge(Fraction(1, 2))),
        ("0.5, 1e-6", Charge(Fraction(1, 2), Fraction(1, 10**6))),
    ):
        one.set("dp_most", value)
        assert one.dp_most == charge
    one.set("dp_most", None)
    assert one.dp_most is None
    one.set("dp_epsilon", "")
    assert one.defaults.epsilon is None


def test_defaults_are_parsed_when_a_value_has_changed() -> None:
    one = settings(dp_epsilon="0.5")
    before = one.defaults
    assert one.defaults is before
    one.begin()
    one.set("dp_epsilon", "2", local=True)
    assert one.defaults.epsilon == 2
    one.set("dp_delta", "1e-6")
    assert (one.defaults.epsilon, one.defaults.delta) == (Fraction(2), Fraction(1, 10**6))
    one.end(committed=False)
    assert one.defaults == before


def test_reset_goes_back_to_the_start() -> None:
    one = settings(application_name="psql", dp_epsilon="0.5")
    one.set("application_name", "x")
    one.set("dp_epsilon", "2")
    one.set("jit", "on")
    assert one.reset("application_name") == (("application_name", "psql"),)
    assert one.get("dp_epsilon") == "2"
    assert one.set("DateStyle", "DMY") == (("DateStyle", "ISO, DMY"),)
    assert one.reset(None) == (("DateStyle", "ISO, MDY"),)
    assert (one.get("jit"), one.defaults.epsilon) == ("off", Fraction(1, 2))
    one.set("jit", "on")
    one.set("jit", None)
    assert one.get("jit") == "off"


def test_a_rollback_undoes_set() -> None:
    one = settings()
    one.begin()
    one.set("dp_epsilon", "0.5")
    assert one.set("application_name", "x") == (("application_name", "x"),)
    assert one.end(committed=False) == (("application_name", ""),)
    assert one.defaults.epsilon is None
    one.begin()
    one.set("dp_epsilon", "0.5")
    assert one.end(committed=True) == ()
    assert one.defaults.epsilon == Fraction(1, 2)
    assert one.end(committed=False) == ()  # outside a transaction there is nothing to undo
    assert one.defaults.epsilon == Fraction(1, 2)


def test_a_rollback_to_a_savepoint_undoes_set() -> None:
    one = settings()
    one.begin()
    one.set("dp_epsilon", "0.5")
    saved = one.values
    one.set("dp_epsilon", "2")
    one.set("application_name", "x", local=True)
    one.set("dp_epsilon", "3")
    assert one.restore(saved) == (("application_name", ""),)
    assert one.defaults.epsilon == Fraction(1, 2)
    one.set("dp_epsilon", "4")
    assert one.restore(saved) == ()  # the savepoint is still there
    assert one.defaults.epsilon == Fraction(1, 2)
    one.reset(None)
    assert one.defaults.epsilon is None
    one.end(committed=False)
    assert one.defaults.epsilon is None


def test_set_local_ends_with_its_transaction() -> None:
    one = settings()
    assert one.set("application_name", "x", local=True) == ()
    assert one.get("application_name") == ""
    one.begin()
    assert one.set("application_name", "x", local=True) == (("application_name", "x"),)
    one.set("dp_epsilon", "1", local=True)
    assert one.defaults.epsilon == 1
    assert one.end(committed=True) == (("application_name", ""),)
    assert one.defaults.epsilon is None
    one.begin()
    one.set("jit", "on", local=True)
    one.set("jit", "off")
    assert one.get("jit") == "off"
    one.set("jit", "on", local=True)
    one.reset("jit")
    assert one.get("jit") == "off"


def test_show_all_is_sorted_and_complete() -> None:
    rows = settings().show_all()
    assert [name.lower() for name, _, _ in rows] == sorted(setting.name.lower() for setting in SETTINGS)
    assert ("session_authorization", "alice", "The user who logged in.") in rows
    assert all(description for _, _, description in rows)
    assert {name: value for name, value, _ in rows} == settings().as_mapping()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("-c dp_epsilon=0.5", {"dp_epsilon": "0.5"}),
        ("  -c  a=1 -cb=2 --c-d=3 ", {"a": "1", "b": "2", "c_d": "3"}),
        ("-c application_name=my\\ tool\\\\", {"application_name": "my tool\\"}),
        ("-c a=", {"a": ""}),
        ("-c search_path=a,b=c", {"search_path": "a,b=c"}),
    ],
)
def test_startup_options(text: str, found: dict[str, str]) -> None:
    assert read_options(text) == found


@pytest.mark.parametrize("text", ["-c", "-c a", "--a", "-e", "x=1", "-c =1"])
def test_wrong_startup_options(text: str) -> None:
    with pytest.raises(SettingError) as error:
        read_options(text)
    assert error.value.sqlstate == "42601"
