"""Exact noise: the only package of the project that draws randomness.

`geometric` is exponential noise on a grid, `laplace` its two-sided version. `geometric_reaching` and
`laplace_reaching` draw only as many bits as a comparison needs. `reaching` finds those of many draws that are
at least a level, and `below` draws others. `ranks` breaks ties.
`box` and `cube` draw one noise for several counts, `gaussian` that of concentrated privacy.
`resolution`, `rate` and `place` put a mechanism's counts and noise on one grid. Bits come from an `Entropy`:
the operating system's, except in audits and tests. No result depends on floating-point arithmetic:
``geometric_noise`` compares integers.
"""

from dpsql.kernel.exact_bounds import exp_bounds, scaled_exp_bounds
from dpsql.kernel.noise.entropy import (
    FINEST,
    STEP_LIMIT,
    Entropy,
    SimulationEntropy,
    SystemEntropy,
    place,
    ranks,
    rate,
    resolution,
    uniform,
)
from dpsql.kernel.noise.geometric_noise import (
    LARGEST,
    geometric,
    geometric_reaching,
    laplace,
    laplace_reaching,
)
from dpsql.kernel.noise.shared_noise import (
    LARGEST_VARIANCE,
    box,
    box_side,
    check_box,
    check_cube,
    check_variance,
    cube,
    gaussian,
)
from dpsql.kernel.noise.skips import Band, below, reaching

__all__ = [
    "FINEST",
    "LARGEST",
    "LARGEST_VARIANCE",
    "STEP_LIMIT",
    "Band",
    "Entropy",
    "SimulationEntropy",
    "SystemEntropy",
    "below",
    "box",
    "box_side",
    "check_box",
    "check_cube",
    "check_variance",
    "cube",
    "exp_bounds",
    "gaussian",
    "geometric",
    "geometric_reaching",
    "laplace",
    "laplace_reaching",
    "place",
    "ranks",
    "rate",
    "reaching",
    "resolution",
    "scaled_exp_bounds",
    "uniform",
]
