"""The one door past the kernel's checker, for tests that compile wrong rules and count their queries.

In the block of `claims_certified` a query that the checker refuses, or whose plan claims less than what was
certified, has a certificate of what its plan claims. Nothing in dpsql may import this.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import dpsql.kernel.check.certificate as sealed
from dpsql.analysis import Plan, compiled_query
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.statement_plan import find_lower_claims
from dpsql.kernel.check import Certificate, Change, Keys, NotCertified, Proofs, Together, certify
from dpsql.kernel.tree import Query
from dpsql.policy import Policy

__all__ = ["certify_claims", "claims_certified"]


@contextmanager
def claims_certified() -> Iterator[None]:
    """Take what plans claim for certified in this block."""
    with pytest.MonkeyPatch.context() as patch:
        certify_claims(patch)
        yield


def certify_claims(patch: pytest.MonkeyPatch) -> None:
    """Take what plans claim for certified until a patch is undone."""
    patch.setattr(compiled_query, "certificate_of", _certificate)
    patch.setattr("dpsql.composition.planned_count.check_claims", _claim)


def _certificate(
    query: Query,
    sql: str,
    catalog: Catalog,
    policy: Policy,
    tables: tuple[str, ...],
    proofs: Proofs | None = None,
) -> Certificate:
    """Return the certificate of a query, or one without numbers; neither is kept for other tests."""
    del sql
    try:
        return certify(query, catalog.facts(policy, tables), proofs)
    except NotCertified:
        return _made(query, (), Keys.CELLS)


def _claim(plan: Plan) -> None:
    """Give the query of a plan the certificate that it claims, if it claims less than what was proved."""
    if any(find_lower_claims(plan, plan.compiled.certificate)):
        object.__setattr__(plan.compiled, "certificate", _claimed(plan))


def _claimed(plan: Plan) -> Certificate:
    offset = int(plan.compiled.cells)
    numbers = tuple(
        Change(
            f"n{place + offset}",
            0 if count.monotone else -count.bound,
            1 if place == plan.existence else count.bound,
            plan.l1_over_groups(place),
        )
        for place, count in enumerate(plan.counts)
    )
    public = plan.domain_size is not None or not plan.key_types
    keys = Keys.CELLS if plan.compiled.cells else Keys.DECLARED if public else Keys.UNKNOWN
    decides = None if plan.existence is None else f"n{plan.existence + offset}"
    order = plan.compiled.order
    names = frozenset(name for name, _ in order.terms) if order is not None else frozenset[str]()
    return _made(
        plan.compiled.query,
        numbers,
        keys,
        most=1 if plan.one_group else plan.groups_per_unit,
        decides=decides,
        distinct=(names,),
        together=_claimed_together(plan, offset),
    )


def _claimed_together(plan: Plan, offset: int) -> tuple[Together, ...]:
    """What a plan claims of numbers with one noise: they have one bound together."""
    shares: dict[object, list[int]] = {}
    for place, count in enumerate(plan.counts):
        if count.noise_group is not None:
            shares.setdefault(count.noise_group, []).append(place)
    return tuple(
        Together(
            frozenset(f"n{place + offset}" for place in places),
            plan.counts[places[0]].bound,
            plan.l1_over_groups(places[0]),
        )
        for places in shares.values()
    )


def _made(
    query: Query,
    numbers: tuple[Change, ...],
    keys: Keys,
    most: int | None = None,
    decides: str | None = None,
    distinct: tuple[frozenset[str], ...] = (),
    together: tuple[Together, ...] = (),
    bounds: tuple[int, ...] = (),
) -> Certificate:
    return Certificate(
        query=query,
        numbers=numbers,
        keys=keys,
        columns=(),
        distinct=distinct,
        most_groups=most,
        decides=decides,
        largest=None,
        grouped_by=(),
        cells=(),
        one_cell=False,
        every_group=keys is not Keys.UNKNOWN,
        together=together,
        bounds=bounds,
        fine=None,
        derivation=(),
        seal=sealed._SEAL,
    )
