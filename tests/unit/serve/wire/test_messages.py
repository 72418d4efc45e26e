"""The framing of messages: their lengths, the parts of their bodies, and texts within them."""

from __future__ import annotations

import struct

import pytest

from dpsql.login import message
from dpsql.serve.wire.messages import (
    MAX_MESSAGE,
    MAX_PASSWORD,
    Body,
    ProtocolViolation,
    WireError,
    check_length,
    text_bytes,
)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 3, MAX_MESSAGE + 1, 2**31 - 1])
def test_a_length_that_cannot_be_is_refused_before_the_body_is_read(length: int) -> None:
    with pytest.raises(ProtocolViolation) as caught:
        check_length(struct.pack("!i", length), MAX_MESSAGE)
    assert caught.value.sqlstate == "08P01"


@pytest.mark.parametrize("length", [4, 5, MAX_PASSWORD])
def test_a_length_counts_itself(length: int) -> None:
    assert check_length(struct.pack("!i", length), MAX_PASSWORD) == length - 4


def test_the_parts_of_a_body_are_read_in_order() -> None:
    body = Body(struct.pack("!h", -2) + text_bytes("Ménière") + struct.pack("!iI", -5, 2**32 - 1) + b"rest")
    assert (body.int16(), body.text(), *body.numbers("iI")) == (-2, "Ménière", -5, 2**32 - 1)
    with pytest.raises(ProtocolViolation):
        body.end()
    assert body.rest() == b"rest"
    body.end()


@pytest.mark.parametrize("read", [Body.int16, Body.int32, Body.count, Body.text, Body.value])
def test_a_part_that_is_not_there_is_a_violation(read: object) -> None:
    assert callable(read)
    with pytest.raises(ProtocolViolation):
        read(Body(b"x"))
    with pytest.raises(ProtocolViolation):
        Body(b"x").take(-1)


def test_a_text_that_is_not_utf8_is_an_error_of_the_statement_alone() -> None:
    with pytest.raises(WireError) as caught:
        Body(b"\xff\0").text()
    assert caught.value.sqlstate == "22021"
    assert not isinstance(caught.value, ProtocolViolation)


def test_a_text_never_ends_its_field_early() -> None:
    assert text_bytes("a\0b") == b"ab\0"
    assert message(b"S", text_bytes("\ud800")) == b"S\0\0\0\x06?\0"
