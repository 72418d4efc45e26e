"""Draw p-value curves in characters, as in the dissertation's Figure 4-2."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.audit.verdict import Verdict

__all__ = ["figure", "strip"]

_EIGHTHS = "▁▂▃▄▅▆▇█"
_DIGITS = "_.:-=+*#"
_MARKS = "ox+*#@"


def strip(verdict: Verdict, *, plain: bool = False) -> str:
    """Draw a verdict's p-values in one line, one character each, low where the claim is refuted.

    Parameters
    ----------
    verdict
        What to draw.
    plain
        Whether only ASCII may be used.
    """
    steps = _DIGITS if plain else _EIGHTHS
    return "".join(steps[min(7, int(8 * tested.forward))] for tested in verdict.curve)


def figure(verdicts: Sequence[Verdict], *, rows: int = 10, columns: int = 60, plain: bool = False) -> str:
    """Draw the p-values of verdicts against the epsilon tested; ends with a newline.

    A correct mechanism's line rises just before its own claim, which an upright line marks; that of an
    incorrect one rises behind it, or not at all.

    Parameters
    ----------
    verdicts
        One line each, in marks of its own, all over the same range.
    rows, columns
        Size of the plot.
    plain
        Whether only ASCII may be used.
    """
    drawn = [verdict for verdict in verdicts if verdict.curve]
    if not drawn:
        return ""
    top = max(tested.epsilon for verdict in drawn for tested in verdict.curve)
    upright, side, tick, base, corner = "|||-+" if plain else "┊│┤─└"
    plot = [[" "] * columns for _ in range(rows + 1)]
    for verdict in drawn:
        place = round(verdict.epsilon / top * (columns - 1))
        if place < columns:
            for line in plot:
                line[place] = upright
    for mark, verdict in zip(_MARKS, drawn, strict=False):
        for tested in verdict.curve:
            place = min(columns - 1, round(tested.epsilon / top * (columns - 1)))
            plot[rows - round(rows * min(tested.forward, 1.0))][place] = mark
    labels = {0: "1.0", rows // 2: "0.5", rows: "0.0"}
    lines = [
        f"{labels.get(i, ''):>5} {tick if i in labels else side}{''.join(line)}".rstrip()
        for i, line in enumerate(plot)
    ]
    lines.append(f"{'':>5} {corner}{base * columns}")
    middle = f"{top / 2:.3g}"
    ends = f"0{middle:^{columns - 2}}{top:.3g}"
    lines.append(f"{'p':>5}  {ends}  epsilon tested")
    legend = [
        f"{mark} {verdict.name}, claims {verdict.epsilon:.3g}"
        for mark, verdict in zip(_MARKS, drawn, strict=False)
    ]
    return "\n".join([*lines, *(f"       {line}" for line in legend)]) + "\n"
