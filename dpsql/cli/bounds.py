"""`dpsql bounds`: the owner has bounds on units found once, charged to everybody, and sees those kept.

Kept ladders are shown as text for a terminal, and as JSON.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli import narrate
from dpsql.cli.narrate import ExitCode, progress, set_progress, without_charge
from dpsql.render.figures import Estimate, at_unit, half_text, show_left, show_spent, unit_of
from dpsql.render.grid import column, draw, draw_rows, escape_controls, span, wrap
from dpsql.render.plots import bars

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpsql import Database
    from dpsql.cli.options import CliSettings
    from dpsql.cli.output import AnswerOutput
    from dpsql.ledger import ScopeBudget
    from dpsql.owner.ladder_listing import Bin, KeptBound
    from dpsql.owner.ladder_releases import UnitMeasure, ValuesBeyond
    from dpsql.render.grid import Drawn, Style


def names_of(measures: Sequence[UnitMeasure]) -> str:
    """Return the names of measures as `dpsql bounds` takes them, joined with commas."""
    from dpsql.owner.ladder_listing import name_of

    names = [name_of(each.table, each.text) for each in measures]
    return ", ".join(f'"{name}"' if "," in name else name for name in names)


def command_of(measures: Sequence[UnitMeasure]) -> str:
    """Return the `dpsql bounds` command line that measures the given measures."""
    from dpsql.owner.ladder_listing import name_of

    names = [name_of(each.table, each.text) for each in measures]
    return " ".join(["dpsql bounds", *(f'"{name}"' if " " in name else name for name in names)])


def price_of(price: Fraction, number: int) -> str:
    """Return the price of ladders in words: of each, and of all together."""
    if number == 1:
        return f"epsilon {show_spent(price)}"
    return f"epsilon {show_spent(price)} each, {show_spent(price * number)} together"


def least_left(scopes: Sequence[ScopeBudget]) -> str:
    """Return in words which scope of the budget has the least epsilon left, and how much."""
    from dpsql.ledger import scope_words

    least = min(scopes, key=lambda each: each.remaining.epsilon)
    remaining, whole = show_left(least.remaining.epsilon), show_left(least.filter.epsilon)
    return f"{scope_words(least.name)}: {remaining} of {whole}"


def draw_listing(found: Sequence[KeptBound], others: Sequence[str], price: Fraction, style: Style) -> str:
    """Draw the kept ladders, and the names that could be asked."""
    text = _draw_kept(found, style) if found else "no ladder is kept\n"
    if not others:
        return text
    return text + _fold_text(f"can be asked, at epsilon {show_spent(price)} each: {', '.join(others)}", style)


def _draw_kept(found: Sequence[KeptBound], style: Style) -> str:
    from dpsql.owner.ladder_listing import CURRENT, amount

    columns: list[Drawn[KeptBound]] = [
        ("ladder", lambda each: each.name, "firm"),
        ("made", lambda each: f"{each.made:%Y-%m-%d}", "firm"),
        ("epsilon", lambda each: show_spent(each.ladder.price), "number"),
        ("of", lambda each: each.of, "firm"),
        ("bound", lambda each: amount(float(each.bound)), "number"),
        ("left out", lambda each: "?" if each.left_out is None else amount(each.left_out[0]), "number"),
        ("at most", lambda each: "?" if each.left_out is None else amount(each.left_out[1]), "number"),
    ]
    # What holds of all of them, and is as it should be, is not shown.
    if all(each.of == CURRENT for each in found):
        columns.pop(3)
    epsilons = dict.fromkeys(show_spent(each.epsilon) for each in found)
    said = (
        f"bound: how much of a unit a statement with epsilon {' or '.join(epsilons)} over the whole table "
        "counts; left out: what all units have beyond it (in its range)"
    )
    return draw_rows(found, columns, style) + _fold_text(said, style)


def draw_ladders(found: Sequence[KeptBound], style: Style) -> str:
    """Draw the ladders that `dpsql bounds` has measured, one below the other."""
    return "\n".join(_draw_ladder(each, style) for each in found)


def _draw_ladder(kept: KeptBound, style: Style) -> str:
    from dpsql.owner.ladder_listing import amount

    what, one, price = kept.measured, kept.one_unit, show_spent(kept.ladder.price)
    measured = what if kept.counts_rows else f"total of {what}"
    head = f"{kept.name}: {measured} of {one} (ladder {kept.ladder.number}, epsilon {price})"
    lines = [
        f"in all about {amount(float(kept.number_of_units))} {kept.units}, {amount(kept.total)} {what}",
        f"a statement with epsilon {show_spent(kept.epsilon)} over the whole table counts {what} of {one} "
        f"up to {amount(kept.bound)}",
    ]
    if not kept.declared:
        lines.append("how much that leaves out no answer knows: the values of the groups are not declared")
    elif kept.left_out is None:
        lines.append("what that leaves out is not known: no change of these data shows")
    else:
        about, most = map(amount, kept.left_out)
        lines.append(f"left out by that: about {about}, at most {most} (in its range)")
        lines.append(f"taken for granted: no {kept.unit} has more than {amount(kept.largest)} {what}")
        lines += _warn_of_larger(kept)
    if kept.ladder.beyond is not None:
        lines.append(_describe_beyond(kept, kept.ladder.beyond))
    below = "".join(_fold_text(line, style) for line in lines)
    return _fold_text(head, style) + _draw_bars(kept.bins(joined=True), what, kept.units, style) + below


def _warn_of_larger(kept: KeptBound) -> list[str]:
    """Return what the owner is to know where units are above the largest size that was found."""
    from dpsql.owner.ladder_listing import amount

    above = kept.ladder.units_above
    if above is None:
        return []
    end = amount(kept.largest / 2)
    return [
        f"that may be false: about {above:,} {kept.units} are above {end}, so few that a larger size was not "
        f"found; what they have beyond {amount(kept.largest)} is in no range. A larger --epsilon, with "
        "--again, may find it"
    ]


def _describe_beyond(kept: KeptBound, found: ValuesBeyond) -> str:
    """Return how far values lie beyond the bounds of their column, on average over all values."""
    from dpsql.owner.ladder_listing import amount

    above, below = (found.side(which) for which in (True, False))
    ends = f"{amount(found.low)} to {amount(found.high)}"
    return (
        f"values of {kept.measured} beyond {ends}, on average over all: {amount(above.about)} above, at most "
        f"{amount(above.about + above.noise)}, and {amount(below.about)} below, at most "
        f"{amount(below.about + below.noise)} (epsilon {show_spent(found.epsilon)} of it)"
    )


def _draw_bars(bins: Sequence[Bin], what: str, many: str, style: Style) -> str:
    """Draw the numbers of units as bars, with what noise may have moved them by."""
    estimates: list[Estimate | None] = [
        Estimate(float(b.units), b.units - b.half_width, b.units + b.half_width) for b in bins
    ]
    places = [max(unit_of(each.half_width) or 0, 0) for each in bins]
    halves = [half_text(each.half_width, place) for each, place in zip(bins, places, strict=True)]
    wide = max(map(len, halves))
    numbers = [
        f"{at_unit(float(each.units), place)} {style.pm} {half.rjust(wide)}"
        for each, place, half in zip(bins, places, halves, strict=True)
    ]
    columns = [
        column(what, [each.text for each in bins], style, firm=True),
        column(many, numbers, style, number=True),
    ]
    drawn = bars(estimates, (style.columns or 80) - span([each.width for each in columns]) - 3, style)
    return draw(columns if drawn is None else [*columns, drawn], style)


def _fold_text(text: str, style: Style) -> str:
    text = escape_controls(text, style.encoding)
    lines = [text] if style.columns is None else wrap(text, style.columns)
    return "".join(f"{line}\n" for line in lines)


def listing_json(found: Sequence[KeptBound], others: Sequence[str], price: Fraction) -> str:
    """Write the kept ladders, and the names that could be asked, as one JSON object."""
    return _to_json(
        {
            "ladders": [_as_data(each) for each in found],
            "can_be_asked": list(others),
            "price": _epsilon_data(price),
        }
    )


def ladders_json(found: Sequence[KeptBound]) -> str:
    """Write ladders that were measured as one JSON object."""
    whole = sum((each.ladder.price for each in found), Fraction(0))
    return _to_json({"ladders": [_as_data(each) for each in found], "charged": _epsilon_data(whole)})


def _to_json(whole: dict[str, Any]) -> str:
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _epsilon_data(value: Fraction) -> dict[str, Any]:
    return {"epsilon": float(show_spent(value)), "exact": str(value)}


def _as_data(kept: KeptBound) -> dict[str, Any]:
    ladder, known = kept.ladder, kept.left_out
    return {
        "name": kept.name,
        "release": ladder.number,
        "table": ladder.table,
        "measure": ladder.measure,
        "unit": kept.unit,
        "made": kept.made.isoformat(),
        "of": kept.of,
        **_epsilon_data(ladder.price),
        "statement_epsilon": float(show_spent(kept.epsilon)),
        "bound": float(kept.bound),
        "left_out": None if known is None else {"estimate": known[0], "at_most": known[1]},
        "assumes_none_beyond": float(kept.largest),
        "values_beyond": None if ladder.beyond is None else _beyond_data(ladder.beyond),
        "units": kept.number_of_units,
        "total": kept.total,
        "bins": [
            {
                "above": float(each.above),
                "to": None if each.to is None else float(each.to),
                "units": each.units,
                "half_width": each.half_width,
            }
            for each in kept.bins()
        ],
    }


def _beyond_data(found: ValuesBeyond) -> dict[str, Any]:
    above, below = (found.side(which) for which in (True, False))
    return {
        "bounds": [float(found.low), float(found.high)],
        **_epsilon_data(found.epsilon),
        "rows_per_unit": found.rows,
        "mean_above": {"estimate": above.about, "at_most": above.about + above.noise},
        "mean_below": {"estimate": below.about, "at_most": below.about + below.noise},
    }


@click.command("bounds")
@click.argument("names", metavar="[TABLE[.COLUMN] | 'TABLE by COLUMN']...", nargs=-1)
@click.option("--epsilon", metavar="E", help="What each costs. [default: 1/20 of the policy's epsilon]")
@click.option("--again", is_flag=True, help="Measure, and charge, also what is kept of these data.")
@click.option("--yes", is_flag=True, help="Charge without asking.")
@click.option("--json", "json_", is_flag=True, help="Print everything as one JSON object.")
@click.pass_obj
def bounds_command(
    settings: CliSettings,
    /,
    *,
    names: tuple[str, ...],
    epsilon: str | None,
    again: bool,
    yes: bool,
    json_: bool,
) -> int:
    """For the owner: find once how much of one unit counts, for all statements over a whole table.

    TABLE is about how many rows a unit has, TABLE.COLUMN about the total of its values, counted without
    their signs, and 'TABLE by COLUMN, ..' about in how many groups of these columns it is. What is found is
    kept: statements over all rows of the table take their bound from it at no cost, and their intervals have
    what the bound leaves out. Every analyst is told it, so it is charged to the policy, to every analyst and
    to every group, those who come later included.

    Without names: the ladders that are kept, and the names that can be asked. Nothing is charged then.
    """
    if settings.format not in (None, "table", "json"):
        raise click.UsageError("bounds are shown as a table or as JSON\nHint: --format table")
    if not names and (epsilon is not None or again or yes):
        raise click.UsageError(
            "--epsilon, --again and --yes go with names\nHint: dpsql bounds, alone, lists the names"
        )
    as_json = json_ or settings.format == "json"
    with settings.answers("table") as out, _open_database(settings) as database:
        if names:
            return find_bounds(database, names, out, epsilon=epsilon, again=again, yes=yes, as_json=as_json)
        _list_ladders(database, out, as_json=as_json)
    return ExitCode.OK


def find_bounds(
    database: Database,
    names: Sequence[str],
    out: AnswerOutput,
    *,
    epsilon: str | None = None,
    again: bool = False,
    yes: bool = False,
    as_json: bool = False,
) -> ExitCode:
    """Say the price of ladders, ask unless it is agreed to, then charge, measure, keep and show them."""
    with without_charge("nothing was charged"):
        price = _read_price(database, epsilon)
        measures = _find_measures(database, names, again=again)
        if not _ask_agreement(database, measures, price, yes=yes):
            narrate.note("nothing was charged")
            return ExitCode.INTERRUPTED
    _release_ladders(database, measures, price, out, as_json=as_json)
    return ExitCode.OK


@contextmanager
def _open_database(settings: CliSettings) -> Iterator[Database]:
    """Open the data and the ledger; nothing is charged by that."""
    from dpsql import Database

    policy = settings.load_policy()
    with without_charge("nothing was charged"), progress("opening the data"):
        database = Database(policy)
    with database:
        database.on_vetting = lambda table: set_progress(
            table and f"verifying {table}, once for this version"
        )
        for text in database.ledger.messages:
            narrate.note(text)
        yield database


def _list_ladders(database: Database, out: AnswerOutput, *, as_json: bool) -> None:
    from dpsql.owner import ladder_listing

    with without_charge("nothing was charged"):
        found, others = ladder_listing.list_kept(database), ladder_listing.list_askable(database)
        price = ladder_listing.default_price(database.policy)
        if as_json:
            out.write_text(listing_json(found, others, price))
        else:
            out.write_text(draw_listing(found, others, price, out.style))


def _read_price(database: Database, epsilon: str | None) -> Fraction:
    """Return what each ladder costs."""
    from dpsql.kernel.loss import exact
    from dpsql.owner.ladder_listing import default_price
    from dpsql.owner.ladder_releases import check_price

    try:
        price = default_price(database.policy) if epsilon is None else exact(epsilon)
        check_price(price)
    except ValueError as problem:
        usual = float(default_price(database.policy))
        raise click.UsageError(f"--epsilon: {problem}\nHint: --epsilon {usual:g}") from None
    return price


def _find_measures(database: Database, names: Sequence[str], *, again: bool) -> list[UnitMeasure]:
    """Return the measures of these names, each once; refuse those that are kept of these data."""
    from dpsql.errors import ProgrammingError
    from dpsql.owner.ladder_listing import list_askable
    from dpsql.owner.ladder_releases import find_kept

    found: dict[tuple[str, str], UnitMeasure] = {}
    for name in names:
        try:
            measure = _find_measure(database, name)
        except ProgrammingError as problem:
            text, others = str(problem).partition("\nHint:")[0], list_askable(database)
            such = f", such as {', '.join(others[:4])}" if others else ""
            hint = f"dpsql bounds, alone, lists what can be asked{such}"
            raise click.UsageError(f"{text}\nHint: {hint}") from None
        kept = None if again else find_kept(database, measure)
        if kept is not None:
            raise click.UsageError(
                f"{name} is kept of these data already, since {kept.made:%d %B %Y}: statements use it at no "
                "cost, and nothing was charged\n"
                "Hint: dpsql bounds, alone, shows it; with --again it is measured and charged anew"
            )
        found.setdefault((measure.table, measure.text), measure)
    return list(found.values())


def _find_measure(database: Database, name: str) -> UnitMeasure:
    """Return the measure of a name; `ProgrammingError` if there is none, or no statement would use it."""
    from dpsql.errors import ProgrammingError
    from dpsql.owner.ladder_listing import find_objection
    from dpsql.owner.ladder_releases import parse_measure

    if not name or name.endswith("."):
        raise ProgrammingError(f"{name!r} names no table and no column")
    measure = parse_measure(database, name)
    if useless := find_objection(database.policy, measure.table, measure.text):
        raise ProgrammingError(useless)
    return measure


def _ask_agreement(
    database: Database, measures: Sequence[UnitMeasure], price: Fraction, *, yes: bool
) -> bool:
    """Say the price and who pays it, and ask whether the owner agrees; raise unless all can pay."""
    from dpsql.kernel.loss import PrivacyLoss
    from dpsql.owner.ladder_listing import tells_changes
    from dpsql.owner.ladder_releases import list_losses, list_without_beyond

    database.ledger.check_ladders(sum(list_losses(database, measures, price), PrivacyLoss()))
    narrate.note(f"{names_of(measures)}: {price_of(price, len(measures))}")
    narrate.note("charged to the policy, to every analyst and to every group, those who come later included")
    narrate.note(f"least is left of {least_left(database.ledger.ladder_scopes())}")
    for table in dict.fromkeys(each.table for each in measures):
        if not tells_changes(database, table):
            narrate.warning(
                f"no change of {table} shows, so answers cannot tell what a bound leaves out: declare "
                "data_version in the policy first"
            )
    for each in list_without_beyond(database, measures):
        narrate.note(
            f"how much of {each} lies beyond its bounds is not measured, since it is not known how many rows "
            f"of a unit count: ask dpsql bounds {each.partition('.')[0]} first, or with it"
        )
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError(
            "nobody is at a terminal to agree to the price, and nothing was charged\nHint: --yes agrees"
        )
    return click.confirm("Charge it?", err=True)


def _release_ladders(
    database: Database, measures: Sequence[UnitMeasure], price: Fraction, out: AnswerOutput, *, as_json: bool
) -> None:
    """Charge, measure and keep the ladders, and show each."""
    from dpsql.owner.ladder_listing import describe_ladder
    from dpsql.owner.ladder_releases import release_ladders

    with progress("measuring"):
        kept = release_ladders(database, measures, price, command_of(measures))
        found = [describe_ladder(database, each) for each in kept]
    if as_json:
        out.write_text(ladders_json(found))
    else:
        out.write_text(draw_ladders(found, out.style))
    left = least_left(database.ledger.ladder_scopes())
    narrate.note(f"charged: {price_of(price, len(found))}; least is left of {left}")
