"""The mechanisms for a top-k over keys without a declared domain: limited domain and Top Stable."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis import Plan, max_candidates, unknown_mechanism
from dpsql.answers.table import picked
from dpsql.engines import Counts
from dpsql.language import TopK
from dpsql.mechanisms import LimitedDomain, TopStable

NOTE = "fewer rows than asked for may come: a key is shown only when no single unit can have put it there"


def check_unknown(plan: Plan, selection: TopK) -> None:
    """Refuse options and outputs that the mechanism does not support, and a statement without a delta."""
    source, options = plan.query.source, plan.options
    if unknown_mechanism(selection.k, options) == "TOP_STABLE":
        if selection.threshold is not None:
            raise source.refuse(
                "Top Stable does not support a threshold",
                options.at.get("mechanism"),
                "mechanism = LIMITED_DOMAIN",
            )
        for output in plan.outputs:
            if output.kind in ("gap", "p_value", "rank"):
                raise source.refuse(
                    f"{output.name}: Top Stable releases a set without order", options.at.get("mechanism")
                )
    elif options.noise == "LAPLACE":
        raise source.refuse(
            "the limited domain mechanism supports exponential noise only",
            options.at.get("noise"),
            "leave noise out",
        )
    _delta(plan)


def _delta(plan: Plan) -> Fraction:
    delta = plan.options.delta
    if delta is None:
        keys = [output.name[:60] for output in plan.outputs if output.kind == "key"]
        declared = "all declared" if len(keys) > 1 else "declared"
        raise plan.query.source.refuse(
            f"the values of {' and '.join(keys) or 'the keys'} are not {declared}, so a delta is needed",
            plan.query.tree.args.get("group"),
            "OPTIONS (delta = 1e-6), or the owner declares the keys in [tables.NAME.domain]",
        )
    return delta


def plan_unknown(plan: Plan, selection: TopK, epsilon: Fraction) -> LimitedDomain | TopStable:
    """Plan the requested mechanism, else the one that suits k."""
    options, delta = plan.options, _delta(plan)
    candidates, bound = max_candidates(selection.k, options), plan.counts[selection.count].bound
    resolution = 0 if options.noise == "GEOMETRIC" else None
    if unknown_mechanism(selection.k, options) == "LIMITED_DOMAIN":
        return LimitedDomain.plan(
            selection.k,
            epsilon,
            delta,
            candidates=candidates,
            threshold=selection.threshold,
            sensitivity=bound,
            resolution=resolution,
        )
    return TopStable.plan(
        selection.k,
        epsilon,
        delta,
        candidates=candidates,
        sensitivity=bound,
        noise="laplace" if options.noise == "LAPLACE" else "one-sided",
        resolution=resolution,
    )


def by_key(counts: Counts, index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort groups by key: for a set whose order was not charged for."""
    if not len(index):
        return index
    import pyarrow as pa  # noqa: PLC0415  as the next
    import pyarrow.compute as pc  # noqa: PLC0415  it takes a tenth of a cold start

    names = counts.keys.column_names
    keys = pa.table({name: picked(counts.keys.column(name), index) for name in names})
    order: NDArray[np.int64] = pc.sort_indices(
        keys, sort_keys=[(name, "ascending") for name in names]
    ).to_numpy()
    return index[order]
