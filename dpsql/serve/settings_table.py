"""The settings that a client may show and set: names, defaults, and the values that each takes.

The table is closed. Most settings are here because tools set or show them; they change nothing, and have
PostgreSQL's defaults. A setting whose other values would change the form of answers takes one value only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from dpsql.errors import ProgrammingError, QueryRefused, QuerySyntaxError
from dpsql.kernel.loss import Charge, exact
from dpsql.language import Set, parse
from dpsql.lazy_dataclass import dataclass
from dpsql.serve.limits import CodedError

Check = Callable[[str], str]
"""Returns a value as it is shown; raises `ValueError` with what is allowed."""


class SettingError(CodedError, ProgrammingError):
    """A setting is unknown, or cannot have a value.

    Its SQLSTATE is `42704` for an unknown setting, `22023` for a wrong value, `55P02` for one that cannot be
    changed, `42601` for startup options that cannot be parsed.
    """


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting; without `check` it cannot be changed."""

    name: str
    default: str
    description: str
    check: Check | None = None
    reported: bool = False
    """Whether the client is told of every change, by ParameterStatus."""


def _one_of(*allowed: str) -> Check:
    def check(value: str) -> str:
        if value.lower() not in allowed:
            raise ValueError(f"the values are {', '.join(allowed)}")
        return value.lower()

    return check


_BOOLEANS = {
    word: shown
    for shown, words in (("on", "on true t yes y 1"), ("off", "off false f no n 0"))
    for word in words.split()
}


def _boolean(value: str) -> str:
    found = _BOOLEANS.get(value.lower())
    if found is None:
        raise ValueError("the values are on and off")
    return found


def _always(shown: str, *also: str) -> Check:
    """Return the check of a setting that has one value, which may be spelled in other ways."""
    accepted = {shown.lower(), *also}

    def check(value: str) -> str:
        if value.lower() not in accepted and _BOOLEANS.get(value.lower()) != shown:
            raise ValueError(f"it is always {shown}")
        return shown

    return check


def _whole(low: int, high: int) -> Check:
    def check(value: str) -> str:
        if not re.fullmatch("[+-]?[0-9]{1,12}", value.strip()) or not low <= int(value) <= high:
            raise ValueError(f"it is a whole number from {low} to {high}")
        return str(int(value))

    return check


def _number(value: str) -> str:
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", value.strip()):
        raise ValueError("it is a number that is not negative")
    return value.strip()


def _measure(units: dict[str, int]) -> tuple[Callable[[str], int], Callable[[int], str]]:
    """Return how an amount with a unit is read, and how it is shown: in the largest unit that divides it."""

    def read(value: str) -> int:
        found = re.fullmatch(r"\s*([0-9]{1,12})\s*([a-zA-Z]*)\s*", value)
        if found is None or (found[2] and found[2] not in units):
            raise ValueError(f"it is a whole number, with one of the units {', '.join(units)} or without")
        amount = int(found[1]) * units.get(found[2], 1)
        if amount > 2**31 - 1:
            raise ValueError("it is too large")
        return amount

    def show(amount: int) -> str:
        unit = max((u for u in units if amount % units[u] == 0), key=units.__getitem__)
        return f"{amount // units[unit]}{unit}" if amount else "0"

    return read, show


