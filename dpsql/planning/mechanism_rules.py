"""The mechanisms that can answer each kind of selection, and the rules by which AUTO takes one of them.

AUTO chooses by the smaller predicted error among the mechanisms that have what the statement asks for. All of
that is public: the number of groups, k, the bounds of counts, epsilon, the options. No count is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from dpsql.analysis import Plan, is_laplace_less
from dpsql.errors import InternalError, QueryRefused
from dpsql.estimates import with_noun
from dpsql.language import AboveThreshold, AllGroups, Scalar, TopK, TopPerPartition
from dpsql.lazy_dataclass import dataclass
from dpsql.planning import noise_shares, plan_requests
from dpsql.planning.all_groups import EveryCount, GaussianDomain, WholeDomain, needs_laplace, takes_all
from dpsql.planning.column_values import DifferentValues, OfCells
from dpsql.planning.divided_methods import AllNumbers
from dpsql.planning.method import Method
from dpsql.planning.plan_requests import needs_selecting, wants_sparse_vector
from dpsql.planning.shown_groups import divide_released, places_to_release
from dpsql.planning.threshold_selection import SparseVectors
from dpsql.planning.top_k_selection import LargestGroups, choose_over_unknown
from dpsql.planning.unknown_keys import GroupsByUnits

BRANCHES = 4
"""Branches of the adaptive sparse vector; with each one, groups far above the threshold cost less."""
COUNTS_PER_ROW = 4
"""Up to so many counts in the domain for each row shown, counts of the whole domain are the better ones.

Found by simulation on several shapes of counts: for k from 1 to 50, the errors of counts that are measured
after a selection are equal at 4 to 5 groups a row.
"""
_FAR = "a larger distance is needed to select right"
CONFIDENCE = Fraction(95, 100)
"""Selections are compared by the distance at which they are right with this probability."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mechanism that can answer a selection."""

    names: tuple[str, ...]
    """As `OPTIONS (mechanism = ..)` takes it."""
    of: Callable[[Plan], Method]
    only: str = ""
    """What it needs to be taken, if AUTO does not take it by its figures."""


@dataclass(frozen=True, slots=True)
class CandidateMechanisms:
    """The mechanisms that can answer a selection, and the rule of AUTO."""

    automatic: Callable[[Plan], tuple[str, str]]
    """Returns the name of the mechanism that AUTO takes, and the fact that decides, in a few words."""
    mechanisms: tuple[Candidate, ...]


# The rules of AUTO.


def _choose_least_noise(plan: Plan) -> tuple[str, str]:
    """Take what has less noise for what one unit changes in all groups together."""
    together = divide_released(plan)
    places = next((own for own, _ in together if not needs_laplace(plan, own)), [])
    if not places:
        return "LAPLACE", "sums have one bound in all groups"
    totals = [total for place in places if (total := plan.l1_over_groups(place)) is not None]
    taken = not plan_requests.is_simultaneous(plan) and all(takes_all(plan, place) for place in places)
    if taken and plan.epsilon_division.order is not None:
        return ("BOX" if _errs_less(plan, BOX, _LAPLACE) else "LAPLACE"), "a larger standard deviation"
    less = taken and is_laplace_less(plan.counts, places, totals, plan.groups)
    bounded = plan.groups_per_unit is not None or plan.options.max_groups_contributed is not None
    why = "no less noise" if bounded or less else "needs max_groups_contributed"
    return ("LAPLACE" if less else "BOX"), why


def _choose_top_k(plan: Plan) -> tuple[str, str]:
    """Measure all of few groups; of many, select the largest first."""
    selection = as_top_k(plan)
    k, counts = selection.k, plan.groups * len(places_to_release(plan))
    if asked := needs_selecting(plan):
        return "NOISY_TOP_K", asked
    if plan.groups <= k:
        return "BOX", f"{with_noun(plan.groups, 'group', 'are')} at most {with_noun(k, 'row')}"
    few = counts <= COUNTS_PER_ROW * k
    if few and not plan_requests.places_to_measure(plan, selection.count):
        return _choose_nearer(plan, "NOISY_TOP_K")
    words = "at most" if few else "more than"
    return (
        "BOX" if few else "NOISY_TOP_K"
    ), f"{with_noun(counts, 'count', 'are')} {words} {COUNTS_PER_ROW} x {with_noun(k, 'row')}"


def _choose_above(plan: Plan) -> tuple[str, str]:
    """Take the smaller distance; the sparse vector, which saves epsilon but errs more, by its options."""
    if asked := wants_sparse_vector(plan):
        return "ADAPTIVE_SPARSE_VECTOR", asked
    selection, asked = plan.selection, needs_selecting(plan)
    if isinstance(selection, AboveThreshold) and (selection.order or selection.limit is None):
        if asked:
            return "ADAPTIVE_SPARSE_VECTOR", asked
        return "BOX", "ORDER BY a key" if selection.order else "no LIMIT"
    return ("HYBRID_TOP_K", asked) if asked else _choose_nearer(plan, "HYBRID_TOP_K")


