"""Draw random keys, salts, nonces and tokens. Noise of answers is drawn in `dpsql.kernel.noise` alone."""

from __future__ import annotations

import base64
import secrets


def draw_key(size: int) -> bytes:
    """Return random bytes of the system's generator."""
    return secrets.token_bytes(size)


def draw_number(bits: int) -> int:
    """Return a random number from 0 to 2**bits - 1."""
    return secrets.randbits(bits)


def draw_text(size: int) -> str:
    """Return random bytes as letters, digits, `-` and `_`.

    >>> len(draw_text(32))
    43
    """
    return base64.urlsafe_b64encode(draw_key(size)).rstrip(b"=").decode()
