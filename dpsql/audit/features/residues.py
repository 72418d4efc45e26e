"""Choose residues of an output's numbers that tell two samples apart: digits the noise does not cover."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpsql.audit.features.rows import Residue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpsql.audit.features.numbers import Value
    from dpsql.audit.outputs import Outputs

__all__ = ["residues"]

_LOOK = 256
"""Runs of each sample that decide whether residues are looked at."""

_MODULI = np.array([2.0, 3.0, 10.0, *(2.0**-bits for bits in range(0, 45, 5))])
"""What numbers are divided by: whole steps of noise, and grids far below the noise."""

_BUCKETS = 32
_LARGEST = 2.0**53
"""Numbers beyond this have no digits below one."""

_UNLIKE = 70.0
"""Chi-square of residues in buckets that two samples of one law exceed with chance 1e-4 for each modulus."""


def residues(columns: Sequence[Value], first: Outputs, second: Outputs) -> list[Residue]:
    """Choose the number and the modulus whose residues differ most; none if no residues differ."""
    if not columns:
        return []
    counts = [_bucketed(columns, outputs.head(_LOOK)) for outputs in (first, second)]
    unlike = (np.square(counts[0] - counts[1]) / np.maximum(counts[0] + counts[1], 1)).sum(axis=1)
    best = int(np.argmax(unlike))
    if unlike[best] < _UNLIKE:
        return []
    column, modulus = divmod(best, len(_MODULI))
    return [Residue(columns[column], float(_MODULI[modulus]))]


def _bucketed(columns: Sequence[Value], outputs: Outputs) -> NDArray[np.int64]:
    """Count residues in buckets, a row for each number and modulus."""
    matrix = np.stack([value.of(outputs) for value in columns])
    ratio = np.where(np.abs(matrix) < _LARGEST, matrix, 0.0)[:, None, :] / _MODULI[:, None]
    bucket = np.rint((ratio - np.floor(ratio)) * _BUCKETS).astype(np.intp) % _BUCKETS
    rows = len(columns) * len(_MODULI)
    place = bucket.reshape(rows, -1) + _BUCKETS * np.arange(rows)[:, None]
    return np.bincount(place.ravel(), minlength=rows * _BUCKETS).reshape(rows, _BUCKETS)
