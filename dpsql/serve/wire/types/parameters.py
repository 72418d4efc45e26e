"""Decode the values that a client binds, from PostgreSQL's two formats to Python's types."""

from __future__ import annotations

from dpsql.serve.limits import Budget, size_of
from dpsql.serve.wire.types.oids import parameter
from dpsql.serve.wire.types.parameter_binary import binary_value
from dpsql.serve.wire.types.parameter_text import text_value, utf8


def decode_parameter(data: bytes | None, oid: int, code: int, budget: Budget | None = None) -> object:
    """Return the value of one parameter; None for NULL.

    Moments with a time zone come in UTC.

    Parameters
    ----------
    data
        The bytes of Bind, None for NULL.
    oid
        The type announced in Parse; 0 and 705 stand for text whose type follows from its place.
    code
        0 text, 1 binary.
    budget
        What the values of the message may take together; one of its own if it is left out.

    Raises
    ------
    LimitExceeded
        Before it allocates more than the budget has.
    ParameterError
        With the SQLSTATE that PostgreSQL has for the same mistake.

    >>> decode_parameter(b"42", 20, 0), decode_parameter(bytes.fromhex("0000002a"), 23, 1)
    (42, 42)
    """
    kind = parameter(oid)
    if data is None:
        return None
    budget = budget or Budget("bind")
    if code:
        return binary_value(data, kind, budget)
    budget.take(size_of(data), 0)
    return text_value(utf8(data), kind, budget)