milliseconds, show_duration = _measure({"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000})
"""Read and show a duration; a number without unit is milliseconds."""
_kilobytes, _show_size = _measure({"kB": 1, "MB": 1024, "GB": 1024**2, "TB": 1024**3})


def _duration(value: str) -> str:
    return show_duration(milliseconds(value))


def _size(value: str) -> str:
    return _show_size(_kilobytes(value))


def _text(most: int) -> Check:
    def check(value: str) -> str:
        if len(value) > most or not value.isprintable():
            raise ValueError(f"it is a text of at most {most} characters, without control characters")
        return value

    return check


def _application_name(value: str) -> str:
    """Return a name cut to 63 bytes; as in PostgreSQL, each that is not printable ASCII is a `?`."""
    return "".join(chr(c) if 32 <= c < 127 else "?" for c in value.encode()[:63])


def _date_style(value: str) -> str:
    order = "MDY"
    orders = {"mdy": "MDY", "us": "MDY", "noneuropean": "MDY", "dmy": "DMY", "european": "DMY", "ymd": "YMD"}
    for word in value.lower().split(","):
        found = orders.get(word.strip())
        if found is None and word.strip() != "iso":
            raise ValueError("it is ISO with MDY, DMY or YMD: dates are always written as 2026-12-31")
        order = found or order
    return f"ISO, {order}"


def _encoding(value: str) -> str:
    # As in PostgreSQL, letters and digits count: asyncpg sends the name in quotes.
    if "".join(filter(str.isalnum, value)).upper() not in ("UTF8", "UNICODE"):
        raise ValueError("it is always UTF8")
    return "UTF8"


def _time_zone(value: str) -> str:
    if not value.strip():
        raise ValueError("it is the name of a time zone; answers are in UTC, whichever it is")
    return _text(64)(value)


def _unless_empty(read: Callable[[str], object]) -> Check:
    """Return the check of a setting that is empty, or what can be read."""

    def check(value: str) -> str:
        if value.strip():
            read(value)
        return value.strip()

    return check


def parse_option(name: str, value: str) -> Set:
    """Return the parsed default of an option; raise `ValueError` with what it takes."""
    try:
        found = parse(f"SET dp_{name} = {value}")
    except (QuerySyntaxError, QueryRefused) as error:
        raise ValueError(error.message.removeprefix(f"option {name}: ")) from None
    if not isinstance(found, Set) or found.name != name:
        raise ValueError("it is one literal")
    return found


def parse_most(value: str) -> Charge:
    """Return the largest charge of a statement, from `EPSILON` or `EPSILON,DELTA`; raise `ValueError`.

    >>> parse_most("1/2,1e-6")
    Charge(epsilon=0.5, delta=0.000001)
    """
    epsilon, _, delta = value.partition(",")
    found = Charge(exact(epsilon), exact(delta or 0))
    if found.epsilon < 0 or not 0 <= found.delta < 1:
        raise ValueError("it is an epsilon, or an epsilon and a delta: 0.5 or 0.5,1e-6")
    return found


_ISOLATION = _one_of("serializable", "repeatable read", "read committed", "read uncommitted")
_MESSAGES = ("debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning", "error")


def _accept(check: Check | None, **defaults: str) -> tuple[Setting, ...]:
    """Return settings that tools set, which change nothing here."""
    return tuple(
        Setting(name, default, "Accepted for tools; changes nothing here.", check)
        for name, default in defaults.items()
    )


SETTINGS: tuple[Setting, ...] = (
    # dpsql's own.
    *(
        Setting(f"dp_{name}", "", description, _unless_empty(partial(parse_option, name)))
        for name, description in (
            ("epsilon", "Epsilon of statements that name none; setting it agrees to the price."),
            ("error", "Error of statements that name no price; setting it agrees to what that costs."),
            ("delta", "Delta of private statements that name none."),
            ("measure", "Share of epsilon that measures the counts, or AUTO."),
            ("confidence", "Level of intervals, 0.95 by default."),
        )
    ),
    Setting("dp_most", "", "The most that a statement may cost (EPSILON or EPSILON,DELTA), agreed to.",
            _unless_empty(parse_most)),
    Setting("dp_columns", "", "With 'interval', each count has its interval in two more columns.",
            _one_of("", "interval")),
    # What changes an answer or its form.
    Setting("extra_float_digits", "1", "Digits of floating-point numbers; 1 or more: as many as are needed.",
            _whole(-15, 3)),
    Setting("statement_timeout", "0", "Time that a statement may run, up to the server's limit.", _duration),
    Setting("client_min_messages", "notice", "Notices below this level are not sent.", _one_of(*_MESSAGES)),
    # What has one value, because answers have one form.
    Setting("client_encoding", "UTF8", "Encoding of texts.", _encoding, reported=True),
    Setting("DateStyle", "ISO, MDY", "Form of dates.", _date_style, reported=True),
    Setting("IntervalStyle", "postgres", "Form of intervals.", _always("postgres"), reported=True),
    Setting("bytea_output", "hex", "Form of bytes.", _always("hex")),
    Setting("standard_conforming_strings", "on", "Backslashes in texts are literal.", _always("on"),
            reported=True),
    Setting("TimeZone", "UTC", "Accepted for tools; answers are in UTC, with their offset.", _time_zone,
            reported=True),
    Setting("array_nulls", "on", "NULL in arrays is read as NULL.", _always("on")),
    # What tools set.
    Setting("application_name", "", "Name of the client's program.", _application_name, reported=True),
    Setting("search_path", '"$user", public', "Schemas in which names are looked up: always public.",
            _text(1000)),
    Setting("default_transaction_read_only", "on", "Nothing can be written.", _boolean, reported=True),
    Setting("transaction_read_only", "on", "Nothing can be written.", _boolean),
    *_accept(_ISOLATION, default_transaction_isolation="read committed",
               transaction_isolation="read committed"),
    *_accept(_boolean, default_transaction_deferrable="off", transaction_deferrable="off", jit="off",
               row_security="on", synchronize_seqscans="on", check_function_bodies="on",
               escape_string_warning="on", quote_all_identifiers="off", transform_null_equals="off",
               geqo="on", enable_bitmapscan="on", enable_hashagg="on", enable_hashjoin="on",
               enable_indexscan="on", enable_mergejoin="on", enable_nestloop="on", enable_seqscan="on"),
    *_accept(_always("off"), default_with_oids="off"),
    *_accept(_duration, lock_timeout="0", idle_in_transaction_session_timeout="0", idle_session_timeout="0",
               client_connection_check_interval="0"),
    *_accept(None, deadlock_timeout="1s"),
    *_accept(_one_of("on", "off", "local", "remote_write", "remote_apply"), synchronous_commit="on"),
    *_accept(_one_of("safe_encoding", "on", "off"), backslash_quote="safe_encoding"),
    *_accept(_one_of("on", "off", "partition"), constraint_exclusion="partition"),
    *_accept(_one_of("auto", "force_generic_plan", "force_custom_plan"), plan_cache_mode="auto"),
    *_accept(_one_of("base64", "hex"), xmlbinary="base64"),
    *_accept(_one_of("content", "document"), xmloption="content"),
    *_accept(_text(63), default_tablespace="", default_table_access_method="heap", lc_messages="C.UTF-8",
               lc_monetary="C.UTF-8", lc_numeric="C.UTF-8", lc_time="C.UTF-8"),
    *_accept(_text(127), default_text_search_config="pg_catalog.simple"),
    *_accept(_whole(1, 10_000), default_statistics_target="100"),
    *_accept(_whole(1, 2**31 - 1), from_collapse_limit="8", join_collapse_limit="8"),
    *_accept(_whole(0, 2**31 - 1), tcp_keepalives_count="0", tcp_keepalives_idle="0",
               tcp_keepalives_interval="0"),
    *_accept(_size, work_mem="4MB", maintenance_work_mem="64MB", temp_buffers="8MB",
               effective_cache_size="4GB"),
    *_accept(_number, random_page_cost="4", seq_page_cost="1", cursor_tuple_fraction="0.1"),
    # What is shown only.
    Setting("lc_collate", "C.UTF-8", "Order of texts."),
    Setting("lc_ctype", "C.UTF-8", "Classes of characters."),
    Setting("server_encoding", "UTF8", "Encoding of texts in the server.", reported=True),
    Setting("server_version", "", "Version of PostgreSQL whose protocol is spoken.", reported=True),
    Setting("server_version_num", "150000", "The same as a number."),
    Setting("integer_datetimes", "on", "Times are whole microseconds.", reported=True),
    Setting("is_superuser", "off", "Nobody is.", reported=True),
    Setting("in_hot_standby", "off", "The server is no copy of another.", reported=True),
    Setting("session_authorization", "", "The user who logged in.", reported=True),
    Setting("role", "none", "The user who logged in is the only role."),
    Setting("max_connections", "200", "Connections to the server."),
    Setting("max_identifier_length", "63", "Bytes of a name."),
    Setting("max_index_keys", "32", "Columns of an index."),
    Setting("max_prepared_transactions", "0", "Transactions cannot be prepared."),
    Setting("block_size", "8192", "Bytes of a page."),
    Setting("password_encryption", "scram-sha-256", "How passwords are kept."),
    Setting("ssl", "on", "Whether the server offers TLS."),
)  # fmt: skip
