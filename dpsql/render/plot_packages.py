"""Draws pictures by matplotlib, or by Altair: lines with bands, bars with ranges, shaded tables, marks."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dpsql.errors import InterfaceError, ProgrammingError
from dpsql.render.picture_choice import picture_of
from dpsql.render.pictures import segments
from dpsql.render.svg_elements import COLOURS, DASHES, write_tick

if TYPE_CHECKING:
    from dpsql.render.figures import Estimate
    from dpsql.render.pictures import Picture
    from dpsql.render.readable import Released

_PANELS = 4
"""Small frames beside each other."""


def plot_release(release: Released, column: str | int | None = None) -> Any:  # noqa: ANN401  an object of another package
    """Draw a number of a release by matplotlib, or by Altair where only that is installed.

    Returns matplotlib's `Axes` or a chart of Altair. Raises `InterfaceError` if neither is installed, and
    `ProgrammingError` if the release has no such number.
    """
    picture = picture_of(release, column)
    if picture is None:
        raise ProgrammingError("the release has no noisy number to draw")
    for package, draw in (("matplotlib", _matplotlib), ("altair", _altair)):
        if find_spec(package) is not None:
            return draw(picture)
    raise InterfaceError(
        "a plot needs matplotlib or altair\n"
        "Hint: pip install 'dpsql[plot]', or use to_svg(), which needs neither"
    )


def _sides(estimate: Estimate) -> tuple[float, float]:
    """Return how far the interval reaches below and above the value; without a lower end, to 0."""
    return estimate.value - min(estimate.start, estimate.value), estimate.reach - estimate.value


def _notes(picture: Picture) -> str:
    told = (picture.note, picture.left_out, picture.folded, picture.axis_note)
    return "\n".join(each for each in told if each)


def _plain(text: str) -> str:
    # Names of keys are no formulas: matplotlib reads what stands between dollar signs.
    return text.replace("$", r"\$")


def _matplotlib(picture: Picture) -> Any:  # noqa: ANN401  matplotlib's Axes
    from matplotlib import pyplot

    rows = len(picture.labels) * (len(picture.series) if picture.kind == "grouped" else 1)
    high = {"line": 3.6, "lines": 3.6}.get(picture.kind, 0.32 * max(rows, 2) + 1.4)
    if picture.kind == "panels":
        return _panels(picture)
    if picture.kind == "number":
        return _plot_numbers(picture)
    _, axes = pyplot.subplots(figsize=(7, high), layout="constrained")
    drawer = {"line": _plot_lines, "lines": _plot_lines, "cells": _plot_cells, "marks": _plot_marks}
    drawer.get(picture.kind, _plot_bars)(picture, axes)
    axes.set_title(_plain(_notes(picture)), fontsize="small", loc="left", wrap=True)
    return axes


def _plot_bars(picture: Picture, axes: Any) -> None:  # noqa: ANN401
    """Draw bars with ranges, in groups where there are several series."""
    thick = 0.8 / len(picture.series)
    for i, each in enumerate(picture.series):
        there = [(at + thick * i, e) for at, e in enumerate(each.estimates) if e is not None]
        places, found = [at for at, _ in there], [e for _, e in there]
        values = [e.value for e in found]
        name = _plain(each.name) if len(picture.series) > 1 else None
        axes.barh(places, values, height=thick, color=COLOURS[i], label=name)
        sides = [_sides(e) for e in found]
        both = [[below for below, _ in sides], [above for _, above in sides]]
        if picture.level:
            axes.errorbar(values, places, xerr=both, fmt="none", ecolor="black", capsize=3)
    middle = thick * (len(picture.series) - 1) / 2
    axes.set_yticks([at + middle for at in range(len(picture.labels))], list(map(_plain, picture.labels)))
    axes.invert_yaxis()
    axes.set_xlabel(_plain(picture.of))
    if len(picture.series) > 1:
        axes.legend()
    if picture.threshold is not None:
        axes.axvline(picture.threshold, color="black", linestyle="--", label="threshold")


def _plot_lines(picture: Picture, axes: Any) -> None:  # noqa: ANN401
    for i, each in enumerate(picture.series):
        _plot_line(picture, i, axes, COLOURS[i], DASHES[i])
        if len(picture.series) > 1:
            axes.plot([], [], color=COLOURS[i], linestyle=_dashes(DASHES[i]), label=_plain(each.name))
    step = max(1, math.ceil(len(picture.labels) / 8))
    axes.set_xticks(picture.at[::step], list(picture.labels[::step]))
    axes.set_xlabel(_plain(picture.by[0]))
    axes.set_ylabel(_plain(picture.of))
    if not picture.axis_note:
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]) if any(e.negative for e in picture.every) else 0)
    if len(picture.series) > 1:
        axes.legend()


def _plot_line(picture: Picture, place: int, axes: Any, colour: str, dash: str) -> None:  # noqa: ANN401
    each = picture.series[place]
    for part in segments(picture, each):
        found = [(picture.at[i], e) for i in part if (e := each.estimates[i]) is not None]
        ranged = [(at, e) for at, e in found if e.low is not None and e.high is not None]
        x = [at for at, _ in ranged]
        axes.fill_between(
            x, [e.low for _, e in ranged], [e.high for _, e in ranged], color=colour, alpha=0.25
        )
        look = {"color": colour, "linestyle": _dashes(dash), "marker": "o" if len(found) == 1 else None}
        axes.plot([at for at, _ in found], [e.value for _, e in found], **look)


def _dashes(dash: str) -> Any:  # noqa: ANN401  a style of lines of matplotlib
    return (0, tuple(map(float, dash.split()))) if dash else "-"


def _plot_numbers(picture: Picture) -> Any:  # noqa: ANN401
    """Draw each number with its range in a frame of its own, since each has its own scale."""
    from matplotlib import pyplot

    size, found = len(picture.labels), picture.series[0].estimates
    figure, grid = pyplot.subplots(
        size, 1, figsize=(7, 0.9 * size + 0.8), layout="constrained", squeeze=False
    )
    for axes, label, estimate in zip(grid.ravel(), picture.labels, found, strict=True):
        axes.set_yticks([0], [f"{_plain(label)}\n{_plain(picture.text(estimate))}"])
        if estimate is not None:
            below, above = _sides(estimate)
            axes.errorbar(
                [estimate.value], [0], xerr=[[below], [above]], fmt="D", color=COLOURS[0], capsize=5
            )
    figure.suptitle(_plain(_notes(picture)), fontsize="small", wrap=True)
    return grid[0, 0]


def _panels(picture: Picture) -> Any:  # noqa: ANN401
    from matplotlib import pyplot

    columns = min(_PANELS, len(picture.series))
    rows = math.ceil(len(picture.series) / columns)
    shared: Any = {"sharex": True, "sharey": True, "squeeze": False}
    size = (8, 1.3 * rows + 0.8)
    figure, grid = pyplot.subplots(rows, columns, figsize=size, layout="constrained", **shared)
    every = grid.ravel()
    for i, each in enumerate(picture.series):
        _plot_line(picture, i, every[i], COLOURS[0], "")
        every[i].set_title(_plain(each.name), fontsize="small")
    for axes in every[len(picture.series) :]:
        axes.set_visible(False)
    ends = ([picture.at[0], picture.at[-1]], [picture.labels[0], picture.labels[-1]])
    every[0].set_xticks(*ends, fontsize="x-small")
    figure.suptitle(_plain(f"{picture.title}\n{_notes(picture)}"), fontsize="small", wrap=True)
    return every[0]


def _plot_cells(picture: Picture, axes: Any) -> None:  # noqa: ANN401
    numbers = [
        [math.nan if (e := each.estimates[row]) is None else e.value for each in picture.series]
        for row in range(len(picture.labels))
    ]
    axes.figure.colorbar(axes.imshow(numbers, cmap="Blues", aspect="auto"), label=_plain(picture.of))
    heads = [_plain(each.name) for each in picture.series]
    axes.set_xticks(range(len(heads)), heads, rotation=45, ha="right")
    axes.set_yticks(range(len(picture.labels)), list(map(_plain, picture.labels)))


def _plot_marks(picture: Picture, axes: Any) -> None:  # noqa: ANN401
    for i, each in enumerate(picture.series):
        there = [(at, e.value) for at, e in enumerate(each.estimates) if e is not None]
        places, values = [at for at, _ in there], [value for _, value in there]
        axes.plot(values, places, "Dso^v"[i % 5], color=COLOURS[i % 5], label=_plain(each.name))
    axes.set_yticks(range(len(picture.labels)), list(map(_plain, picture.labels)))
    axes.invert_yaxis()
    if picture.dated:
        axes.xaxis.set_major_formatter(lambda value, _: write_tick(value, dated=True))
    axes.legend()


def _altair(picture: Picture) -> Any:  # noqa: ANN401  a chart of Altair
    import altair

    rows: list[dict[str, Any]] = []
    for each in picture.series:
        for i, (label, estimate) in enumerate(zip(picture.labels, each.estimates, strict=True)):
            if estimate is None:
                continue
            below, above = _sides(estimate)
            row = {"place": i, "label": label, "series": each.name, "value": estimate.value}
            row |= {"low": estimate.value - below, "high": estimate.value + above}
            rows.append(row | ({"at": picture.at[i]} if picture.at else {}))
    lines = [line for line in _notes(picture).split("\n") if line]
    title = altair.Title(lines, fontSize=11, anchor="start")
    return _altair_layers(picture, altair.Chart(altair.Data(values=rows), title=title))


def _altair_layers(picture: Picture, base: Any) -> Any:  # noqa: ANN401
    import altair

    several = len(picture.series) > 1
    colour = {"color": altair.Color("series:N", title=None)} if several else {}
    labels = altair.Y("label:N", sort=altair.EncodingSortField("place"), title=None)
    if picture.at:
        across = altair.X("label:O", sort=altair.EncodingSortField("at"), title=picture.by[0])
        low, value = (altair.Y(name, title=picture.of) for name in ("low:Q", "value:Q"))
        band = base.mark_area(opacity=0.25).encode(x=across, y=low, y2="high:Q", **colour)
        both = altair.layer(band, base.mark_line().encode(x=across, y=value, **colour))
        if picture.kind == "panels":
            return both.properties(width=130, height=80).facet("series:N", columns=_PANELS)
        return both
    if picture.kind == "cells":
        head, shade = altair.X("series:N", title=picture.by[1]), altair.Color("value:Q", title=picture.of)
        told = ["label:N", "series:N", "value:Q", "low:Q", "high:Q"]
        return base.mark_rect().encode(x=head, y=labels, color=shade, tooltip=told)
    across = altair.X("value:Q", title=picture.of)
    if picture.kind == "marks":
        return base.mark_point(filled=True, size=80).encode(x=across, y=labels, shape="series:N", **colour)
    side = {"yOffset": altair.YOffset("series:N")} if several else {}
    if picture.kind == "number":
        drawn = [base.mark_point(filled=True, size=80).encode(x=across, y=labels)]
    else:
        solid = base.mark_bar() if several else base.mark_bar(color=COLOURS[0])
        drawn = [solid.encode(x=across, y=labels, **colour, **side)]
    ends = altair.X("low:Q", title=picture.of)
    drawn.append(base.mark_rule().encode(x=ends, x2="high:Q", y=labels, **side))
    if picture.threshold is not None:
        rule = altair.Chart(altair.Data(values=[{"threshold": picture.threshold}]))
        drawn.append(rule.mark_rule(strokeDash=[5, 3]).encode(x="threshold:Q"))
    return altair.layer(*drawn)
