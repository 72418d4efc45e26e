"""The released numbers of an answer: their values, errors and laws, and those of sums of them.

A sum in one row is a `SumOfNumbers`. What a value is made of is drawn together: few numbers for each value
anew, those with the most weight each alone; very many in one sample of all noises, once for the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpsql.composition.hidden_columns import SumOfNumbers, floats
from dpsql.composition.released_terms import NoIntervalError
from dpsql.estimates.noise_draws import ALONE, NoiseSample
from dpsql.estimates.noise_laws import Key, Linear, NoiseDraw, Weighted
from dpsql.estimates.noise_terms import CutSides, TermWeights, add_weights, errors, half_width, join_terms
from dpsql.estimates.number_noises import Dispersion, Quotient
from dpsql.lazy_dataclass import dataclass
from dpsql.release import places_of

if TYPE_CHECKING:
    from dpsql.estimates.number_noises import NumberNoise
    from dpsql.release import Release

FloatArray = NDArray[np.float64]
NO_LAW = "how its noise is distributed is not known"
_SUMS_KEPT = 64
_SAME = 1.02
"""By how much a half-width may exceed that of one number alone, to be taken as it."""


@dataclass(slots=True, eq=False)
class ReleasedNumber:
    """The values of a released number in all rows of an answer."""

    value: FloatArray
    stddev: FloatArray
    low: FloatArray
    high: FloatArray
    noise: NumberNoise | None
    release: int
    family: int
    """Among how many groups the outer query chooses because of noise; 1: it does not."""


@dataclass(slots=True, eq=False)
class AnswerNumbers:
    """The released numbers that the values of an answer are made of."""

    releases: Sequence[Release]
    numbers: Sequence[tuple[int, int]]
    """The release and the number of each released number."""
    families: Sequence[int]
    """Among how many groups of each release noise chooses what is shown; 1: it does not."""
    confidence: float
    _numbers: dict[int, ReleasedNumber] = field(default_factory=dict)
    _sample: NoiseSample = field(default_factory=NoiseSample)
    _drawn: dict[tuple[int, int], FloatArray] = field(default_factory=dict)
    """Draws of numbers in the sample, by their names and how many draws there are."""
    _sums: dict[tuple[object, ...], FloatArray] = field(default_factory=dict)
    """Draws of sums of several of them, which rows may have in common: the last ones."""

    def list_computed(self, forms: list[SumOfNumbers]) -> list[int]:
        """Return the numbers in forms that are functions of sums; raise if the law of one is not known."""
        computed: dict[int, None] = {}
        for name in (name for form in forms for name in form.weights):
            noise = self.find(name)[0].noise
            made = None if noise is None else noise.made
            if isinstance(made, (Quotient, Dispersion)):
                computed[name] = None
            elif not isinstance(made, (Linear, Weighted)):
                raise NoIntervalError(NO_LAW)
        return list(computed)

    def list_terms(self, forms: list[SumOfNumbers], computed: Sequence[int] = ()) -> TermWeights:
        """Return the forms, and what numbers in them are computed from, as sums of measured numbers."""
        listed: list[dict[Key, tuple[NoiseDraw, float]]] = []
        for form in forms:
            parts = list[tuple[int, Linear | Weighted, int, float]]()
            for name, weight in form.weights.items():
                number, at = self.find(name)
                made = None if number.noise is None else number.noise.made
                if isinstance(made, (Linear, Weighted)):
                    parts.append((number.release, made, at, weight))
            listed.append(add_weights(parts))
        for name in computed:
            number, at = self.find(name)
            listed += (
                add_weights([(number.release, part, at, 1.0)]) for part in self._find_formula(name).parts
            )
        return join_terms(listed)

    def find_centre(self, form: SumOfNumbers) -> float:
        """Return the value of a form as it was measured, without what was given back and computed numbers."""
        found = form.value
        for name, weight in form.weights.items():
            number, at = self.find(name)
            found -= weight * float(number.value[at])
            made = None if number.noise is None else number.noise.made
            if isinstance(made, (Linear, Weighted)):
                found += weight * float(made.value[at])
        return found

    def find_sides(self, forms: list[SumOfNumbers]) -> CutSides:
        """Return what bounds may have left out of numbers in forms."""
        names = list(dict.fromkeys(name for form in forms for name in form.weights))
        weights = np.array([[form.weights.get(name, 0.0) for name in names] for form in forms])
        below, above = np.zeros(len(names)), np.zeros(len(names))
        together: dict[int, tuple[list[int], float]] = {}
        for place, name in enumerate(names):
            number, at = self.find(name)
            most = None if number.noise is None else number.noise.most_left_out
            if most is not None:
                together.setdefault(name % len(self.numbers), ([], most))[0].append(place)
            for array, side in ((below, "below"), (above, "above")):
                known = None if number.noise is None else getattr(number.noise, side)
                array[place] = 0.0 if known is None else float(known[at])
        limits = [(np.array(places), most) for places, most in together.values() if len(places) > 1]
        return CutSides(weights, below, above, limits)

    def find_family(self, forms: list[SumOfNumbers]) -> int:
        """Return among how many values noise may have chosen these."""
        return max((self.find(name)[0].family for form in forms for name in form.weights), default=1)

    def find(self, name: int) -> tuple[ReleasedNumber, int]:
        """Return the number of a name, and the row of its release."""
        at, column = divmod(name, len(self.numbers))
        if column not in self._numbers:
            self._numbers[column] = self._made(column)
        return self._numbers[column], at

    def _made(self, column: int) -> ReleasedNumber:
        index, number = self.numbers[column]
        release = self.releases[index]
        place = places_of(release).numbers[number]
        size = release.table.num_rows
        ends = [
            np.full(size, np.nan) if at is None else floats(release.table.column(at))
            for at in (place.stddev, place.low, place.high)
        ]
        noise = None if release.noises is None else release.noises[number]
        value = floats(release.table.column(place.place))
        made = ReleasedNumber(value, ends[0], ends[1], ends[2], noise, index, self.families[index])
        return replace(made, family=1) if made.family > 1 and self._is_single(made) else made

    def _is_single(self, number: ReleasedNumber) -> bool:
        """Whether a number's intervals hold for one number alone, although noise chooses what is shown."""
        made = None if number.noise is None else number.noise.made
        if not isinstance(made, (Linear, Weighted)) or not len(number.value):
            return False
        own = add_weights([(number.release, made, 0, 1.0)])
        wider = [getattr(number.noise, side) for side in ("below", "above")]
        half = (number.high[0] - number.low[0] - sum(0.0 if w is None else w[0] for w in wider)) / 2
        return bool(half <= _SAME * half_width(join_terms([own]), self.confidence))

    def draw(self, forms: list[SumOfNumbers], draws: int) -> list[FloatArray]:
        """Return draws of the values that forms may have together."""
        computed = self.list_computed(forms)
        if len(set[int]().union(*(form.weights for form in forms))) > ALONE:
            leaves = [self._draw_of_sample(form, draws) for form in forms]
        else:
            leaves = self._draw_each(forms, computed, draws)
        for form, leaf in zip(forms, leaves, strict=True):
            if form.nulled:
                leaf[0] = 0.0  # so it is not passed over as a value that is NULL for all noise
        return leaves

    def _draw_each(self, forms: list[SumOfNumbers], computed: list[int], draws: int) -> list[FloatArray]:
        drawn = errors(self.list_terms(forms, computed), draws)
        made: dict[int, FloatArray] = {}
        sizes = [len(self._find_formula(name).parts) for name in computed]
        ends = [len(forms) + sum(sizes[:place]) for place in range(len(sizes) + 1)]
        for place, name in enumerate(computed):
            made[name] = self._compute(name, [*drawn[ends[place] : ends[place + 1]]])
        leaves = []
        for form, error in zip(forms, drawn, strict=False):
            more = sum((weight * made[n] for n, weight in form.weights.items() if n in made), np.zeros(draws))
            leaves.append(self.find_centre(form) - error + more)
        return leaves

    def _draw_of_sample(self, form: SumOfNumbers, draws: int) -> FloatArray:
        """Return draws of the values that a form may have, from the one sample of all noises."""
        if len(form.weights) > 1 and (known := self._sums.get((draws, *form.key))) is not None:
            return known
        total = np.full(draws, self.find_centre(form))
        for name, weight in form.weights.items():
            total += weight * self._draw_number(name, draws)
        if len(form.weights) > 1:
            if len(self._sums) >= _SUMS_KEPT:
                self._sums.clear()
            self._sums[draws, *form.key] = total
        return total

    def _draw_number(self, name: int, draws: int) -> FloatArray:
        """Return draws of a number that is computed; of one that is measured, how far it may be from that."""
        found = self._drawn.get((name, draws))
        if found is None:
            number, at = self.find(name)
            made = None if number.noise is None else number.noise.made
            one = isinstance(made, (Linear, Weighted))
            parts = [made] if isinstance(made, (Linear, Weighted)) else self._find_formula(name).parts
            noises = [add_weights([(number.release, part, at, 1.0)]) for part in parts]
            drawn = [self._sample.errors(noise, draws) for noise in noises]
            found = self._drawn[name, draws] = -drawn[0] if one else self._compute(name, drawn)
        return found

    def _compute(self, name: int, drawn: Sequence[FloatArray]) -> FloatArray:
        """Return draws of a number that is a function of sums, from draws of the noise of these."""
        made, (_, at) = self._find_formula(name), self.find(name)
        return made.compute([part.value[at] - noise for part, noise in zip(made.parts, drawn, strict=True)])

    def _find_formula(self, name: int) -> Quotient | Dispersion:
        """Return of which sums a number is computed, and how; `list_computed` has found that it is."""
        noise = self.find(name)[0].noise
        made = None if noise is None else noise.made
        assert isinstance(made, Quotient | Dispersion)  # noqa: S101  as said
        return made