def _choose_least_gaussian(plan: Plan) -> tuple[str, str]:
    """Take Gaussian noise, or what has less noise."""
    name, why = _choose_least_noise(plan)
    if noise_shares.asks_for_gaussian(plan):
        return "GAUSSIAN", "another noise was named"
    if not noise_shares.may_be_gaussian(plan):
        return name, why
    other = next(each for each in (BOX, _LAPLACE) if name in each.names)
    return ("GAUSSIAN" if _errs_less(plan, _GAUSSIAN, other) else name), "a larger standard deviation"


def _choose_top_k_by_rounds(plan: Plan) -> tuple[str, str]:
    """Select round by round, or measure all groups, whichever has the smaller error."""
    asked, rounds = needs_selecting(plan), _rounds(plan)
    if asked:
        return rounds, asked
    selection, whole = as_top_k(plan), _whole(plan)
    if plan.groups <= selection.k:
        return whole.names[
            0
        ], f"{with_noun(plan.groups, 'group', 'are')} at most {with_noun(selection.k, 'row')}"
    by_rounds = next(each for each in (_GUMBEL, _PEELED, _NOISY) if rounds in each.names)
    why = "a larger standard deviation" if plan_requests.places_to_measure(plan, selection.count) else _FAR
    return (rounds if _errs_less(plan, by_rounds, whole) else whole.names[0]), why


def _rounds(plan: Plan) -> str:
    """Return the mechanism that selects round by round: with gaps only where they are asked for."""
    options = plan.options
    if options.measure_strategy == "ANCHOR":
        return "NOISY_TOP_K"
    gaps = any(output.kind in ("gap", "p_value") for output in plan.outputs)
    return "PEELED_TOP_K" if gaps or options.noise not in (None, "GAUSSIAN") else "GUMBEL_TOP_K"


def _above_sparse(plan: Plan) -> str:
    """Return the mechanism that finds groups above a threshold: a scan where only that can answer."""
    selection = plan.selection
    scans = isinstance(selection, AboveThreshold) and (
        bool(selection.order) or bool(wants_sparse_vector(plan))
    )
    return "ADAPTIVE_SPARSE_VECTOR" if scans else "HYBRID_TOP_K"


def _gaps_by_rounds(plan: Plan) -> str:
    """Return the mechanism that selects round by round and knows gaps, if one can."""
    return "NOISY_TOP_K" if plan.options.measure_strategy == "ANCHOR" else "PEELED_TOP_K"


def _choose_above_by_rounds(plan: Plan) -> tuple[str, str]:
    """Take the smaller distance of those with noise by the order of costs, as `_choose_above` does."""
    name, why = _choose_above(plan)
    if name == "ADAPTIVE_SPARSE_VECTOR":
        rounds, scanned = _plan_by_rounds(plan).quote, _plan_sparse_vector(plan).quote
        # Measurements hardly differ; then the selection decides.
        key = "tells_apart" if rounds.measured_by else "predicted_stddev"
        less = (getattr(rounds, key) or 0.0) < (getattr(scanned, key) or 0.0)
        return ("SPARSE_VECTOR_BY_ROUNDS" if less else name), why
    return (_whole(plan).names[0] if name == "BOX" else name), why


def _whole(plan: Plan) -> Candidate:
    """Return what measures all groups with the least noise."""
    if noise_shares.asks_for_gaussian(plan):
        return _GAUSSIAN
    if noise_shares.may_be_gaussian(plan) and _errs_less(plan, _GAUSSIAN, BOX):
        return _GAUSSIAN
    return LAPLACE_SELECTED if _is_laplace_by_cost(plan) and _errs_less(plan, LAPLACE_SELECTED, BOX) else BOX


def _is_laplace_by_cost(plan: Plan) -> bool:
    """Whether Laplace noise on every group divides a cost, and the statement wants nothing else."""
    return plan.epsilon_division.order is not None and not plan_requests.is_simultaneous(plan)


def _errs_less(plan: Plan, one: Candidate, other: Candidate) -> bool:
    """Whether a candidate predicts a smaller error of its counts, or else of its selection, than another."""
    figures = []
    for candidate in (one, other):
        try:
            quote = candidate.of(plan).quote
        except (ValueError, QueryRefused):
            figures.append(math.inf)
            continue
        figures.append(quote.predicted_stddev or quote.tells_apart or 0.0)
    return figures[0] < figures[1]


