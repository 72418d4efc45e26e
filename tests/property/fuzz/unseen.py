"""Wrong rules of which the checker of the kernel sees nothing in the query tree, and why."""

from __future__ import annotations

__all__ = ["UNSEEN", "UNSEEN_NODES"]

_SEVERAL = "each release is a query of its own and is right; how many there are is no matter of one tree"

UNSEEN = {
    "two draws of one common table expression": _SEVERAL,
    "two draws of equal blocks": _SEVERAL,
    "the price of one release for all": "the tree has no price; the kernel charges what its mechanisms cost",
}
"""Of those of the analysis that counting without each unit notices."""

_WRITTEN = "what is proved of a node is its lemma; that the kernel writes what the lemma says is not proved"
_CHOSEN = f"{_WRITTEN}: here, which rows, groups or values a unit keeps"
_ADDED = f"{_WRITTEN}: here, what a unit adds to the number of a group"

UNSEEN_NODES = {
    "groups in everybody's order": _CHOSEN,
    "a group more": _CHOSEN,
    "rows in everybody's order": _CHOSEN,
    "a row more": _CHOSEN,
    "values are kept whoever has them": _CHOSEN,
    "values are chosen by how rare they are": _CHOSEN,
    "KeptValues.keep_once": _CHOSEN,
    "KeptValues.keep_values": _CHOSEN,
    "CappedRows.of_units": _ADDED,
    "FewUnits.weigh": _ADDED,
    "WeightedRows.weigh": _ADDED,
    "WeightedRows.in_full": _ADDED,
    "CappedSum.weigh": _ADDED,
    "CappedSum.measure": _ADDED,
    "CappedSum.size": _ADDED,
    "RowSum.weigh": _ADDED,
    "RowSum.in_full": _ADDED,
    "RowSum.share_of": _ADDED,
    "RowSum.times": _ADDED,
    "the whole is more": _ADDED,
    "a first moment that can be negative": _ADDED,
    "a product of sums": _ADDED,
    "another ratio": _ADDED,
    "no ratio": _ADDED,
    "a ratio that is rounded up": _ADDED,
    "all units twice": _ADDED,
    "units of one row more share rows": _ADDED,
    "units are measured by fewer rows": _ADDED,
    "units share rows by other rows": _ADDED,
    "a first moment that is not what the others leave": _ADDED,
    "averages that lack more than the most": _ADDED,
}
"""Of those of nodes of the kernel, which `test_unit_nodes` counts instead: each of them is noticed there."""
