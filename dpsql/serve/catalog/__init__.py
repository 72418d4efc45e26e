"""The catalogue: what tools ask of `pg_catalog` and `information_schema`, answered from the policy alone.

Here are the facts that a question is answered from, and the errors.

``catalog``      the object that a server asks
``parse``        PostgreSQL's text to a tree; who answers it; limits on what DuckDB makes of it
``translate``    the tree to DuckDB's SQL, which sqlglot writes
``expressions``  the few nodes and calls that DuckDB reads in another sense
``conversions``  conversions between PostgreSQL's types
``postgres``     PostgreSQL's own rows and types, and the closed list of functions, each a macro
``database``     the policy's tables and views in DuckDB (with `policy.sql`, `session.sql`), and the check of
                 SQL by DuckDB's own parser
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Literal

from dpsql.errors import NotSupportedError, OperationalError, ProgrammingError
from dpsql.serve.catalog.postgres import ALL_SCHEMAS, load_data


class Route(Enum):
    """Who answers a statement: the catalogue, the data, or nobody."""

    CATALOG = "catalogue"
    """All its relations lie in the two catalogue schemas, or it has none."""
    DATA = "data"
    """None of its relations lies there, or it is no query."""
    BOTH = "both"
    """Some do, others do not: nobody."""


@dataclass(frozen=True, slots=True)
class Encryption:
    """How a connection is encrypted: a row of `pg_stat_ssl`; without a version it is not."""

    version: str | None = None
    cipher: str | None = None
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """A connection of the own analyst: a row of `pg_stat_activity`, without its statement."""

    pid: int
    user: str
    application_name: str = ""
    address: str | None = None
    port: int | None = None
    started: datetime | None = None
    state: Literal["active", "idle", "idle in transaction", "idle in transaction (aborted)"] = "idle"
    encryption: Encryption | None = None
    """None where it is not known: for a connection by another protocol."""


@dataclass(frozen=True, slots=True)
class PreparedRow:
    """A prepared statement of the connection: a row of `pg_prepared_statements`."""

    name: str
    statement: str
    prepared: datetime | None = None
    parameters: Sequence[str] = ()
    from_sql: bool = False


@dataclass(frozen=True, slots=True)
class CursorRow:
    """A cursor of the connection: a row of `pg_cursors`."""

    name: str
    statement: str
    hold: bool = False
    binary: bool = False
    scroll: bool = False
    created: datetime | None = None


@dataclass(frozen=True)
class SessionFacts:
    """The facts of the session that asks."""

    user: str
    pid: int
    settings: Mapping[str, str] = field(default_factory=dict)
    connections: Sequence[ConnectionRow] = ()
    prepared: Sequence[PreparedRow] = ()
    cursors: Sequence[CursorRow] = ()
    address: str | None = None
    port: int | None = None

    @property
    def schemas(self) -> tuple[str, ...]:
        """The schemas of `search_path` that exist, in order."""
        path = next((value for name, value in self.settings.items() if name == "search_path"), "public")
        named = [part.strip().strip('"') for part in path.split(",")]
        return tuple(dict.fromkeys(name for name in named if name in ALL_SCHEMAS))

    @property
    def implicit_schemas(self) -> tuple[str, ...]:
        """The schemas in which names are looked up: `pg_catalog` first, unless the path names it."""
        return self.schemas if "pg_catalog" in self.schemas else ("pg_catalog", *self.schemas)

    def all_settings(self) -> dict[str, str]:
        """Return the values of all settings as `SHOW` writes them, by their names in lower case."""
        found = {str(row["name"]).lower(): str(row["shown"]) for row in load_data().settings}
        return found | {name.lower(): value for name, value in self.settings.items()}


SERVER_STARTED = datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Signal:
    """A call of `pg_cancel_backend` or `pg_terminate_backend`."""

    kind: Literal["cancel", "terminate"]
    pid: int
    column: str
    """The name of the one boolean column of the answer."""
    rows: bool = False
    """Whether the answer has no row for a connection that is not there: `.. FROM pg_stat_activity`."""


# Errors of catalogue questions; none has a text of the engine.


class UnknownQuestion(NotSupportedError):  # noqa: N818  the design's name
    """The catalogue cannot answer the question. `shape` names what was not known, for the log."""

    def __init__(self, shape: str = "") -> None:
        super().__init__("this catalogue question is not known")
        self.shape = shape

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.shape,)


class UnknownObject(ProgrammingError):  # noqa: N818  PostgreSQL's word for it
    """A name that a question writes as `'name'::regclass` or the like means nothing here."""

    sqlstate = "42P01"


class UnknownType(UnknownObject):
    """There is no such type, function, schema or role."""

    sqlstate = "42704"


class UnknownSetting(ProgrammingError):  # noqa: N818
    """`current_setting` was asked for a setting that does not exist."""

    sqlstate = "42704"


class QuestionTimedOut(OperationalError):  # noqa: N818
    """The question took longer than a catalogue question may."""

    sqlstate = "57014"


class QuestionTooLarge(OperationalError):  # noqa: N818
    """The answer has more rows or bytes, or needs more memory, than a catalogue question may."""

    sqlstate = "54000"
