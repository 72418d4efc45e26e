"""What a plan asks for: which numbers, at which level of confidence, and whether its options fit together.

The options are checked against the selection before a mechanism is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dpsql.analysis import OF_NUMBERS, Plan, count_candidates, is_selection_of_all
from dpsql.errors import Fix, QueryRefused
from dpsql.estimates import Strategy
from dpsql.language import AboveThreshold, AllGroups, Outline, Scalar, TopK

STRATEGIES: dict[str, Strategy] = {"AUTO": "BOX", "BOX": "BOX", "EACH": "EACH", "ANCHOR": "ANCHOR"}
_LEAST_MISS = Fraction(1, 10**9)
"""The least probability with which an interval misses (see `estimates.closed_form.check_confidence`)."""


def refuse_option(
    plan: Plan, name: str, message: str, hint: str | None = None, fix: Fix | None = None
) -> QueryRefused:
    """Return the refusal of an option of a statement, at its place."""
    return plan.query.source.refuse(message, plan.options.at.get(name), hint, fix)


def confidence_of(plan: Plan) -> Fraction:
    """Return the confidence level of the statement's intervals."""
    return plan.options.confidence or Fraction(95, 100)


def strategy_of(plan: Plan) -> Strategy:
    """Return how the statement measures counts, and refuse intervals that this does not give."""
    strategy = STRATEGIES[plan.options.measure_strategy or "AUTO"]
    if is_simultaneous(plan) and strategy != "BOX":
        raise refuse_option(
            plan,
            "measure_strategy",
            f"simultaneous intervals need one noise for all counts, and {strategy} has several",
            "measure_strategy = BOX",
        )
    return strategy


def places_to_measure(plan: Plan, ordering: int, also: Iterable[int] = ()) -> list[int]:
    """Return the places of the distinct counts in use, and of others; the ordering count first."""
    shown = {o.of for o in plan.outputs if o.kind in OF_NUMBERS} | {*also}
    shown |= {place for o in plan.outputs for place in o.uses}
    equal = plan.equal
    distinct: dict[int, int] = {}
    for place in sorted(shown, key=lambda p: (equal[p] != equal[ordering], p)):
        distinct.setdefault(equal[place], place)
    return list(distinct.values())


def equal_place(plan: Plan, known: Iterable[int], place: int) -> int:
    """Return the place of the number that is equal to one and known; equal numbers are released once."""
    return next(p for p in known if plan.equal[p] == plan.equal[place])


def places_shown_alone(plan: Plan) -> list[int]:
    """Return the places of the distinct numbers that are shown as they are measured."""
    shown = {o.of for o in plan.outputs if o.kind in OF_NUMBERS and o.formula is None}
    distinct: dict[int, int] = {}
    for place in sorted(shown):
        distinct.setdefault(plan.equal[place], place)
    return list(distinct.values())


def quoted_place(plan: Plan) -> int | None:
    """Return the place of the number whose error a quote predicts; None if there is none.

    It is the one that orders the groups, else a count that is shown, else another number that is shown as it
    is measured; None: there is no such number.
    """
    ordering = getattr(plan.selection, "count", None)
    if ordering is not None:
        return int(ordering)
    alone = places_shown_alone(plan)
    return next((p for p in alone if plan.counts[p].argument is None), next(iter(alone), None))


def asked_share(plan: Plan) -> Fraction | None:
    """Return the share of epsilon that the option `measure` names; None for AUTO or no option."""
    measure = plan.options.measure
    return None if measure is None or measure == "AUTO" else Fraction(measure)


def largest_change(plan: Plan, place: int, groups: int) -> int:
    """Return the most by which one unit can change a count in a given number of groups together."""
    every, total = max(groups, 1) * plan.counts[place].bound, plan.l1_over_groups(place)
    return every if total is None else min(every, total)


def is_simultaneous(plan: Plan) -> bool:
    """Whether intervals are to cover all counts at once."""
    return plan.options.intervals == "SIMULTANEOUS"


