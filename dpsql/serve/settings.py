"""Session settings: SET, SHOW, RESET and ParameterStatus.

SET lasts for the connection, unless its transaction, or a savepoint before it, is rolled back. SET LOCAL
lasts to the end of the transaction, and does nothing outside one. RESET goes back to what the client asked
for at its start, else to the default.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Mapping
from typing import Literal

from dpsql import __version__
from dpsql.kernel.loss import Charge
from dpsql.language import Options
from dpsql.lazy_pattern import lazy_pattern
from dpsql.serve.settings_table import (
    SETTINGS,
    Setting,
    SettingError,
    milliseconds,
    parse_most,
    parse_option,
    show_duration,
)

Changes = tuple[tuple[str, str], ...]
"""Settings whose new value the client is told, by ParameterStatus."""
Values = tuple[dict[str, str], dict[str, str]]
"""The values of all settings, and those of SET LOCAL. A dictionary is replaced, never changed."""

SERVER_VERSION = f"15.0 (dpsql {__version__})"
_TABLE: dict[str, Setting] = {setting.name.lower(): setting for setting in SETTINGS}
_WORD = lazy_pattern(r"(?s)(?:\\.|[^\s\\])+")
"""A word of startup options, with a backslash before each space in it."""
_OPTIONS = ("epsilon", "error", "delta", "measure", "confidence")


class Settings:
    """The settings of one connection.

    Parameters
    ----------
    user, database
        Who logged in, and to what.
    statement_timeout
        The server's limit in milliseconds; a client can only lower it.
    startup
        What the client asked for in its startup packet, by name.

    Raises
    ------
    SettingError
        `startup` has an unknown name or a wrong value.
    """

    def __init__(
        self, user: str, database: str, *, statement_timeout: int, startup: Mapping[str, str] | None = None
    ) -> None:
        self.user = user
        self.database = database
        self._limit = statement_timeout
        self._defaults = {name: setting.default for name, setting in _TABLE.items()}
        self._defaults |= {
            "server_version": SERVER_VERSION,
            "session_authorization": user,
            "statement_timeout": show_duration(statement_timeout),
        }
        for name, value in (startup or {}).items():
            setting = _find_setting(name)
            self._defaults[setting.name.lower()] = self._check(setting, value)
        self._values = self._defaults
        self._local: dict[str, str] = {}
        self._before: dict[str, str] | None = None
        """The values at the begin of the transaction; None outside one."""
        self._parsed: tuple[Values, Options] | None = None
        """The options of the values of which they were parsed last."""

    # -- show

    def get(self, name: str) -> str:
        """Return the value of a setting; raise `SettingError` for an unknown name."""
        return self._value(_find_setting(name).name.lower())

    def show(self, name: str) -> tuple[str, str]:
        """Return what SHOW answers: the setting's own spelling as the column's name, and the value."""
        setting = _find_setting(name)
        return setting.name, self._value(setting.name.lower())

    def show_all(self) -> list[tuple[str, str, str]]:
        """Return what SHOW ALL answers: names, values and descriptions, in the order of the names."""
        return [
            (setting.name, self._value(name), setting.description) for name, setting in sorted(_TABLE.items())
        ]

    def as_mapping(self) -> dict[str, str]:
        """Return all values by name, for `pg_settings` and `current_setting`."""
        return {name: value for name, value, _ in self.show_all()}

    def reported_values(self) -> Changes:
        """Return the values of all settings of which the client is told, as at its start."""
        return tuple((s.name, self._value(name)) for name, s in _TABLE.items() if s.reported)

    def _value(self, name: str) -> str:
        return self._local.get(name, self._values[name])

    # -- change

    def set(self, name: str, value: str | None, *, local: bool = False) -> Changes:
        """Change one setting, to its default if `value` is None; return what the client is told."""
        setting = _find_setting(name)
        key = setting.name.lower()
        shown = self._defaults[key] if value is None else self._check(setting, value)
        before = self.reported_values()
        # A default epsilon ends a default error.
        changed = {key: shown, **({"dp_error": ""} if key == "dp_epsilon" and shown else {})}
        if not local:
            self._values = {**self._values, **changed}
            self._local = {name: value for name, value in self._local.items() if name not in changed}
        elif self._before is not None:
            self._local = {**self._local, **changed}
        return self._changes(before)

    def reset(self, name: str | None) -> Changes:
        """Set one setting, or all, to what the client began with; return what the client is told."""
        if name is not None:
            return self.set(name, None)
        before = self.reported_values()
        self._values, self._local = self._defaults, {}
        return self._changes(before)

    def begin(self) -> None:
        """Begin a transaction: settings that change from now on can be undone."""
        self._before = self._values

    @property
    def values(self) -> Values:
        """The values of all settings, kept at a savepoint for `restore`."""
        return self._values, self._local

    def restore(self, values: Values) -> Changes:
        """Go back to the values of a savepoint; return what the client is told."""
        before = self.reported_values()
        self._values, self._local = values
        return self._changes(before)

    def end(self, *, committed: bool) -> Changes:
        """End a transaction; a rollback undoes what was set in it. Return what the client is told."""
        before = self.reported_values()
        if self._before is not None and not committed:
            self._values = self._before
        self._before, self._local = None, {}
        return self._changes(before)

    def _changes(self, before: Changes) -> Changes:
        return tuple(pair for pair in self.reported_values() if pair not in before)

    def _check(self, setting: Setting, value: str) -> str:
        """Return a setting's value as SHOW writes it; raise `SettingError` if the setting cannot have it."""
        if setting.check is None:
            raise SettingError(f'parameter "{setting.name}" cannot be changed', "55P02")
        try:
            shown = setting.check(value)
        except ValueError as error:
            raise _invalid_value(setting, value, str(error)) from None
        return self._timeout(setting, value) if setting.name == "statement_timeout" else shown

    def _timeout(self, setting: Setting, value: str) -> str:
        """Return a timeout within the server's limit; 0 means no limit of one's own."""
        wanted = milliseconds(value) or self._limit
        if wanted > self._limit:
            raise _invalid_value(setting, value, f"the server's limit is {show_duration(self._limit)}")
        return show_duration(wanted)

    # -- what the server uses

    @property
    def defaults(self) -> Options:
        """The options of statements that do not write them, as `dp_epsilon` and the like were set here.

        They are the same object until a setting changes. Whoever sets an epsilon or an error has agreed to
        the price of statements without one.
        """
        if self._parsed is not None and all(map(operator.is_, self._parsed[0], self.values)):
            return self._parsed[1]
        found = Options()
        for name in _OPTIONS:
            value = self._value(f"dp_{name}")
            if value:
                found = parse_option(name, value).apply(found)
        self._parsed = self.values, found
        return found

    @property
    def dp_most(self) -> Charge | None:
        """The most that a statement may cost, to which the session agreed; None if it did not."""
        value = self._value("dp_most")
        return parse_most(value) if value else None

    @property
    def dp_columns(self) -> Literal["", "interval"]:
        """With "interval", counts have their intervals in columns of their own."""
        return "interval" if self._value("dp_columns") == "interval" else ""

    @property
    def statement_timeout(self) -> int:
        """Milliseconds that a statement may run, at most the server's limit."""
        return milliseconds(self._value("statement_timeout"))

    @property
    def extra_float_digits(self) -> int:
        """How floating-point numbers are written."""
        return int(self._value("extra_float_digits"))

    @property
    def client_min_messages(self) -> str:
        """The lowest level of notices that are sent."""
        return self._value("client_min_messages")


