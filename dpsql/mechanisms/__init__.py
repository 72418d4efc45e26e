"""The mechanisms: integer counts and exact noise in, a selection or a measurement with its charge out.

Selection: `noisy_top_k`, `noisy_max`. Measuring what was selected: `laplace` (each count), `anchor`
(their total). Every mechanism is usable on its own and knows no SQL; each module carries its proof.
"""

from dpsql.mechanisms.arguments import Noise
from dpsql.mechanisms.measure import Anchor, Laplace, anchor, laplace
from dpsql.mechanisms.top_k import TopK, noisy_max, noisy_top_k

__all__ = [
    "Anchor",
    "Laplace",
    "Noise",
    "TopK",
    "anchor",
    "laplace",
    "noisy_max",
    "noisy_top_k",
]
