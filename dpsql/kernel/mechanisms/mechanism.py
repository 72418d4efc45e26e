"""The base of all mechanisms: their classes, checks of public arguments, one grid for counts and noise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Charge, Number, Part, PrivacyLoss, PureDP, exact, settle
from dpsql.kernel.public_order import BoundedCounts, OrderedCounts, SparseCounts
from dpsql.lazy_dataclass import dataclass

Noise = Literal["exponential", "laplace", "geometric"]
"""Law of the noise; geometric noise is exponential noise on the grid of integers."""


def as_counts(counts: ArrayLike, groups: int | None = None, *, trials: bool = False) -> NDArray[np.int64]:
    """Convert counts to int64 of one dimension, or of two if independent trials are allowed.

    With `groups`, there must be that many of them: the number that the mechanism was planned for.
    """
    array = np.asarray(counts)
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)  # numpy reads an empty list as float64
    if array.dtype.kind not in "iu" or not np.can_cast(array.dtype, np.int64, casting="safe"):
        raise ValueError("counts must be signed integers of at most 64 bits")
    if array.ndim != 1 and not (trials and array.ndim == 2):
        raise ValueError("counts must have one dimension" + (", or two: (trials, groups)" if trials else ""))
    if groups is not None and array.shape[-1] != groups:
        raise ValueError(f"planned for {groups} counts")
    return array.astype(np.int64, copy=False)


def as_sparse_counts(counts: SparseCounts, groups: int) -> SparseCounts:
    """Check the counts of a domain of a given number of groups, of which some are listed."""
    values, positions = as_counts(counts.values, trials=True), as_counts(counts.positions)
    if counts.size != groups or values.shape[-1] != len(positions):
        raise ValueError(f"planned for {groups} counts")
    if (np.diff(positions, prepend=-1, append=groups) <= 0).any():
        raise ValueError("positions must ascend within the domain")
    return SparseCounts(values, positions, groups)


def as_bounded_counts(counts: BoundedCounts, groups: int, *, trials: bool = False) -> BoundedCounts:
    """Check that so many counts are known from above, of a single run or of trials, if they are allowed."""
    upper, likely = (as_counts(each, groups, trials=trials) for each in (counts.upper, counts.likely))
    return BoundedCounts(upper, counts.exact, likely)


def in_order(counts: OrderedCounts, groups: int | None = None) -> NDArray[np.int64]:
    """Convert counts in a public order, as `as_counts`; a bare array is refused, its order may be private."""
    if not isinstance(counts, OrderedCounts):
        raise TypeError("this mechanism depends on positions: declare them public by in_public_order(counts)")
    if isinstance(counts.values, (SparseCounts, BoundedCounts)):
        raise TypeError("this mechanism takes the counts of all groups")
    return as_counts(counts.values, groups, trials=True)


def whole(value: int, name: str) -> int:
    """Check a number of rows: an int of at least 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name} must be a whole number, at least 1")
    return int(value)


def positive(value: Number, name: str) -> Fraction:
    """Convert a positive budget or scale to an exact fraction."""
    number = exact(value)
    if number.numerator <= 0:
        raise ValueError(f"{name} must be positive")
    return number


def between(value: Number, name: str) -> Fraction:
    """Convert a number strictly between 0 and 1: a share of the budget, or a delta."""
    number = exact(value)
    if not 0 < number < 1:
        raise ValueError(f"{name} must lie between 0 and 1")
    return number


def bound(sensitivity: Number) -> Fraction:
    """Check a sensitivity: a whole number of at least 1, because counts are whole numbers."""
    number = exact(sensitivity)
    if number.denominator != 1 or number.numerator < 1:
        raise ValueError("sensitivity must be a whole number, at least 1")
    return number


def kind(noise: str) -> Noise:
    """Return the name of a noise law; `ValueError` if there is none of that name."""
    for known in get_args(Noise):
        if noise == known:
            return cast("Noise", known)
    raise ValueError("noise must be 'exponential', 'laplace' or 'geometric'")


