"""What bounds that a search found leave out, in words: how large it is, as far as it was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dpsql.analysis import BoundSearch, Contribution, Plan
from dpsql.analysis.excess import Excess, excesses, worth_of
from dpsql.answers.cut_intervals import assumptions_on_shares, name_range, put_in_slots, size_words
from dpsql.estimates import Average, figure, plural
from dpsql.lazy_dataclass import dataclass
from dpsql.render.lines import NOT_IN_THE_RANGE

NOT_KNOWN = "what is cut is not known"
_LEFT_OUT = "left out: "


@dataclass(frozen=True, slots=True)
class Cut:
    """An excess as it was measured, in the unit of what is measured."""

    excess: Excess
    estimate: float
    most: float
    """The upper end of its interval."""
    least: float = 0.0
    """The lower end."""

    @classmethod
    def of(cls, excess: Excess, noisy: float, half_width: float) -> Cut:
        """Return it from the noisy number of its steps."""
        step = float(excess.step)
        ends = (noisy, noisy + half_width, noisy - half_width)
        return cls(excess, *(max(end, 0.0) * step for end in ends))

    @property
    def known(self) -> bool:
        """Whether anything was measured: beyond the largest bound that was searched nothing is."""
        return self.excess.times > 0


def estimates_of(plan: Plan, cuts: Sequence[Cut]) -> dict[int, float]:
    """Return estimates of what is left out of numbers with nothing below 0, by their places."""
    worths = {place: worth_of(plan.counts[place]) for cut in cuts for place in cut.excess.places}
    return {
        place: cut.estimate * float(worths[place][1])
        for cut in cuts
        if cut.known
        for place in cut.excess.places
        if worths[place][0] >= 0
    }


def units_above(cuts: Sequence[Cut]) -> dict[int, float]:
    """Return how many units are above bounds at least, by the places of the searches that found these."""
    return {
        cut.excess.search: cut.least / float(cut.excess.times * cut.excess.limit * cut.excess.of.ladder.step)
        for cut in cuts
        if cut.known
    }


def too_low(plan: Plan, found: Iterable[Excess]) -> dict[str, str]:
    """Return the sentences on bounds with more units above than a search leaves where none is far above."""
    said, units = [], plural(plan.unit)
    for excess in found:
        bound = excess.limit * excess.of.ladder.step
        name, beyond = _name(plan, excess.of, excess.places), figure(float((excess.times + 1) * bound))
        why = f"many {units} are above {figure(float(bound))}"
        said.append(
            f"{name} of a {plan.unit} beyond {beyond}, how much is not known: {why}{NOT_IN_THE_RANGE}"
        )
    return put_in_slots({"cut": said}, [])


def left_out_words(plan: Plan, cuts: Sequence[Cut], added: Sequence[Cut] = ()) -> dict[str, str]:
    """Return the sentences on what is left out, and on what is taken for granted, for a release.

    `added` are the excesses that the numbers of groups have.
    """
    found: dict[str, list[str]] = {"cut": [], "bound": []}
    assumed: list[str] = []
    for cut in cuts:
        excess = cut.excess
        if excess.ends:
            continue
        what = _what(plan, excess.of, excess.bound, excess.places)
        if not cut.known:
            found["cut"].append(f"{what}, how much is not known{NOT_IN_THE_RANGE}")
            continue
        rows = excess.of.ladder.of is Contribution.ROWS
        sizes = f"{what}, {size_words(plan, cut.estimate, cut.most, rows=rows, added=cut in added)}"
        found["bound"].append(f"{sizes}{name_range(plan, excess.places)}")
        assumed += _assumed(plan, excess)
    return put_in_slots(found, assumed)


def not_known(plan: Plan, searches: Iterable[tuple[BoundSearch, int]]) -> dict[str, str]:
    """Return the sentences on bounds, by their places, of which it is not known what they cut."""
    found = []
    for search, place in searches:
        if place + 1 == len(search.ladder.bounds) and search.ladder.ends:
            continue
        found.append(f"{_what(plan, search, place)}, {NOT_KNOWN}{NOT_IN_THE_RANGE}")
    return put_in_slots({"cut": list(dict.fromkeys(found))}, [])


def to_be_found(plan: Plan) -> list[str]:
    """Return what EXPLAIN says of bounds that are still to be found."""
    largest = [len(search.ladder.bounds) - 1 for search in plan.ladders]
    measured = {excess.search: excess for excess in excesses(plan, plan.ladders, largest)}
    said = []
    for place, search in enumerate(plan.ladders):
        if search.ladder.of in _VALUES:
            said.append(f"{_VALUES[search.ladder.of]} a bound, found by search: {NOT_KNOWN}")
            continue
        what = f"{_name(plan, search)} of a {plan.unit} beyond a bound, found by search"
        if place not in measured:
            said.append(f"{what}: {NOT_KNOWN}")
            continue
        beyond = "4B" if plan.key_types else "2B"
        said.append(f"{what}: noise and excess to {beyond}{name_range(plan, measured[place].places)}")
    return said


def merge_properties(*every: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a release with the sentences of several sources in each of its slots."""
    made: dict[str, str] = {}
    for each in every:
        for name, text in each.items():
            before = made.get(name)
            if before and before.startswith(_LEFT_OUT):
                joined = ", " if text.startswith(_LEFT_OUT) else "; "
                made[name] = f"{before}{joined}{text.removeprefix(_LEFT_OUT)}"
            else:
                made[name] = f"{before}; {text}" if before else text
    return made


_VALUES = {Contribution.HIGHEST: "values above", Contribution.LOWEST: "values below"}


def _what(plan: Plan, search: BoundSearch, place: int, places: Sequence[int] = ()) -> str:
    ladder = search.ladder
    bound = figure(float(ladder.bounds[place] * ladder.step))
    if ladder.of in _VALUES:
        sign = "-" if ladder.of is Contribution.LOWEST and ladder.bounds[place] else ""
        return f"{_VALUES[ladder.of]} {sign}{bound}"
    return f"{_name(plan, search, places)} of a {plan.unit} beyond {bound}"


def _name(plan: Plan, search: BoundSearch, places: Sequence[int] = ()) -> str:
    """Return what of a unit is bounded: rows, or the total of an argument."""
    if search.ladder.of is Contribution.ROWS:
        return "rows"
    if search.ladder.of is Contribution.GROUPS:
        return "groups"
    counts = [plan.counts[place] for place in places] or plan.counts
    named = (c.argument for c in counts if c.argument is not None and c.argument.searched)
    found = next(named, None)
    return "totals" if found is None or not found.text else found.text


def _assumed(plan: Plan, excess: Excess) -> list[str]:
    """Return what the intervals take for granted, in sentences."""
    most = figure(float((excess.times + 1) * excess.limit * excess.of.ladder.step))
    name = _name(plan, excess.of, excess.places)
    counted = "rows that count" if excess.rows else name
    found = [f"no {plan.unit} has more than {most} {counted}"]
    signed = any(worth_of(plan.counts[place])[0] < 0 for place in excess.places)
    averages = any(isinstance(o.formula, Average) and {*o.uses} & {*excess.places} for o in plan.outputs)
    return found + assumptions_on_shares(plan, signed=signed, averages=averages)
