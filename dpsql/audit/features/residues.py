"""Choose residues of an output's numbers that distinguish two samples: digits not covered by noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.features.numbers import Value
from dpsql.audit.features.rows import Residue
from dpsql.audit.outputs import Outputs

_LOOK = 256
"""Runs of each sample used to decide whether residues differ."""

_MODULI = np.array([2.0, 3.0, 10.0, *(2.0**-bits for bits in range(0, 45, 5))])
"""Moduli tried: small integers in units of a count, and grids far finer than the noise."""

_BUCKETS = 32
_LARGEST = 2.0**53
"""Doubles above this have no fractional digits."""

_UNLIKE = 70.0
"""Chi-square of bucketed residues that two samples of one law exceed with probability 1e-4 a modulus."""


def residues(columns: Sequence[Value], first: Outputs, second: Outputs) -> list[Residue]:
    """Choose the number and the modulus whose residues differ most; empty if no residues differ."""
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
    """Return histograms of the residues, one row for each number and modulus."""
    matrix = np.stack([value.of(outputs) for value in columns])
    ratio = np.where(np.abs(matrix) < _LARGEST, matrix, 0.0)[:, None, :] / _MODULI[:, None]
    bucket = np.rint((ratio - np.floor(ratio)) * _BUCKETS).astype(np.intp) % _BUCKETS
    rows = len(columns) * len(_MODULI)
    place = bucket.reshape(rows, -1) + _BUCKETS * np.arange(rows)[:, None]
    return np.bincount(place.ravel(), minlength=rows * _BUCKETS).reshape(rows, _BUCKETS)
