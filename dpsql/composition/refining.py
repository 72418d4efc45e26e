"""Release a count again with less noise: whether a release may be refined, and the method that refines it.

It must be the analyst's own, not refined before, and of the same data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.analysis import is_private, put_views
from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import NotSupportedError, ProgrammingError, QueryRefused
from dpsql.estimates import LaplaceNoise, Measurement, from_measurement
from dpsql.estimates.noise_laws import Law, NoiseDraw
from dpsql.estimates.predictions import half_width, stddev
from dpsql.kernel import mechanisms
from dpsql.kernel.loss import Charge
from dpsql.kernel.mechanisms import Gaussian
from dpsql.language import Options, Parameters, Query, Refine, Scalar, parse
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import Ledger, Lineage, RefinementStep
from dpsql.planning import plan_requests
from dpsql.planning.all_groups import EveryCount, WholeDomain
from dpsql.planning.column_values import DifferentValues
from dpsql.planning.method import NoisyResult, Quote
from dpsql.planning.result_table import declared_values
from dpsql.policy import Policy
from dpsql.release import changes, from_bytes, question, reuse_key

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.analysis import Plan
    from dpsql.kernel.levels import Level
    from dpsql.kernel.release import Run
    from dpsql.planning.method import Method

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
        if plan.counts[place].noise_group is not None:
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
        """Draw a count with less noise, conditional on the value that was released before."""
        value = run.refine(self.mechanism, self.place, self.released)
        noise = LaplaceNoise(self.mechanism.scales[-1], self.mechanism.resolution)
        source = NoiseDraw(Law("laplace"), float(noise.scale), 2.0**-self.mechanism.resolution)
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


_OTHER = "it asks something else now, by its options, parameters or the date"


@dataclass(frozen=True, slots=True)
class Refining:
    """A release that may be refined, as far as the ledger and the policy tell."""

    refine: Refine
    lineage: Lineage
    query: Query
    """The statement that released the count first, parsed again."""

    @classmethod
    def of(
        cls, refine: Refine, ledger: Ledger, policy: Policy, analyst: str, parameters: Parameters
    ) -> Refining:
        """Look the release up; refuse one that is not the analyst's own or that was refined before.

        `parameters` are those of the statement that released the count first: the ledger has none.
        """
        source, n = refine.source, refine.number
        lineage = ledger.lineage(n, analyst)
        if lineage is None:
            raise source.refuse(f"you have no release {n}", refine.at, "SHOW RELEASES lists yours")
        if lineage.shared:
            raise source.refuse(f"release {n} was made for another analyst", refine.at)
        if lineage.first_epsilon is None:
            raise source.refuse(f"release {n} has Gaussian noise, and only other noise is refined", refine.at)
        if lineage.refined:
            child = f"refine release {lineage.child}, which refined it" if lineage.child else None
            raise source.refuse(
                f"release {n} was refined before, and a release is refined once", refine.at, child
            )
        if policy.engine != "duckdb" or policy.data_version is not None or lineage.reuse_key is None:
            raise source.refuse(
                f"nothing proves that the data are still those of release {n}: that is known of files which "
                "dpsql reads itself, in a policy without data_version",
                refine.at,
            )
        cap = policy.budget.max_epsilon_per_query
        if cap is not None and refine.epsilon > cap:
            raise source.refuse(
                f"a count may cost at most epsilon {float(cap):g}, all its releases together",
                refine.epsilon_at,
                f"REFINE RELEASE {n} TO {float(cap):g}",
            )
        try:
            query = put_views(parse(lineage.statement, parameters, policy.defaults.dialect), policy)
        except (ProgrammingError, NotSupportedError) as problem:
            why = str(problem).partition("\n")[0]
            raise source.refuse(f"the statement of release {n} is refused now: {why}", refine.at) from None
        if not isinstance(query, Query) or not is_private(query, policy):
            raise source.refuse(f"release {n} is no answer of a SELECT", refine.at)
        return cls(refine, lineage, query)

    def defaults(self, defaults: Options) -> Options:
        """Return the defaults of the first statement, as far as its release tells them."""
        level = from_bytes(self.lineage.payload).confidence
        return replace(defaults, epsilon=self.lineage.first_epsilon, error=None, confidence=level)

    def first(self, releases: Sequence[Query], plan: Callable[[Query], PreparedPrivate]) -> PreparedPrivate:
        """Prepare again the statement whose release is refined; of several, the one with its question."""
        if len(releases) == 1:
            return plan(releases[0])
        for query in releases:
            options = query.options
            if options.error is None:
                options = replace(options, epsilon=self.lineage.first_epsilon)
            planned = plan(replace(query, options=options))
            if question(planned.key) == question(self.lineage.reuse_key or planned.key):
                return planned
        raise self._refused(_OTHER)

    def plan(self, text: str, first: PreparedPrivate, policy: Policy) -> PreparedPrivate:
        """Plan the refinement, given the first statement prepared again.

        Only an equal key proves that the count is the same: it covers the compiled SQL, the policy and the
        content of the files, which are read again for it.
        """
        refine, lineage = self.refine, self.lineage
        catalog = first.counting.engines.schema_database
        computed = next((t.name for t in first.counting.reads if catalog.has_generated_column(t.name)), None)
        if computed is not None:
            raise self._refused(f"{computed} has a generated column, whose values may differ at every scan")
        versions, charge = first.counting.engines.versions, first.method.quote.charge
        key = reuse_key(first.plan, policy, versions, charge, again=True)
        if key != lineage.reuse_key:
            why = changes(key, lineage.reuse_key or "")
            raise self._refused(why or _OTHER)
        paid = first.plan.epsilon if lineage.epsilon is None else lineage.epsilon
        if refine.epsilon <= paid:
            raise refine.source.refuse(
                f"release {refine.number} has epsilon {float(paid):g} already",
                refine.epsilon_at,
                f"an epsilon above {float(paid):g}",
            )
        try:
            rows = from_bytes(lineage.payload).rows
            method = RefinedCount.of(first.method, rows, lineage.level, paid, refine.epsilon)
        except ValueError as problem:
            raise self._refused(str(problem)) from None
        step = RefinementStep(refine.number, refine.epsilon)
        return replace(first, text=text, method=method, price=method.quote.charge, refines=step)

    def _refused(self, why: str) -> QueryRefused:
        refine = self.refine
        return refine.source.refuse(f"release {refine.number} cannot be refined: {why}", refine.at)
