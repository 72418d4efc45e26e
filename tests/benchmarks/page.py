"""One page of HTML, of one file, with the ratios as bars."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from itertools import groupby

from .goals import discovered
from .history import Run, changes
from .measures import Figure

__all__ = ["page"]

_STYLE = """
body { font: 15px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222; }
h2 { margin: 1.6em 0 0.2em; font-size: 1.1em; } p { margin: 0.2em 0 0.6em; color: #555; }
table { border-collapse: collapse; width: 100%; } td, th { padding: 0.15em 0.6em; text-align: right; }
th { color: #555; font-weight: normal; border-bottom: 1px solid #ccc; }
td:first-child, th:first-child, .words { text-align: left; } .words { color: #555; font-size: 0.9em; }
.bar { width: 30%; text-align: left; } .bar div { position: relative; height: 1em; background: #eef1f4; }
.bar b { position: absolute; height: 100%; background: #6b8fb5; } .missed b { background: #c96f4a; }
.bar i { position: absolute; height: 100%; border-left: 2px solid #222; } .met { color: #2b7a3d; }
.missed .state { color: #b04a20; font-weight: bold; }
@media (prefers-color-scheme: dark) {
  body { background: #16181b; color: #ddd; } .bar div { background: #2a2e33; } .bar i { border-color: #ddd; }
}
"""
_HEADINGS = ("", "ours", "floor", "ratio", "", "work", "goal", "change")


def page(run: Run, before: Run | None) -> str:
    """Write a run, compared with an earlier one if there is one."""
    changed = {} if before is None else {k: now / then - 1 for k, (then, now) in changes(run, before).items()}
    judged = [figure for figure in run.figures if figure.met is not None]
    facts = " · ".join(f"{name} {value}" for name, value in run.machine.items())
    sentences = {module.TITLE: module.GOAL for module in discovered().values()}
    compared = f" Compared with the run of {escape(before.when)}." if before is not None else ""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>dpsql benchmarks</title>",
        f"<style>{_STYLE}</style>",
        f"<h1>dpsql benchmarks, size {run.size}</h1><p>{escape(run.when)} · {escape(facts)}</p>",
        f"<p>{sum(bool(f.met) for f in judged)} of {len(judged)} goals are met.{compared} ",
        "Both sides of a ratio took turns; ratio is the median of the pairwise ratios of time on the clock, ",
        "work that of processor time, which other programs disturb less. The line in a bar is at 1; the ",
        "scale is logarithmic.</p>",
    ]
    for group, figures in groupby(run.figures, key=lambda figure: figure.group):
        goal = next((goal for title, goal in sentences.items() if group.startswith(title)), "")
        parts.append(f"<h2>{escape(group)}</h2><p>{escape(goal)}</p><table><tr>")
        parts += [f"<th>{heading}</th>" for heading in _HEADINGS] + ["</tr>"]
        listed = [*figures]
        ratios = [abs(math.log(f.ratio)) for f in listed if f.ratio]
        for figure in listed:
            parts += _row(figure, max([math.log(2), *ratios]), changed.get((figure.group, figure.what)))
        parts.append("</table>")
    return "".join(parts) + "</html>\n"


def _row(figure: Figure, widest: float, change: float | None) -> Iterator[str]:
    state = {None: "", True: "met", False: "missed"}[figure.met]
    yield f"<tr class='{state}'><td>{escape(figure.what)}</td>"
    yield f"<td>{_number(figure.ours, figure.unit)}</td><td>{_number(figure.floor, figure.unit)}</td>"
    yield f"<td>{_number(figure.ratio)}</td><td class=bar>{_bar(figure.ratio, widest)}</td>"
    yield f"<td>{_number(figure.work)}</td><td class=state>{escape(figure.goal)} {state}</td>"
    yield f"<td>{'' if change is None else f'{change:+.0%}'}</td></tr>"
    if figure.error:
        yield f"<tr><td class=words colspan={len(_HEADINGS)}>error: {escape(figure.error)}</td></tr>"


def _bar(ratio: float | None, widest: float) -> str:
    """Draw a ratio from the middle: to the left if it is below 1."""
    if not ratio:
        return ""
    width = 50 * abs(math.log(ratio)) / widest
    left = 50 if ratio >= 1 else 50 - width
    return f"<div><b style='left:{left:.1f}%;width:{width:.1f}%'></b><i style='left:50%'></i></div>"


def _number(value: float | None, unit: str = "") -> str:
    return (
        "" if value is None or math.isnan(value) else f"{value:,.{2 if value < 100 else 0}f} {unit}".strip()
    )
