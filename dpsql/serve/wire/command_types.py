"""The commands of a PostgreSQL session, which are answered without dpsql's language."""

from __future__ import annotations

from typing import ClassVar, Literal

from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Transaction:
    """A command of transactions; its modes mean nothing, as nothing is written.

    `name` is that of a savepoint. With `chain` a new transaction begins behind the one that ends.
    """

    kind: Literal["BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "ROLLBACK TO"]
    name: str = ""
    chain: bool = False

    @property
    def tag(self) -> str:
        """The tag of CommandComplete."""
        return "ROLLBACK" if self.kind == "ROLLBACK TO" else self.kind


@dataclass(frozen=True, slots=True)
class SetSetting:
    """SET of one setting; the value None stands for DEFAULT. `local` values end with the transaction."""

    name: str
    value: str | None
    local: bool = False
    tag: ClassVar[str] = "SET"


@dataclass(frozen=True, slots=True)
class ShowSetting:
    """SHOW of one setting; SHOW ALL, with descriptions, if `name` is None."""

    name: str | None
    tag: ClassVar[str] = "SHOW"


@dataclass(frozen=True, slots=True)
class ResetSetting:
    """RESET of one setting, or of all if `name` is None."""

    name: str | None
    tag: ClassVar[str] = "RESET"


@dataclass(frozen=True, slots=True)
class NoOperation:
    """A command with nothing to do: LISTEN, UNLISTEN, SET CONSTRAINTS, SET TRANSACTION, RESET ROLE."""

    tag: str


@dataclass(frozen=True, slots=True)
class Discard:
    """DISCARD: `ALL` forgets settings, cursors and prepared statements; the others have nothing to forget."""

    what: Literal["ALL", "PLANS", "SEQUENCES", "TEMP"]

    @property
    def tag(self) -> str:
        """The tag of CommandComplete."""
        return f"DISCARD {self.what}"


@dataclass(frozen=True, slots=True)
class Deallocate:
    """DEALLOCATE of a prepared statement, or of all if `name` is None."""

    name: str | None

    @property
    def tag(self) -> str:
        """The tag of CommandComplete."""
        return "DEALLOCATE ALL" if self.name is None else "DEALLOCATE"


@dataclass(frozen=True, slots=True)
class Declare:
    """DECLARE of a cursor.

    Attributes
    ----------
    query, at
        The statement behind FOR, and the place of its first character in the text: positions in errors of
        the query are counted from there.
    text
        The whole command, for `pg_cursors`.
    hold
        Whether the cursor lives on behind the transaction.
    binary
        Whether FETCH answers in binary, whatever format is asked for.
    """

    name: str
    query: str
    at: int
    text: str
    hold: bool = False
    binary: bool = False
    tag: ClassVar[str] = "DECLARE CURSOR"


@dataclass(frozen=True, slots=True)
class Fetch:
    """FETCH of the next `count` rows of a cursor, or of all if it is None; or MOVE behind them."""

    name: str
    count: int | None = 1
    move: bool = False


@dataclass(frozen=True, slots=True)
class CloseCursor:
    """CLOSE of a cursor, or of all if `name` is None."""

    name: str | None

    @property
    def tag(self) -> str:
        """The tag of CommandComplete."""
        return "CLOSE CURSOR ALL" if self.name is None else "CLOSE CURSOR"


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The options of one COPY.

    Attributes
    ----------
    format
        How the rows are written.
    header
        Whether the columns' names come first (text and csv).
    delimiter, null
        One character between values, and the text of NULL (text and csv).
    quote, escape
        The quote of csv, and the character before a quote or itself within one.
    force_quote
        The columns that csv quotes always; None for all.
    release
        Whether the release goes with the rows, as dpsql's own client reads it (arrow).
    """

    format: Literal["text", "csv", "binary", "arrow"] = "text"
    header: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    escape: str = '"'
    force_quote: tuple[str, ...] | None = ()
    release: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """COPY (query) TO STDOUT; `at` is the place of the query's first character in the text."""

    query: str
    at: int
    options: CopyOptions


Command = (
    Transaction
    | SetSetting | ShowSetting | ResetSetting | NoOperation | Discard | Deallocate
    | Declare | Fetch | CloseCursor | Copy
)  # fmt: skip