def firsts(trial: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each entry where the entries of its trial begin; `trial` is ascending.

    >>> firsts(np.array([0, 0, 3, 3, 3]))
    array([0, 0, 2, 2, 2])
    """
    number = np.bincount(trial)
    return np.repeat(np.cumsum(number) - number, number)


def pad_rows(trial: NDArray[np.int64], shape: tuple[int, int], *parts: NDArray[Any]) -> list[NDArray[Any]]:
    """Return each part in rows, one a trial, filled up with -1, or NaN among floats; `trial` is ascending.

    >>> pad_rows(np.array([0, 0, 2]), (3, 2), np.array([7, 8, 9]))[0].tolist()
    [[7, 8], [-1, -1], [9, -1]]
    """
    slot, found = np.arange(len(trial)) - firsts(trial), []
    for part in parts:
        rows = np.full(shape, np.nan if part.dtype.kind == "f" else -1, dtype=part.dtype)
        rows[trial, slot] = part
        found.append(rows)
    return found


@dataclass(frozen=True, slots=True)
class NoiseSource:
    """Exact noise and random ranks, the only random inputs of a mechanism; tests replace it by given ones."""

    entropy: exact_noise.Entropy | None = None
    """Source of random bits; None: the operating system's generator."""

    @property
    def bits(self) -> exact_noise.Entropy:
        """The source of random bits, for distributions other than the noise of `draw`."""
        return self.entropy or exact_noise.SystemEntropy()

    def draw(
        self, noise: Noise, scale: Fraction, bits: int, size: int | tuple[int, ...]
    ) -> NDArray[np.int64]:
        """Draw noise in grid steps, for a scale in counts: one-sided, or two-sided for Laplace."""
        sampler = exact_noise.laplace if noise == "laplace" else exact_noise.geometric
        return sampler(exact_noise.rate(scale, bits), size, entropy=self.entropy)

    def draw_reaching(
        self, noise: Noise, scale: Fraction, bits: int, need: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw noise for each entry of `need`; return where it is at least `need`, and its values there."""
        sampler = exact_noise.laplace_reaching if noise == "laplace" else exact_noise.geometric_reaching
        return sampler(exact_noise.rate(scale, bits), need, entropy=self.entropy)

    def draw_band(
        self, noise: Noise, scale: Fraction, bits: int, trials: int, low: int, high: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw noise of `trials` variables below `high`; return where it is at least `low`, and it."""
        band = exact_noise.Band(exact_noise.rate(scale, bits), low, high, noise == "laplace")
        return exact_noise.reaching(band, trials, entropy=self.entropy)

    def draw_below(self, noise: Noise, scale: Fraction, bits: int, size: int, high: int) -> NDArray[np.int64]:
        """Draw noise under the condition that it is below `high`."""
        rate = exact_noise.rate(scale, bits)
        return exact_noise.below(rate, high, size, two_sided=noise == "laplace", entropy=self.entropy)

    def box(self, rate: Fraction, dimension: int, trials: int) -> NDArray[np.int64]:
        """Draw box noise in grid steps, of shape (trials, dimension)."""
        return exact_noise.box(rate, dimension, trials, entropy=self.entropy)

    def cube(self, rate: Fraction, dimension: int, trials: int) -> NDArray[np.int64]:
        """Draw cube noise in grid steps, of shape (trials, dimension)."""
        return exact_noise.cube(rate, dimension, trials, entropy=self.entropy)

    def gaussian(self, variance: int, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        """Draw Gaussian noise in grid steps, for a variance in squared grid steps."""
        return exact_noise.gaussian(variance, size, entropy=self.entropy)

    def ranks(self, n: int, *, trials: int | None = None) -> NDArray[np.int64]:
        """Draw a uniformly random permutation of 0..n-1, or one a trial; the larger rank wins a tie."""
        return exact_noise.ranks(n, trials=trials, entropy=self.entropy)


SYSTEM = NoiseSource()
"""Noise made of the operating system's random bits."""


def grid_of(noise: Noise, resolution: int | None, *scales: Fraction) -> int:
    """Choose b of the grid 2^-b counts: 0 for geometric noise, else by the smallest scale.

    Raises `ValueError` if `resolution` is not allowed or a scale too large for the grid.
    """
    if noise == "geometric" and resolution not in {None, 0}:
        raise ValueError("geometric noise lives on whole counts: resolution must be 0 or left out")
    bits = usual_grid(noise, *scales) if resolution is None else resolution
    for scale in scales:
        exact_noise.rate(scale, bits)
    return bits


def usual_grid(noise: Noise, *scales: Fraction) -> int:
    """Return the default b of the grid of 2^-b counts, as chosen by `grid_of`."""
    return 0 if noise == "geometric" else exact_noise.resolution(min(scales))


def to_steps(counts: NDArray[np.int64], bits: int, *, negated: bool) -> NDArray[np.int64]:
    """Convert counts to grid steps; negated, before any noise, if the smallest are wanted."""
    values = exact_noise.place(counts, bits)
    if negated:
        np.negative(values, out=values)
    return values


def in_counts(steps: NDArray[np.int64] | NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """Convert released grid steps to counts; exact up to 2^53 steps, rounded to nearest beyond."""
    return np.multiply(steps, 0.5**bits, dtype=np.float64)


_MOST_STEPS = 1 << exact_noise.FINEST
"""Most grid steps of a count, as for other noise: each step takes a bit of the limit of counts."""


def bounds_of(groups: int, sensitivity: Number | Sequence[Number]) -> tuple[tuple[int, ...], int]:
    """Return the bounds of counts, and how often they repeat until there is one a count.

    `sensitivity` is one bound, or one for each count; fewer are repeated, group by group.
    """
    one = isinstance(sensitivity, (int, str, float, Fraction, Decimal))
    given: Sequence[Number] = (sensitivity,) if one else sensitivity  # type: ignore[assignment]  # it is no number
    repeats, rest = divmod(groups, max(len(given), 1))
    if rest or (groups and not given):
        raise ValueError("one sensitivity a count is needed")
    whole_bounds = {each: int(bound(each)) for each in set(given)}
    return tuple(whole_bounds[each] for each in given), repeats


def common_unit(bounds: Sequence[int], scale: Fraction, resolution: int | None = None) -> int:
    """Return the grid steps in the largest change of any count: one of count a is `unit // bounds[a]` steps.

    So a change by the bound is at most that many steps for every count, and it is exactly that many where the
    unit is a multiple of the bound. `scale` is that of the noise over the largest change; the grid is so fine
    that the noise has 1024 steps, or as `resolution` says.
    """
    unit = math.lcm(*set(bounds))
    finest = _MOST_STEPS * min(bounds, default=1)
    if unit > finest:
        unit = max(bounds)
        if unit > finest:
            raise ValueError("the bounds of these counts differ too much for one noise")
        unit <<= (finest // unit).bit_length() - 1
    bits = resolution
    if bits is None:
        bits = min(exact_noise.resolution(unit * scale), (finest // unit).bit_length() - 1)
    elif not 0 <= whole(bits + 1, "resolution + 1") - 1 <= exact_noise.FINEST or unit << bits > finest:
        raise ValueError("resolution must be between 0 and 20, and less for bounds that differ much")
    return unit << bits


R = TypeVar("R")
M = TypeVar("M", bound="Mechanism[Any]")


@dataclass(frozen=True, slots=True)
class Mechanism(ABC, Generic[R]):
    """A mechanism with fixed public facts: its scales, its grid and its privacy loss.

    Each mechanism is a class. Its class method `plan` checks the public facts, computes the scales and
    returns an instance. It raises `ValueError` if a fact is out of range; `run` never raises because of a
    count or a draw. Parameters of `plan` that mean the same in all mechanisms:

    groups
        Number of counts; on a public domain one for each of its groups.
    epsilon
        Budget of a run.
    sensitivity
        How much one privacy unit can change a count.
    monotone
        Whether a unit moves all counts in the same direction, as for counts of units or rows. Differences of
        counts are not monotone and need twice the noise. Counts that one unit more moves by `low` to `high`,
        low <= 0 <= high, as sums do, are selected as monotone ones of sensitivity high - low: selections
        depend on differences of noisy counts, which stay as they are if all counts moved by -low as well, and
        then every move is from 0 to high - low.
    noise
        "exponential" (the most precise), "laplace", or "geometric" (whole counts).
    resolution
        b for a grid of 2^-b counts; chosen from the scales if left out.

    Attributes
    ----------
    loss
        The largest privacy loss of a run.
    scale
        Scale of the noise on each count, in counts; 0 if there is nothing to choose.
    resolution
        b: noise and what is released are multiples of 2^-b counts.
    """

    ordered: ClassVar[bool] = False
    """Whether the proof rests on positions: `run` then takes `OrderedCounts`."""
    sparse: ClassVar[bool] = False
    """Whether `run` takes the counts of a domain of which only groups with rows are listed."""
    undeclared: ClassVar[bool] = False
    """Whether the groups may be those that have rows, which are private."""
    losses: ClassVar[tuple[type[Part], ...]] = (PureDP,)
    """The kinds of loss that its proof shows."""

    loss: PrivacyLoss = field(kw_only=True)

    @abstractmethod
    def run(self, counts: Any, source: NoiseSource = SYSTEM) -> R:  # noqa: ANN401  see `ordered`
        """Run on counts of shape (groups,), or independently on each row of (trials, groups).

        A pure function of the counts and of what `source` returns.
        """

    @property
    def bounded(self) -> bool:
        """Whether `run` takes counts most of which are known by an upper bound alone."""
        return False

    @property
    def reads(self) -> int:
        """How many groups with the largest counts are enough for the mechanism; 0: it reads all groups."""
        return 0

    def covers(self, taken: Taken) -> bool:
        """Whether `loss` holds for counts that one unit changes so far.

        It follows from the scales of the noise, its cutoffs and the loss, not from what was said when it was
        planned: a cutoff is no less than that of the delta of the loss, of this noise and these changes.
        A mechanism that does not say it takes no counts of a statement.
        """
        del taken
        return False

    def admits(self, taken: Taken) -> bool:
        """Whether the mechanism may run on given counts: it is one of the kernel's, with a proved loss.

        Whoever plans it may have made it without `plan`, or changed it: `covers` has the rest.
        """
        own = type(self).__module__.startswith(f"{__package__}.")
        return own and all(isinstance(part, self.losses) for part in self.loss.parts) and self.covers(taken)

    def realised_loss(self, units: int) -> PrivacyLoss:
        """Return what a run that spent so many units realised; the same for all unless a mechanism says so.

        It is an amount of `loss`, as `settle` takes it, and not by itself the loss of a mechanism.
        """
        del units
        return self.loss


class _Selects(Protocol):
    @property
    def groups(self) -> int: ...

    @property
    def scale(self) -> Fraction: ...

    @property
    def loss(self) -> PrivacyLoss: ...


def pays_for(selection: _Selects, moved: int, rounds: int = 1) -> bool:
    """Return whether each of so many rounds of a selection hides that differences of counts move so far.

    With fewer than two groups there is nothing to select.
    """
    part = next(iter(selection.loss.parts), None)
    if part is None or part.epsilon is None:
        return selection.groups < 2
    return rounds <= part.times and moved <= part.epsilon * selection.scale


@dataclass(frozen=True, eq=False, slots=True)
class Result(Generic[M]):
    """What a run of the mechanism `plan` released: all other fields but `units`.

    Of a single run, arrays hold what was selected, and nothing more. Of trials, they have one row a trial,
    padded with -1 and NaN. `units` is what the run spent, as `Mechanism.realised_loss` takes it; int64
    (trials,) if that differs between trials.
    """

    plan: M
    units: int | NDArray[np.int64] = field(default=0, kw_only=True)

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of this run, as it is charged."""
        return settle(self.plan.loss, self.plan.realised_loss(int(self.units)))

    @property
    def charge(self) -> Charge:
        """The epsilon and delta that were spent, by basic composition."""
        return self.loss.charge


@dataclass(frozen=True, eq=False, slots=True)
class Measured(Result[M]):
    """Counts with noise, float64 in `value`, in counts; or their noisy total, of shape (1,)."""

    value: NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Chosen(Result[M]):
    """The groups chosen, without gaps, best first: int64 positions in the counts, min(k, n) of them."""

    index: NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Cells(Result[M]):
    """The cells chosen of a public grid of values, int64, for one group; or a row of them a group."""

    cell: NDArray[np.int64]
