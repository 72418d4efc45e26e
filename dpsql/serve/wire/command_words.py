"""Commands of a PostgreSQL session (`Transaction`, `SetSetting`, ..), and the words they are read from.

They are answered without dpsql's language. Whatever is left or missing is an error with its place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import QueryRefused, QuerySyntaxError
from dpsql.language import StatementText
from dpsql.language.tokens import split_tokens
from dpsql.lazy_dataclass import dataclass
from dpsql.serve.limits import MOST_NAME, size_of

if TYPE_CHECKING:
    import pyarrow as pa


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
        """The tag of the message CommandComplete that answers the command."""
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
        """The tag of the message CommandComplete that answers the command."""
        return f"DISCARD {self.what}"


@dataclass(frozen=True, slots=True)
class Deallocate:
    """DEALLOCATE of a prepared statement, or of all if `name` is None."""

    name: str | None

    @property
    def tag(self) -> str:
        """The tag of the message CommandComplete that answers the command."""
        return "DEALLOCATE ALL" if self.name is None else "DEALLOCATE"


@dataclass(frozen=True, slots=True)
class Declare:
    """A DECLARE statement: the cursor and the query that it is opened for."""

    name: str
    query: str
    at: int
    """The statement behind FOR, and the place of its first character in the text: positions in errors of the
    query are counted from there."""
    text: str
    """The whole command, for `pg_cursors`."""
    hold: bool = False
    """Whether the cursor lives on behind the transaction."""
    binary: bool = False
    """Whether FETCH answers in binary, whatever format is asked for."""
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
        """The tag of the message CommandComplete that answers the command."""
        return "CLOSE CURSOR ALL" if self.name is None else "CLOSE CURSOR"


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The options of one COPY."""

    format: Literal["text", "csv", "binary", "arrow"] = "text"
    """How the rows are written."""
    header: bool = False
    """Whether the columns' names come first (text and csv)."""
    delimiter: str = "\t"
    null: str = "\\N"
    """One character between values, and the text of NULL (text and csv)."""
    quote: str = '"'
    escape: str = '"'
    """The quote of csv, and the character before a quote or itself within one."""
    force_quote: tuple[str, ...] | None = ()
    """The columns that csv quotes always; None for all."""
    release: bool = False
    """Whether the release goes with the rows, as dpsql's own client reads it (arrow)."""


@dataclass(frozen=True, slots=True)
class Copy:
    """COPY (query) TO STDOUT; `at` is the place of the query's first character in the text."""

    query: str
    at: int
    options: CopyOptions


@dataclass(frozen=True, slots=True)
class CopyIn:
    """COPY name (columns) FROM STDIN: an upload, whose columns may have types, and its key."""

    name: str
    columns: tuple[tuple[str, pa.DataType | None], ...]
    key: str | None
    options: CopyOptions
    tag: ClassVar[str] = "COPY"


Command = (
    Transaction
    | SetSetting | ShowSetting | ResetSetting | NoOperation | Discard | Deallocate
    | Declare | Fetch | CloseCursor | Copy | CopyIn
)  # fmt: skip

_TEXTS = frozenset(
    {TokenType.STRING, TokenType.BYTE_STRING, TokenType.HEREDOC_STRING, TokenType.UNICODE_STRING}
    | {TokenType.RAW_STRING, TokenType.NATIONAL_STRING}
)
_NUMBERS = 2**31 - 1
_OF_CSV = ("quote", "escape", "force_quote")
_OF_TEXTS = ("delimiter", "null", "header")