def _choose_nearer(plan: Plan, other: str) -> tuple[str, str]:
    """Take what selects right at the smaller distance: box noise on all groups, or the other mechanism."""
    level = replace(plan, options=replace(plan.options, confidence=CONFIDENCE))
    whole = (BOX if level.epsilon_division.order is None else _whole(level)).of(
        level
    ).quote.tells_apart or 0.0
    selecting = _plan_largest(level).quote.tells_apart or 0.0
    return ("BOX" if whole <= selecting else other), _FAR


def laplace_errs_less(plan: Plan, other: Candidate, compared: dict[Candidate, Method]) -> bool:
    """Return whether Laplace noise on every group selects and measures at least as well as a candidate.

    It does where a unit changes all groups together by little, and the statement asks for no gap.
    """
    if needs_selecting(plan) or wants_sparse_vector(plan) or plan_requests.is_simultaneous(plan):
        return False
    try:
        for candidate in (LAPLACE_SELECTED, other):
            compared[candidate] = candidate.of(plan)
    except (ValueError, QueryRefused):
        return False
    quotes = (compared[candidate].quote for candidate in (LAPLACE_SELECTED, other))
    own, others = ([each.tells_apart or 0.0, each.predicted_stddev or 0.0] for each in quotes)
    return own != others and all(a <= b * (1 + 1e-9) for a, b in zip(own, others, strict=True))


def _choose_unknown_keys(plan: Plan) -> tuple[str, str]:
    return choose_over_unknown(plan, as_top_k(plan))


def as_top_k(plan: Plan) -> TopK:
    """Return the selection as a top-k: of a threshold, the largest groups that reach it."""
    selection = plan.selection
    if isinstance(selection, AboveThreshold):
        k = plan.groups if selection.limit is None else min(selection.limit, plan.groups)
        return TopK(k, selection.count, threshold=selection.threshold, spelling=selection.spelling)
    assert isinstance(selection, TopK)  # noqa: S101  the others have no such candidate
    return selection


def _plan_largest(plan: Plan) -> LargestGroups:
    return LargestGroups.of(plan, as_top_k(plan))


def _with_mechanism(plan: Plan, mechanism: str) -> Plan:
    return replace(plan, options=replace(plan.options, mechanism=mechanism))


def _plan_sparse_vector(plan: Plan, branches: int = BRANCHES) -> SparseVectors:
    selection = plan.selection
    assert isinstance(selection, (AboveThreshold, TopK))  # noqa: S101  as above
    return SparseVectors.of(plan, selection, branches=branches)


def _plan_by_rounds(plan: Plan) -> SparseVectors:
    selection = plan.selection
    assert isinstance(selection, AboveThreshold)  # noqa: S101  as above
    return SparseVectors.of(plan, selection, rounds=True)


def _plan_existing(plan: Plan) -> GroupsByUnits:
    assert isinstance(plan.selection, (AllGroups, TopK))  # noqa: S101  no other has it as a candidate
    return GroupsByUnits.of(plan, plan.selection)


