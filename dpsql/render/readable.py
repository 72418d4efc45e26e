"""Readable parts of a release: estimates with their intervals, its price, its certainty, its footer.

The line on what an answer leaves out has at most one sentence for each thing, in the order of `SLOTS`. The
sentence of a slot is in a release's properties, under `slot(name)`; that of the rows in no shown group
follows from `Release.outside`, a number of the same release. Nothing is said of private rows that was not
released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from dpsql.lazy_dataclass import dataclass
from dpsql.places import Places
from dpsql.render.column_values import values
from dpsql.render.figures import Estimate, half_text, number, show_left, show_spent, unit_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from fractions import Fraction

    import pyarrow as pa

    from dpsql.kernel.loss import Charge
    from dpsql.places import NumberPlace
    from dpsql.render.grid import Style

SLOTS = ("outside", "cut", "bound", "nobody", "zone")
"""What a sentence is about: rows in no shown group, what was cut and is not in the intervals, the bound and
the size of the cut, rows that have no unit, the time zone."""

LEFT_OUT = "left out: "
"""How sentences on what bounds leave out begin."""
IN_THE_RANGE = " (in the range)"
"""Said of what intervals have."""
NOT_IN_THE_RANGE = " (not in the range)"
"""Said of what intervals do not have. Of an answer that shows none, neither is said."""

BELOW = "groups below the bar are not shown"
"""Said of all groups of keys without declared values: which groups there are is private."""


COMPUTED = "computed"
"""The property of an answer that was added up from releases: the sentence that says so."""


def slot(name: str) -> str:
    """Return the key of a sentence among the properties of a release."""
    if name not in SLOTS:
        raise ValueError(f"a line has no sentence {name}")
    return f"line.{name}"


@dataclass(frozen=True, slots=True)
class Outside:
    """The number of the rows whose keys are in no group that is shown, released with the groups."""

    what: str
    """What is counted (`rows`, `patients`), or the name of the column with `of` before it."""
    value: float
    stddev: float | None
    low: float | None
    high: float | None


class HasSentences(Protocol):
    """The attributes of a release that its line is made of."""

    @property
    def outside(self) -> Outside | None:
        """The rows in no shown group."""

    @property
    def properties(self) -> Mapping[str, str]:
        """Further facts of a release by name, among them the sentences of its line."""

    @property
    def has_intervals(self) -> bool:
        """Whether the answer has intervals."""

    @property
    def parts(self) -> Sequence[HasSentences]:
        """The releases that the answer was computed from."""


def sentences(release: HasSentences, *, pm: str = "±") -> list[str]:
    """Return the sentences of a release's line in order; of a result computed from releases, theirs."""
    every = [release, *release.parts]
    found = [text for name in SLOTS for each in every if (text := _sentence_of(each, name, pm))]
    if not release.has_intervals:
        found = [text.replace(IN_THE_RANGE, "").replace(NOT_IN_THE_RANGE, "") for text in found]
    return list(dict.fromkeys(found))


def line(release: HasSentences, *, pm: str = "±") -> str:
    """Return the sentences as one line; empty if there are none."""
    return "; ".join(sentences(release, pm=pm))


def _sentence_of(release: HasSentences, name: str, pm: str) -> str:
    if name == "outside" and release.outside is not None:
        found = release.outside
        value, more = Estimate(found.value, found.low, found.high).text(pm=pm)
        return f"in no group shown: {value} {more} {found.what}".replace("  ", " ")
    return release.properties.get(slot(name), "")


# ruff: noqa: D102  the attributes of `Released` are those of dpsql.Release, which describes them


Estimates = list[Estimate | None]
"""One a released group; None where the count is NULL."""


class Released(HasSentences, Protocol):
    """The attributes of a `dpsql.Release` that are drawn; `dpsql.release` imports this package."""

    @property
    def rows(self) -> pa.Table: ...
    @property
    def table(self) -> pa.Table: ...
    @property
    def keys(self) -> Sequence[str]: ...
    @property
    def counts(self) -> Sequence[str]: ...
    @property
    def selection(self) -> str: ...
    @property
    def mechanism(self) -> str: ...
    @property
    def guarantee(self) -> str: ...
    @property
    def statement(self) -> str: ...
    @property
    def number(self) -> int | None: ...
    @property
    def receipt(self) -> str: ...
    @property
    def charge(self) -> Charge: ...
    @property
    def scale(self) -> float: ...
    @property
    def confidence(self) -> Fraction: ...
    @property
    def warnings(self) -> Sequence[str]: ...
    @property
    def assumed(self) -> Sequence[object]: ...
    @property
    def reused(self) -> datetime | None: ...
    @property
    def charged_again(self) -> str: ...
    @property
    def places(self) -> Places | None: ...
    @property
    def null_group(self) -> bool: ...


def places(release: Released) -> Places:
    """Return where the columns of a release stand in its table."""
    if release.places is not None:
        return release.places
    named = release.properties.get("ordering")
    table = release.table.column_names
    return Places.by_name(table, release.rows.num_columns, release.keys, release.counts, named)