class Words:
    """The tokens of one command, and the place up to which they were read."""

    def __init__(self, text: str) -> None:
        self.source = StatementText(text)
        self._tokens = _split_command(text)
        self._i = 0

    # -- look

    @property
    def more(self) -> bool:
        """Whether there is a token left."""
        return self._i < len(self._tokens)

    @property
    def left(self) -> int:
        """The number of tokens that are left."""
        return len(self._tokens) - self._i

    @property
    def place(self) -> int:
        """The place of the current token in the text; its end behind the last one."""
        return self._tokens[self._i].start - 1 if self.more else len(self.source.text.rstrip())

    def word(self, ahead: int = 0) -> str:
        """Return an unquoted token in upper case; empty for quoted ones and behind the end."""
        i = self._i + ahead
        if i >= len(self._tokens) or self._tokens[i].token_type in {*_TEXTS, TokenType.IDENTIFIER}:
            return ""
        return self._tokens[i].text.upper()

    @property
    def is_quoted(self) -> bool:
        """Whether the current token is a text in quotes."""
        return self.more and self._tokens[self._i].token_type in _TEXTS

    # -- read

    def take(self, *words: str) -> bool:
        """Move behind these words if all of them stand here."""
        if all(self.word(i) == word for i, word in enumerate(words)):
            self._i += len(words)
            return True
        return False

    def either(self, *words: str) -> str:
        """Move behind the first of these words that stands here, and return it; empty if none does."""
        return next((word for word in words if self.take(word)), "")

    def expect(self, *words: str) -> None:
        """Move behind these words, or raise."""
        for word in words:
            if not self.take(word):
                raise self.wrong(f"expected {word}")

    def name(self, what: str) -> str:
        """Return a name: as it is in double quotes, else in lower case."""
        if not self.more or self.is_quoted or not self._is_name():
            raise self.wrong(f"expected {what}")
        token = self._tokens[self._i]
        if size_of(token.text) > MOST_NAME:
            raise self.refuse(f"a name is longer than the {MOST_NAME:,} bytes that are allowed", "shorten it")
        self._i += 1
        return token.text if token.token_type == TokenType.IDENTIFIER else token.text.lower()

    def _is_name(self) -> bool:
        token = self._tokens[self._i]
        return token.token_type == TokenType.IDENTIFIER or token.text.replace("$", "_").isidentifier()

    def dotted_name(self, what: str) -> str:
        """Return a name with or without parts before dots."""
        found = self.name(what)
        while self.take("."):
            found += "." + self.name(what)
        return found

    def text(self, what: str) -> str:
        """Return a text in quotes."""
        if not self.is_quoted:
            raise self.wrong(f"expected {what}, in quotes")
        self._i += 1
        return self._tokens[self._i - 1].text

    def number(self) -> str | None:
        """Move behind a number with its sign and return it as written; None if there is none."""
        sign = "-" if self.word() == "-" else "+" if self.word() == "+" else ""
        i = self._i + bool(sign)
        # `.5` is two tokens.
        point = i + 1 < len(self._tokens) and self._tokens[i].token_type == TokenType.DOT
        if i + point >= len(self._tokens) or self._tokens[i + point].token_type != TokenType.NUMBER:
            return None
        self._i = i + point + 1
        return sign.replace("+", "") + ("0." if point else "") + self._tokens[i + point].text

    def whole(self) -> int | None:
        """Move behind a whole number and return it; None if there is none."""
        begin = self._i
        found = self.number()
        if found is None:
            return None
        if not found.removeprefix("-").isdecimal() or len(found) > 12 or abs(int(found)) > _NUMBERS:
            self._i = begin
            raise self.wrong(f"expected a whole number up to {_NUMBERS:,}")
        return int(found)

    def rest(self) -> tuple[str, int]:
        """Return the text from the current token to the end, and its place."""
        at = self.place
        self._i = len(self._tokens)
        return self.source.text[at:].rstrip(), at

    def inside(self) -> tuple[str, int]:
        """Return the text in the parentheses that begin here, and its place; move behind them."""
        if self.word() != "(":
            raise self.wrong("expected a statement in parentheses")
        depth = 0
        for i in range(self._i, len(self._tokens)):
            word = self._tokens[i].token_type
            depth += (word == TokenType.L_PAREN) - (word == TokenType.R_PAREN)
            if depth == 0:
                at, end = self._tokens[self._i].start, self._tokens[i].start - 1
                self._i = i + 1
                return self.source.text[at:end], at
        raise self.wrong("the parenthesis is not closed")

    # -- errors

    def end(self) -> None:
        """Raise if anything is left."""
        if self.more:
            raise self.wrong("expected the end of the statement")

    def back(self) -> Self:
        """Move before the last token that was read, so that an error points at it."""
        self._i -= 1
        return self

    def wrong(self, message: str, hint: str | None = None) -> QuerySyntaxError:
        """Return the error for the current token."""
        found = self._tokens[self._i].text[:40] if self.more else ""
        shown = f"syntax error at `{found}`: " if found else "the statement ends too early: "
        return self.source.syntax(shown + message, self.place, hint)

    def refuse(self, message: str, hint: str | None = None) -> QueryRefused:
        """Return the error for something that is known and not done; it points at the current token."""
        return self.source.refuse(message, self.place, hint)


def _split_command(text: str) -> list[Token]:
    """Return the tokens of a text; none if a quote is not closed.

    Behind a parenthesis the tokenizer splits every statement; at the beginning it keeps the rest of some
    (FETCH, EXECUTE) as one text. So places are one too large.
    """
    try:
        found = split_tokens("(" + text)[1:]
    except TokenError:
        return []
    return found[:-1] if found and found[-1].token_type == TokenType.SEMICOLON else found


def make_copy_options(words: Words, given: dict[str, Any]) -> CopyOptions:
    """Return the options of COPY that were given, if they fit together, as PostgreSQL checks it."""
    kind = given.get("format", "text")
    for name in _OF_CSV if kind == "text" else (*_OF_CSV, *_OF_TEXTS) if kind != "csv" else ():
        if name in given:
            raise words.refuse(
                f"COPY in format {kind} has no option {name}", "leave it out, or write FORMAT csv"
            )
    if kind != "arrow" and "release" in given:
        raise words.refuse(f"COPY in format {kind} has no option release", "write FORMAT arrow")
    if kind == "csv":
        given = {"delimiter": ",", "null": "", "escape": given.get("quote", '"')} | given
    options = replace(CopyOptions(), **given)
    for name in ("delimiter", "quote", "escape"):
        value = getattr(options, name)
        if len(value) != 1 or not value.isascii() or value in "\r\n\0":
            raise words.refuse(f"the {name} of COPY is one ASCII character, and no line break")
    if any(c in options.null for c in "\r\n\0"):
        raise words.refuse("the text of NULL has a line break", "NULL ''")
    if kind == "text" and options.delimiter in "\\.abcdefghijklmnopqrstuvwxyz0123456789":
        raise words.refuse("the delimiter cannot be told from an escape", "DELIMITER '|'")
    if kind in ("text", "csv") and options.delimiter in options.null:
        raise words.refuse(
            "the delimiter is in the text of NULL", "choose another delimiter, or another NULL"
        )
    if kind == "csv" and (options.delimiter == options.quote or options.quote in options.null):
        raise words.refuse("the quote is the delimiter, or in the text of NULL", "choose another quote")
    return options
