"""Release one count again with less noise, given its stored release."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.answers import plan_requests
from dpsql.answers.different_values import DifferentValues
from dpsql.answers.every_count import EveryCount
from dpsql.answers.method import NoisyResult, Quote
from dpsql.answers.table import declared_values
from dpsql.answers.whole_domain import WholeDomain
from dpsql.estimates import LaplaceNoise, Measurement, from_measurement
from dpsql.estimates.noise_laws import Law, Source
from dpsql.estimates.predictions import half_width, stddev
from dpsql.kernel import mechanisms
from dpsql.kernel.loss import Charge
from dpsql.kernel.mechanisms import Gaussian
from dpsql.language import Scalar
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.analysis import Plan
    from dpsql.answers.method import Method
    from dpsql.kernel.levels import Level
    from dpsql.kernel.release import Run

_EXACT = 1 << 53
"""Grid steps below this are exact in a released DOUBLE."""


@dataclass(frozen=True, slots=True)
class RefinedCount:
    """Releases the one count of a plan at a larger epsilon, of which what it cost before is paid."""

    plan: Plan
    place: int
    mechanism: mechanisms.Refinement
    released: Level
    """The release before, as the ledger has it."""
    quote: Quote

    @classmethod
    def of(
        cls, first: Method, rows: pa.Table, level: Level | None, paid: Fraction, epsilon: Fraction
    ) -> RefinedCount:
        """Plan a refinement to `epsilon`, where `rows` cost `paid` with all releases that they refine.

        `first` is the method that released the count first: its grid is that of all refinements.
        Raises `ValueError` with the reason if the count cannot be refined.
        """
        if isinstance(first, DifferentValues):
            raise ValueError("how many declared values there are has no noise of its own")  # noqa: TRY004  as below
        if not isinstance(first, (EveryCount, WholeDomain)) or not isinstance(first.plan.selection, Scalar):
            raise ValueError("only a count without GROUP BY can be refined")  # noqa: TRY004  one type for callers
        plan, (place, bits) = first.plan, _place_and_grid(first)
        column = next((i for i, output in enumerate(plan.outputs) if output.kind == "count"), None)
        if column is None:
            raise ValueError("it does not show the count itself")
        value = rows.column(column)[0].as_py()
        if not abs(value) * 2**bits < _EXACT or not (value * 2**bits).is_integer():
            raise ValueError("its value is rounded, so its noise is not known exactly")
        if plan.counts[place].share is not None:
            raise ValueError("a sum is not refined, only a count")
        most = declared_values(plan.counts[place])
        if most is not None and value in (0, most):
            # The mechanism goes on from the noisy value, which is not what was shown.
            raise ValueError("its value is cut to the values that are declared, so its noise is not known")
        if level is None:
            raise ValueError("its noise was not kept")
        bound = plan.counts[place].bound
        mechanism = mechanisms.Refinement.plan(1, [paid, epsilon], sensitivity=bound, resolution=bits)
        last = mechanisms.Laplace.plan(1, epsilon, sensitivity=bound, resolution=bits)
        quote = Quote(
            # What it costs beside the first release is the difference where epsilons add.
            Charge(epsilon - paid),
            "Laplace noise, refined",
            float(last.scale),
            "all for measuring",
            stddev(last),
            half_width(last, plan_requests.confidence_of(plan)),
            None,
            divided=mechanism.further,
        )
        return cls(plan, place, mechanism, level, quote)

    def run(self, run: Run) -> NoisyResult:
        """Draw the less noisy value, given the released one."""
        value = run.refine(self.mechanism, self.place, self.released)
        noise = LaplaceNoise(self.mechanism.scales[-1], self.mechanism.resolution)
        source = Source(Law("laplace"), float(noise.scale), 2.0**-self.mechanism.resolution)
        measured = Measurement(value, noise, self.quote.half_width, source, self.place)
        alone = from_measurement(measured)
        estimate = alone.at_once(alone)  # there is no other number
        estimates = [estimate if place == self.place else None for place in range(len(self.plan.counts))]
        return NoisyResult(run.every(), tuple(estimates))


def _place_and_grid(first: EveryCount | WholeDomain) -> tuple[int, int]:
    """Return the place of the only count of a release, and b of its grid of 2^-b counts.

    Its noise must be discrete Laplace on that grid. Box noise on one count and one public zero is: with the
    common shift left open, the difference d of the two has a probability proportional to e^(-rate |d|). Cube
    noise on one count is by definition.
    """
    if isinstance(first, EveryCount):
        if len(first.blocks) == 1 and len(first.blocks[0].places) == 1:
            return first.blocks[0].places[0], first.blocks[0].noise(1).resolution
    elif isinstance(first.mechanism, Gaussian):
        raise ValueError("its noise is Gaussian: ask for the first release with noise = LAPLACE")  # noqa: TRY004
    elif len(first.noise.measured) == 1 and not first.noise.differences and first.mechanism.pads <= 1:
        return first.noise.measured[0], (first.mechanism.unit // first.mechanism.bounds[0]).bit_length() - 1
    raise ValueError("only a release of one count can be refined")