def level_at_once(plan: Plan, groups: int = 1) -> Fraction:
    """Return the level of each interval with which all numbers of so many groups are covered at once.

    It holds for any noise: what all of them may miss together is divided among them. No level is above that
    which the laws of noise are computed for.
    """
    shown = {
        (o.uses, o.formula) if o.formula is not None else plan.equal[o.of]
        for o in plan.outputs
        if o.kind in OF_NUMBERS
    }
    miss = (1 - confidence_of(plan)) / (plan.apart * max(groups, 1) * max(len(shown), 1))
    return 1 - max(miss, _LEAST_MISS)


def box_level(plan: Plan, *, together: bool) -> Fraction:
    """Return the level of confidence for intervals of one noise, alone or among several noises."""
    return 1 - (1 - confidence_of(plan)) / plan.apart if together else confidence_of(plan)


MAX_CANDIDATES = 1_000_000

_EVERY_GROUP = {"BOX": "box", "LAPLACE": "laplace", "GAUSSIAN": "Gaussian"}
"""Mechanisms that release every group, and their noise; a selection then only shows some of them."""
_FUNCTIONS = {"gap": "DP_GAP", "p_value": "DP_PVALUE"}


def needs_selecting(plan: Plan) -> str:
    """Return what the statement asks for that only a mechanism with a selection has; empty if nothing."""
    options = plan.options
    for output in plan.outputs:
        if output.kind in _FUNCTIONS:
            return f"no {_FUNCTIONS[output.kind]}"
    if options.measure not in (None, "AUTO"):
        return "no option measure"
    if options.measure_strategy in ("EACH", "ANCHOR"):
        return "no option measure_strategy"
    return "no option noise" if options.noise not in (None, "GAUSSIAN") else ""


def wants_sparse_vector(plan: Plan) -> str:
    """Return the option of a threshold query that only the sparse vector has; empty if there is none."""
    options = plan.options
    if not isinstance(plan.selection, AboveThreshold):
        return ""
    found = {
        "base_hits": options.base_hits is not None,
        "threshold_share": options.threshold_share is not None,
        "measure = 0": options.measure == 0,
    }
    return next((f"no option {name}" for name, given in found.items() if given), "")


def check_layout(plan: Plan) -> None:
    """Refuse a layout, or Gaussian noise, that the budget does not have."""
    options = plan.options
    try:
        order = plan.epsilon_division.order
    except ValueError:
        name = "layout" if options.layout else "noise" if options.noise == "GAUSSIAN" else "mechanism"
        raise refuse_option(
            plan,
            name,
            f"{name} {str(getattr(options, name)).upper()} divides costs, and here epsilons add: the policy "
            'says accounting = "pure", or a cap has no delta',
            f"leave {name} out",
        ) from None
    if order is None and options.noise == "GAUSSIAN":
        raise refuse_option(
            plan,
            "noise",
            "layout BASIC divides epsilon, and Gaussian noise has none",
            "leave layout out, or noise",
        )


def check_options(plan: Plan) -> None:
    """Refuse options that would have no effect, and outputs that the selection does not have."""
    options, selection, above = plan.options, plan.selection, isinstance(plan.selection, AboveThreshold)
    by_rows = any(count.l1_over_groups is not None for count in plan.counts)
    unless = "has no meaning for this selection"
    for name, meant, said in (
        ("base_hits", above, unless),
        ("max_groups_contributed", is_selection_of_all(selection) or plan.existence is not None, unless),
        ("max_rows_contributed", by_rows, "is for counts of rows that have no bound of their own"),
        ("bound_share", False, "has no meaning here: no bound is searched"),
        ("threshold_share", above or options.mechanism == "HYBRID_SPARSE_VECTOR", unless),
        ("candidates", plan.domain_size is None, "is for keys without a public domain"),
    ):
        if getattr(options, name) is not None and not meant:
            raise refuse_option(plan, name, f"option {name} {said}", "leave it out")
    if options.order_share is not None and options.mechanism != "TOP_STABLE":
        raise refuse_option(
            plan,
            "order_share",
            "option order_share orders the set of Top Stable",
            "OPTIONS (.., mechanism = TOP_STABLE)" if plan.domain_size is None else "leave it out",
        )
    if isinstance(selection, TopK) and plan.domain_size is None:
        _check_candidates(plan, selection)
    _check_outputs(plan)
    if plan.domain_size is not None and options.mechanism in _EVERY_GROUP:
        _check_every_group(plan, _EVERY_GROUP[options.mechanism])
    _check_limit(plan)
    if isinstance(selection, (AllGroups, Scalar)) and not plan.counts:
        source, said = plan.query.source, "every group of the domain would be shown: select a count"
        block = Outline.of(source.text).block(
            source.position(plan.query.tree)
        )  # its items may be copies of keys
        at = plan.query.tree if block is None else block.select.start
        refused = source.refuse(said, at, "add a count: COUNT(DISTINCT user_id) AS n")
        refused.node = plan.query.tree
        raise refused


