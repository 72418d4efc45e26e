"""Market baskets made on the spot: items that are bought together, some far more often than others.

In the spirit of the generator behind T40I10D100K (Agrawal and Srikant, "Fast algorithms for mining
association rules", 1994), written anew: baskets are filled with patterns, sets of items, of exponentially
distributed popularity; a pattern shares items with the one before it, and loses some on its way into a
basket.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["basket_counts"]


def basket_counts(
    rng: np.random.Generator,
    *,
    baskets: int = 100_000,
    items: int = 1000,
    patterns: int = 1000,
    per_basket: float = 4.0,
    per_pattern: float = 10.0,
    shared: float = 0.5,
    kept: float = 0.7,
) -> NDArray[np.int64]:
    """Make baskets, and count for each item in how many of them it is.

    Parameters
    ----------
    rng
        Where chance comes from.
    baskets, items, patterns
        How many of each.
    per_basket
        Patterns in a basket, on average.
    per_pattern
        Items in a pattern, on average.
    shared
        Part of a pattern's items that it takes from the one before it.
    kept
        Part of a pattern's items that get into a basket.
    """
    popularity = rng.exponential(size=items) ** 2
    popularity /= popularity.sum()
    members: list[NDArray[np.int64]] = []
    for size in np.maximum(rng.poisson(per_pattern, patterns), 1).tolist():
        old = rng.permutation(members[-1])[: round(shared * size)] if members else np.zeros(0, dtype=np.int64)
        new = rng.choice(items, size, replace=False, p=popularity)
        members.append(np.unique(np.concatenate([old, new])[:size]))
    weight = rng.exponential(size=patterns)
    chosen = rng.poisson(per_basket, baskets)
    basket = np.repeat(np.arange(baskets), chosen)
    pattern = rng.choice(patterns, len(basket), p=weight / weight.sum())
    sizes = np.array([len(m) for m in members])
    item = np.concatenate(members)
    first = np.cumsum(sizes) - sizes
    # One row an item of a pattern in a basket.
    rows = np.repeat(np.arange(len(basket)), sizes[pattern])
    place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes[pattern]) - sizes[pattern], sizes[pattern])
    there = rng.random(len(rows)) < kept
    bought = item[first[pattern[rows[there]]] + place[there]]
    # Sorted, as NumPy's `unique` hashes, which takes ten times as long on so many.
    pairs = np.sort(basket[rows[there]] * items + bought)
    first_of_its_kind = np.append(True, pairs[1:] != pairs[:-1])
    return np.bincount(pairs[first_of_its_kind] % items, minlength=items).astype(np.int64)