EACH_NOISE = {EveryCount: "LAPLACE", WholeDomain: "BOX", GaussianDomain: "GAUSSIAN"}
_GAUSSIAN = Candidate(("GAUSSIAN",), lambda plan: AllNumbers.of(plan, GaussianDomain))
BOX = Candidate(("BOX",), lambda plan: AllNumbers.of(plan, WholeDomain))
_LAPLACE = Candidate(("LAPLACE",), lambda plan: AllNumbers.of(plan, EveryCount))
_EVERY_COUNT = CandidateMechanisms(_choose_least_noise, (BOX, _LAPLACE))
_ORDER_COUNT = CandidateMechanisms(_choose_least_gaussian, (_GAUSSIAN, BOX, _LAPLACE))
LAPLACE_SELECTED = Candidate(("LAPLACE",), _LAPLACE.of, only="errs more")
_JOINT = Candidate(("JOINT",), _plan_largest, only="only by name")
_TOP_K = CandidateMechanisms(
    _choose_top_k, (Candidate(("NOISY_TOP_K",), _plan_largest), BOX, LAPLACE_SELECTED, _JOINT)
)
_NOISY = Candidate(("NOISY_TOP_K", "NOISY_MAX"), _plan_largest)
_TOP_ONE = CandidateMechanisms(
    _choose_top_k,
    (_NOISY, BOX, LAPLACE_SELECTED, Candidate(("EXPONENTIAL",), _plan_largest, only="only by name"), _JOINT),
)
_TOP_K_ABOVE = CandidateMechanisms(
    _choose_above,
    (
        Candidate(("HYBRID_TOP_K",), _plan_largest),
        BOX,
        LAPLACE_SELECTED,
        Candidate(("HYBRID_SPARSE_VECTOR",), lambda plan: _plan_sparse_vector(plan, 1), only="only by name"),
    ),
)
_ABOVE = CandidateMechanisms(
    _choose_above,
    (
        Candidate(("HYBRID_TOP_K",), _plan_largest),
        BOX,
        LAPLACE_SELECTED,
        Candidate(("ADAPTIVE_SPARSE_VECTOR",), _plan_sparse_vector, only="only by name or base_hits"),
        Candidate(("SPARSE_VECTOR",), lambda plan: _plan_sparse_vector(plan, 1), only="only by name"),
    ),
)
_BY_ROUNDS = Candidate(
    ("SPARSE_VECTOR_BY_ROUNDS",), _plan_by_rounds, only="only by name or what only a sparse vector has"
)
_PEELED = Candidate(("PEELED_TOP_K",), lambda plan: _plan_largest(_with_mechanism(plan, "PEELED_TOP_K")))
_GUMBEL = Candidate(("GUMBEL_TOP_K",), lambda plan: _plan_largest(_with_mechanism(plan, "GUMBEL_TOP_K")))
_TOP_K_ORDER = CandidateMechanisms(
    _choose_top_k_by_rounds,
    (_GUMBEL, _PEELED, _GAUSSIAN, replace(_NOISY, only=_FAR), *_TOP_ONE.mechanisms[1:]),
)
_TOP_K_ABOVE_ORDER = CandidateMechanisms(_choose_above_by_rounds, (_GAUSSIAN, *_TOP_K_ABOVE.mechanisms))
_ABOVE_ORDER = CandidateMechanisms(_choose_above_by_rounds, (_BY_ROUNDS, _GAUSSIAN, *_ABOVE.mechanisms))
_MANY = "too many groups to measure all"
_SPARSE_TOP_K = CandidateMechanisms(lambda _: ("NOISY_TOP_K", _MANY), (_NOISY,))
_SPARSE_TOP_K_ORDER = CandidateMechanisms(
    lambda plan: (_gaps_by_rounds(plan), _MANY), (_PEELED, replace(_NOISY, only=_FAR))
)
_SPARSE_ABOVE = CandidateMechanisms(
    lambda plan: (_above_sparse(plan), _MANY), (_ABOVE.mechanisms[0], *_ABOVE.mechanisms[3:])
)
_SPARSE_TOP_K_ABOVE = CandidateMechanisms(lambda _: ("HYBRID_TOP_K", _MANY), _ABOVE.mechanisms[:1])
_UNKNOWN_KEYS = CandidateMechanisms(
    _choose_unknown_keys,
    (
        Candidate(("LIMITED_DOMAIN",), _plan_largest),
        Candidate(("LIMITED_THEN_STABLE",), _plan_largest),
        Candidate(("TOP_STABLE",), _plan_largest, only="only by name"),
    ),
)


_QUANTILES = CandidateMechanisms(
    lambda _: ("EXPONENTIAL", "quantiles are chosen"), (Candidate(("EXPONENTIAL",), OfCells.of),)
)
_VALUES = CandidateMechanisms(
    lambda _: ("BOX", "values are declared"), (Candidate(("BOX",), DifferentValues.of),)
)
_EXISTING = CandidateMechanisms(
    lambda _: ("LAPLACE_THRESHOLD", ""), (Candidate(("LAPLACE_THRESHOLD",), _plan_existing),)
)


def _over_sparse(plan: Plan, *, order: bool) -> CandidateMechanisms:
    """Return the mechanisms that take the counts of a domain of which only groups with rows are listed."""
    if isinstance(plan.selection, AboveThreshold):
        return _SPARSE_ABOVE
    if isinstance(plan.selection, TopK) and plan.selection.threshold is not None:
        return _SPARSE_TOP_K_ABOVE
    return _SPARSE_TOP_K_ORDER if order else _SPARSE_TOP_K


def candidates_of(plan: Plan) -> CandidateMechanisms:
    """Return the mechanisms that can answer the selection of a plan, and the rule of AUTO among them."""
    order = plan.epsilon_division.order is not None
    match selection := plan.selection:
        case _ if plan.cells is not None:
            return _QUANTILES
        case _ if plan.values is not None:
            return _VALUES
        case AllGroups() | TopK() if plan.existence is not None:
            return _EXISTING
        case Scalar() | AllGroups():
            return _ORDER_COUNT if order else _EVERY_COUNT
        case TopK() if plan.domain_size is None:
            return _UNKNOWN_KEYS
        case TopK() | AboveThreshold() if plan.sparse:
            return _over_sparse(plan, order=order)
        case TopK(threshold=None) if order:
            return _TOP_K_ORDER
        case TopK(threshold=None):
            return _TOP_ONE if selection.k == 1 else _TOP_K
        case TopK():
            return _TOP_K_ABOVE_ORDER if order else _TOP_K_ABOVE
        case AboveThreshold():
            return _ABOVE_ORDER if order else _ABOVE
        case TopPerPartition():
            raise InternalError("each partition has a plan of its own")