def _check_candidates(plan: Plan, selection: TopK) -> None:
    options = plan.options
    if options.candidates is not None and options.candidates < selection.k:
        raise refuse_option(plan, "candidates", "candidates must be at least k")
    if count_candidates(selection.k, options) > MAX_CANDIDATES:
        raise refuse_option(
            plan,
            "candidates",
            f"over keys without a declared domain at most {MAX_CANDIDATES:,} groups can take part",
            "a smaller k, or fewer candidates",
        )


def _check_outputs(plan: Plan) -> None:
    source, options, selection = plan.query.source, plan.options, plan.selection
    for output in plan.outputs:
        if output.kind in ("gap", "p_value", "rank") and isinstance(selection, (Scalar, AllGroups)):
            raise source.refuse(
                f"{output.name}: nothing is selected here, so there is no such thing", output.at
            )
        if output.kind == "p_value" and not (
            isinstance(selection, TopK) and (selection.threshold is None or plan.domain_size is None)
        ):
            raise source.refuse("DP_PVALUE requires ORDER BY n DESC LIMIT k", output.at)
        if output.kind == "p_value" and options.noise not in (None, "EXPONENTIAL", "GAUSSIAN"):
            raise refuse_option(plan, "noise", "p-values are valid for exponential noise only")


def _check_every_group(plan: Plan, word: str) -> None:
    """Refuse what a release of the whole domain does not have."""
    options = plan.options
    if options.max_groups_contributed is not None and options.mechanism == "BOX":
        raise refuse_option(
            plan,
            "max_groups_contributed",
            "box noise on every group needs no bound on how many of them one unit may touch",
            "leave max_groups_contributed out, or mechanism",
        )
    if isinstance(plan.selection, (TopK, AboveThreshold)):
        for asked in (needs_selecting(plan), wants_sparse_vector(plan)):
            if asked:
                raise refuse_option(
                    plan, "mechanism", f"{word} noise on every group has {asked}", "leave mechanism out"
                )


def _check_limit(plan: Plan) -> None:
    """Refuse a threshold without LIMIT where the noise depends on how many groups may pass."""
    selection, options = plan.selection, plan.options
    if not isinstance(selection, AboveThreshold):
        return
    source, at = plan.query.source, options.at.get("mechanism")
    asked, sparse = options.mechanism or "AUTO", wants_sparse_vector(plan)
    if asked == "HYBRID_TOP_K" and selection.order:
        raise source.refuse(
            "HYBRID_TOP_K orders the groups by their counts, not by keys", at, "leave mechanism out"
        )
    if asked == "HYBRID_TOP_K" and sparse:
        raise source.refuse(f"HYBRID_TOP_K has {sparse}", at, "leave mechanism out")
    of_all = (*_EVERY_GROUP, "FIRST_STABLE")
    if selection.limit is not None or options.base_hits is not None or asked in of_all:
        return
    if asked != "AUTO":
        message = f"{asked} needs LIMIT k: its noise depends on how many groups may pass"
    elif without := needs_selecting(plan) or sparse:
        message = f"a threshold without LIMIT is answered by box noise on every group, which has {without}"
    else:
        return
    having = plan.query.tree.args.get("having")
    raise source.refuse(message, having or plan.query.clause.at, "add LIMIT 10", Fix("LIMIT 10", guess="10"))


def name_noisy_order(selection: TopK) -> str:
    """Return the name of the mechanism that finds the largest noisy numbers: of one group it is noisy max."""
    words = "noisy max with gap" if selection.argmax else "noisy top-k with gap"
    return words + " of the lowest" * selection.lowest
