"""Decides whether a release may be refined: the analyst's own, not refined before, of the same data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dpsql.analysis import is_private, with_views
from dpsql.answers.refine import RefinedCount
from dpsql.errors import NotSupportedError, ProgrammingError, QueryRefused
from dpsql.language import Options, Parameters, Query, Refine, parse
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import Ledger, Lineage, RefinementStep
from dpsql.policy import Policy
from dpsql.prepared import PreparedPrivate
from dpsql.release import changes, from_bytes, question, reuse_key

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
            query = with_views(parse(lineage.statement, parameters), policy)
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
        """Return the first statement prepared again: of several releases, the one with the same question."""
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
