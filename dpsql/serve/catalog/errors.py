"""Errors of catalogue questions; none has a text of the engine."""

from __future__ import annotations

from dpsql.errors import NotSupportedError, OperationalError, ProgrammingError


class UnknownQuestion(NotSupportedError):  # noqa: N818  the design's name
    """The catalogue cannot answer the question. `shape` names what was not known, for the log."""

    sqlstate = "0A000"
    hint: str | None = None

    def __init__(self, shape: str = "") -> None:
        super().__init__("this catalogue question is not known")
        self.shape = shape

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.shape,)


class UnknownObject(ProgrammingError):  # noqa: N818  PostgreSQL's word for it
    """A name that a question writes as `'name'::regclass` or the like means nothing here."""

    sqlstate = "42P01"
    hint: str | None = None


class UnknownType(UnknownObject):
    """There is no such type, function, schema or role."""

    sqlstate = "42704"


class UnknownSetting(ProgrammingError):  # noqa: N818
    """`current_setting` was asked for a setting that does not exist."""

    sqlstate = "42704"
    hint: str | None = None


class QuestionTimedOut(OperationalError):  # noqa: N818
    """The question took longer than a catalogue question may."""

    sqlstate = "57014"
    hint: str | None = None


class QuestionTooLarge(OperationalError):  # noqa: N818
    """The answer has more rows or bytes, or needs more memory, than a catalogue question may."""

    sqlstate = "54000"
    hint: str | None = None