def counts(release: Released) -> list[Estimates]:
    """Return the estimates of every count in the select list, in its order."""
    return [estimates(release, number) for number in places(release).numbers]


def ordering_number(release: Released) -> NumberPlace | None:
    """Return the count that orders the groups, else the first one; None if no count was asked for."""
    found = places(release)
    return found.numbers[found.ordering or 0] if found.numbers else None


def ordering_estimates(release: Released) -> Estimates:
    """Return the estimates of the count that orders the groups; none if only keys were asked for."""
    number = ordering_number(release)
    return [] if number is None else estimates(release, number)


def estimates(release: Released, number: NumberPlace) -> Estimates:
    """Return the estimates of a count."""
    table = release.table

    def bounds(place: int | None) -> list[Any]:
        return [None] * table.num_rows if place is None else values(table.column(place))

    triples = zip(values(table.column(number.place)), bounds(number.low), bounds(number.high), strict=True)
    return [None if value is None else Estimate(float(value), low, high) for value, low, high in triples]


def price(charge: Charge, total: Charge | None = None) -> str:
    """Write a charge, and the budget if given: `epsilon 0.5 of 5`; delta only if it is not 0.

    Releases of several parts of units are more than the budget together: it is then left out.

    >>> from dpsql.kernel.loss import Charge
    >>> price(Charge(2), Charge(5)), price(Charge(2), Charge(1))
    ('epsilon 2 of 5', 'epsilon 2')
    """

    def part(name: str) -> str:
        text, whole = (
            f"{name} {show_spent(getattr(charge, name))}",
            None if total is None else getattr(total, name),
        )
        return text if whole is None or getattr(charge, name) > whole else f"{text} of {show_left(whole)}"

    return part("epsilon") + (f", {part('delta')}" if charge.delta else "")


def amounts(remaining: Charge) -> str:
    """Write what is left of a budget: `epsilon 3.5, delta 1e-7`; delta only if it is not 0."""
    text = f"epsilon {show_left(remaining.epsilon)}"
    return text + (f", delta {show_left(remaining.delta)}" if remaining.delta else "")


def certainty(release: Released, *, pm: str = "±") -> str:
    """Write the interval width of the numbers (`95% ± 41`), what is known of ranks, or the noise scale.

    Of intervals that are not all symmetric it says the level alone (`95% intervals`). Where something that is
    not known is not in the intervals, it says so.
    """
    if "certainty" in release.properties:
        return release.properties["certainty"]
    found = [estimate for estimate in ordering_estimates(release) if estimate is not None]
    if not found:
        return f"noise scale {number(release.scale)}" if release.scale > 0 else ""
    if any(each.unit is None or each.low is None or each.high is None for each in found):
        return ""
    known = [each.half for each in found if each.half is not None]
    told = sentences(release)
    unknown, covered = (any(said in text for text in told) for said in (NOT_IN_THE_RANGE, IN_THE_RANGE))
    if len(known) == len(found):
        texts = [half_text(half, unit_of(half) or 0) for half in (min(known), max(known))]
        widths = f"{pm} {' to '.join(dict.fromkeys(texts))}"
    else:
        widths = "intervals"
    level = number(float(release.confidence * 100))
    what = (
        " of the noise alone" if unknown and not covered else " without what is not known" if unknown else ""
    )
    return f"{level}% {widths}{what}"


def summary(release: Released, total: Charge | None, *, pm: str = "±") -> list[str]:
    """Return the parts of the line below an answer: its price, its mechanism, its certainty."""
    if COMPUTED in release.properties:
        cost = release.properties[COMPUTED]
    elif release.reused is not None:
        cost = f"asked before, on {release.reused:%Y-%m-%d %H:%M}: nothing spent"
    else:
        cost = price(release.charge, total)
    parts = (cost, release.charged_again, release.mechanism, certainty(release, pm=pm))
    return [part for part in parts if part]


def assumptions(release: Released) -> list[str]:
    """Return the line on what the statement left open: what bounds of the policy cut or weigh down."""
    from dpsql.render.grid import escape_controls

    found = ", ".join(map(str, release.assumed))
    return [f"assumed: {escape_controls(found)}"] if found else []


def left_out_line(release: Released, style: Style) -> str:
    """Return the line on what the answer leaves out, folded to the style's width; empty without one."""
    from dpsql.render.grid import escape_controls, wrap

    text = escape_controls(line(release, pm=style.pm), style.encoding)
    return "\n".join(wrap(text, style.columns or len(text))) if text else ""


def footer(release: Released, total: Charge | None, style: Style) -> str:
    """Write `epsilon 1 of 10 · noisy top-k with gap · 95% ± 41`, broken into lines of the style's width."""
    from dpsql.render.grid import escape_controls, width, wrap

    dot = " - " if style.plain else " · "
    lines: list[str] = []
    for part in summary(release, total, pm=style.pm):
        safe = escape_controls(part, style.encoding)
        longer = lines[-1] + dot + safe if lines else safe
        if lines and (style.columns is None or width(longer) <= style.columns):
            lines[-1] = longer
        else:
            lines += [safe] if style.columns is None else wrap(safe, style.columns)
    return "\n".join(lines)
