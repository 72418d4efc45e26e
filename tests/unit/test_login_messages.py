"""Parts of messages that client and server read alike."""

from __future__ import annotations

import struct

import pytest

from dpsql.login import MessageBody, message


def test_parts_are_read_in_order_and_to_the_end() -> None:
    body = MessageBody(struct.pack("!hI", -2, 2**32 - 1) + b"a\xff\0" + struct.pack("!ii", -1, 2) + b"bc")
    assert (body.int16(), body.numbers("I"), body.text()) == (-2, (2**32 - 1,), "a\ufffd")
    assert (body.value(), body.more, body.value(), body.more) == (None, True, b"bc", False)
    body.end()


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"\0\0\0\5abcd", struct.pack("!i", -2)])
def test_a_value_that_is_not_all_there_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"message|length"):
        MessageBody(data).value()


def test_the_first_message_has_no_type() -> None:
    assert message(b"", b"abcd") == b"\0\0\0\x08abcd"
