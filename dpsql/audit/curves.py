"""Draw p-value curves in characters, as in the dissertation's Figure 4-2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.render.plots import Curve, curves, sparkline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.audit.verdict import Verdict

__all__ = ["figure", "p_values", "strip"]


def p_values(verdict: Verdict, label: str) -> Curve:
    """Return a verdict's p-values as a curve over the epsilon tested, with the claim marked."""
    points = tuple((tested.epsilon, tested.forward) for tested in verdict.curve)
    return Curve(label, verdict.epsilon, points)


def strip(verdict: Verdict, *, plain: bool = False) -> str:
    """Draw a verdict's p-values in one line, low where the claim is refuted; `plain` allows ASCII alone."""
    return sparkline([tested.forward for tested in verdict.curve], plain=plain)


def figure(verdicts: Sequence[Verdict], *, rows: int = 10, columns: int = 60, plain: bool = False) -> str:
    """Draw the p-values of verdicts against the epsilon tested; ends with a newline.

    A correct mechanism's line rises just before its own claim, which an upright line marks; that of an
    incorrect one rises behind it, or not at all. The plot has `rows` by `columns` characters; `plain` allows
    ASCII alone.
    """
    drawn = [p_values(verdict, f"{verdict.name}, claims {verdict.epsilon:.3g}") for verdict in verdicts]
    return curves(drawn, "epsilon tested", rows=rows, columns=columns, plain=plain)