def read_options(text: str) -> dict[str, str]:
    r"""Read the `options` of a startup message: `-c name=value` and `--name=value`; `\ ` stands for a space.

    >>> read_options("-c dp_epsilon=0.5 --search-path=public")
    {'dp_epsilon': '0.5', 'search_path': 'public'}
    """
    found: dict[str, str] = {}
    words = iter(re.sub(r"(?s)\\(.)", r"\1", word) for word in _WORD.findall(text))
    for word in words:
        long = word.startswith("--")
        assigned = word[2:] if long else next(words, "") if word == "-c" else word.removeprefix("-c")
        name, separator, value = assigned.partition("=")
        if not (name and separator and word.startswith(("--", "-c"))):
            raise SettingError(
                f'invalid command-line argument for server process: "{word[:63]}"', "42601", "-c name=value"
            )
        found[name.replace("-", "_") if long else name] = value
    return found


def _find_setting(name: str) -> Setting:
    found = _TABLE.get(name.lower())
    if found is None:
        close = difflib.get_close_matches(name.lower(), _TABLE, 1, 0.8)
        hint = f"did you mean {_TABLE[close[0]].name}?" if close else "SHOW ALL lists the settings"
        raise SettingError(f'unrecognized configuration parameter "{name[:63]}"', "42704", hint)
    return found


def _invalid_value(setting: Setting, value: str, why: str) -> SettingError:
    return SettingError(f'invalid value for parameter "{setting.name}": "{value[:63]}"', "22023", why)
