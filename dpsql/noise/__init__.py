"""Exact noise: the only place of the project that draws randomness.

`geometric` is exponential noise on a grid, `laplace` its two-sided version, `ranks` breaks ties;
`resolution`, `rate` and `place` put a mechanism's counts and noise on one grid. Bits come from an
`Entropy`: the operating system's, but for tests. No floating point decides anything.
"""

from dpsql.noise.entropy import Entropy, SeededEntropy, SystemEntropy
from dpsql.noise.exact import exp_bounds
from dpsql.noise.geometric import LARGEST, geometric, laplace, truncated_geometric
from dpsql.noise.grid import COUNT_LIMIT, FINEST, place, rate, resolution
from dpsql.noise.ranks import ranks

__all__ = [
    "COUNT_LIMIT",
    "FINEST",
    "LARGEST",
    "Entropy",
    "SeededEntropy",
    "SystemEntropy",
    "exp_bounds",
    "geometric",
    "laplace",
    "place",
    "ranks",
    "rate",
    "resolution",
    "truncated_geometric",
]
