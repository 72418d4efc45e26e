"""Wrong rules of which the checker of the kernel sees nothing in the query tree, and why."""

from __future__ import annotations

__all__ = ["UNSEEN"]

_SEVERAL = "each release is a query of its own and is right; how many there are is no matter of one tree"

UNSEEN = {
    "two draws of one common table expression": _SEVERAL,
    "two draws of equal blocks": _SEVERAL,
    "the price of one release for all": "the tree has no price; the kernel charges what its mechanisms cost",
}
"""Of those that counting without each unit notices."""
