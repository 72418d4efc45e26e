"""The data: for each experiment the papers' own set where it can be had, else one that stands in for it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from reproduce.baskets import basket_counts

__all__ = ["DataSet", "given", "made"]


@dataclass(frozen=True, slots=True)
class DataSet:
    """Counts of privacy units by item, in a random order that does not depend on them."""

    name: str
    counts: NDArray[np.int64]
    units: int
    """How many privacy units there are: baskets, sessions, users."""
    role: str
    """Whether it is the papers', or for what it stands in; in words."""
    unknown: bool = False
    """Whether it serves the experiments in which nobody knows the items."""

    @property
    def delta(self) -> Fraction:
        """1 / units, as in the Top Stable paper."""
        return Fraction(1, self.units)

    @property
    def descending(self) -> NDArray[np.int64]:
        """The counts, largest first."""
        return np.sort(self.counts)[::-1]


_KNOWN = (
    ("t40i10d100k", 100_000, "the free-gap papers' T40I10D100K, complete", False),
    (
        "bms_webview2",
        77_512,
        "stands in for BMS-POS of the free-gap papers (515,597 units), which could not be had",
        False,
    ),
    (
        "kosarak_first36682",
        36_682,
        "the first 36,682 of the 990,002 sessions of the free-gap papers' Kosarak: counts are 1/27 of theirs",
        False,
    ),
    (
        "gowalla10core",
        29_858,
        "a subset of the Top Stable paper's Gowalla: users and places with ten or more check-ins",
        True,
    ),
    ("brightkite_sepgcn", 5_766, "a filtered subset of the Top Stable paper's BrightKite", True),
    ("retail", 88_162, "stands in for Foursquare of the Top Stable paper, which could not be had", True),
)


def given(folder: Path) -> list[DataSet]:
    """Read `NAME_counts.parquet` (column n) of all sets that are known and there."""
    found = []
    for name, units, role, unknown in _KNOWN:
        path = folder / f"{name}_counts.parquet"
        if path.exists():
            table = pq.read_table(path, columns=["n"])
            # The files are sorted by count, and often items are numbered as they come up, the common ones
            # first: neither may be the order of a stream that is asked for what is common.
            order = np.random.default_rng(0).permutation(len(table))
            found.append(DataSet(name, table["n"].to_numpy()[order].astype(np.int64), units, role, unknown))
    return found


def made(seed: int, baskets: int = 100_000) -> list[DataSet]:
    """Make data on the spot: the same for the same seed."""
    rng = np.random.default_rng(seed)
    stand_in = "made on the spot; stands in for {}, as no --data were given"
    power = (500_000 / np.arange(1, 2001)).astype(np.int64)
    tail = np.maximum(3000 / np.arange(1, 20_001) ** 0.7, 1).astype(np.int64)
    return [
        DataSet(
            "market baskets",
            basket_counts(rng, baskets=baskets),
            baskets,
            stand_in.format("T40I10D100K, whose kind it is"),
        ),
        DataSet("power law", rng.permutation(power), 1_000_000, stand_in.format("BMS-POS and Kosarak")),
        DataSet(
            "long tail",
            rng.permutation(tail),
            30_000,
            stand_in.format("the check-ins of the Top Stable paper"),
            unknown=True,
        ),
        DataSet(
            "baskets, many items",
            basket_counts(rng, baskets=baskets, items=10_000, patterns=4000),
            baskets,
            stand_in.format("its third data set"),
            unknown=True,
        ),
    ]
