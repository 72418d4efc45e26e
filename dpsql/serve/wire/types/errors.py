"""Errors of encodings, each with the SQLSTATE that the client is told."""

from __future__ import annotations

from dpsql.errors import DataError, InterfaceError, NotSupportedError
from dpsql.serve.errors import CodedError


class ParameterError(CodedError, DataError):
    """The bytes of a parameter are not a value of its type.

    Its SQLSTATE is `22P02` for text of a wrong form, `22P03` for bytes of a wrong form, `22003` out of range,
    `22007` not a date or time, `22008` a date or time out of range, `22021` not UTF-8, `0A000` for a type
    that no parameter can have.
    """


def out_of_range(type_name: str, sqlstate: str = "22003") -> ParameterError:
    """Return the error for a value that a type cannot hold."""
    return ParameterError(f"a parameter is out of range for type {type_name}", sqlstate)


class ProtocolError(InterfaceError):
    """A message of the client contradicts the protocol."""

    sqlstate = "08P01"
    hint: str | None = None


class UnsentType(NotSupportedError):  # noqa: N818  named as the condition, like dpsql's other leaves
    """A column has a type that has no encoding."""

    sqlstate = "0A000"
    hint: str | None = "cast the column to VARCHAR"
