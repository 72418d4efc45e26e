"""`dpsql bounds`: the owner has bounds on units found once, charged to everybody, and sees those kept."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from dpsql.cli import narrate
from dpsql.cli.exits import ExitCode, uncharged
from dpsql.cli.progress import doing, progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from dpsql import Database
    from dpsql.cli.options import CliSettings
    from dpsql.cli.output import AnswerOutput
    from dpsql.owner.kept_bounds import UnitMeasure


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
    with settings.answers("table") as out, _open(settings) as database:
        if names:
            return find_bounds(database, names, out, epsilon=epsilon, again=again, yes=yes, as_json=as_json)
        _list(database, out, as_json=as_json)
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
    with uncharged("nothing was charged"):
        price = _price(database, epsilon)
        measures = _measures(database, names, again=again)
        if not _agrees(database, measures, price, yes=yes):
            narrate.note("nothing was charged")
            return ExitCode.INTERRUPTED
    _release(database, measures, price, out, as_json=as_json)
    return ExitCode.OK


@contextmanager
def _open(settings: CliSettings) -> Iterator[Database]:
    """Open the data and the ledger; nothing is charged by that."""
    from dpsql import Database

    policy = settings.load_policy()
    with uncharged("nothing was charged"), progress("opening the data"):
        database = Database(policy)
    with database:
        database.on_vetting = lambda table: doing(table and f"verifying {table}, once for this version")
        for text in database.ledger.messages:
            narrate.note(text)
        yield database


def _list(database: Database, out: AnswerOutput, *, as_json: bool) -> None:
    from dpsql.cli import bounds_shown
    from dpsql.owner import kept_list

    with uncharged("nothing was charged"):
        found, others = kept_list.list_kept(database), kept_list.askable(database)
        price = kept_list.default_price(database.policy)
        if as_json:
            out.write_text(bounds_shown.listing_json(found, others, price))
        else:
            out.write_text(bounds_shown.draw_listing(found, others, price, out.style))


def _price(database: Database, epsilon: str | None) -> Fraction:
    """Return what each ladder costs."""
    from dpsql.kernel.loss import exact
    from dpsql.owner.kept_bounds import check_price
    from dpsql.owner.kept_list import default_price

    try:
        price = default_price(database.policy) if epsilon is None else exact(epsilon)
        check_price(price)
    except ValueError as problem:
        usual = float(default_price(database.policy))
        raise click.UsageError(f"--epsilon: {problem}\nHint: --epsilon {usual:g}") from None
    return price


def _measures(database: Database, names: Sequence[str], *, again: bool) -> list[UnitMeasure]:
    """Return the measures of these names, each once; refuse those that are kept of these data."""
    from dpsql.errors import ProgrammingError
    from dpsql.owner.kept_bounds import find_kept
    from dpsql.owner.kept_list import askable

    found: dict[tuple[str, str], UnitMeasure] = {}
    for name in names:
        try:
            measure = _useful(database, name)
        except ProgrammingError as problem:
            text, others = str(problem).partition("\nHint:")[0], askable(database)
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


def _useful(database: Database, name: str) -> UnitMeasure:
    """Return the measure of a name; `ProgrammingError` if there is none, or no statement would use it."""
    from dpsql.errors import ProgrammingError
    from dpsql.owner.kept_bounds import measure_named
    from dpsql.owner.kept_list import why_not

    if not name or name.endswith("."):
        raise ProgrammingError(f"{name!r} names no table and no column")
    measure = measure_named(database, name)
    if useless := why_not(database.policy, measure.table, measure.text):
        raise ProgrammingError(useless)
    return measure


def _agrees(database: Database, measures: Sequence[UnitMeasure], price: Fraction, *, yes: bool) -> bool:
    """Say the price and who pays it, and ask whether the owner agrees; raise unless all can pay."""
    from dpsql.cli.bounds_shown import least_left, names_of, price_of
    from dpsql.kernel.loss import PrivacyLoss
    from dpsql.owner.kept_bounds import losses
    from dpsql.owner.kept_list import tells_changes
    from dpsql.owner.kept_values import beyond_unasked

    database.ledger.check_ladders(sum(losses(database, measures, price), PrivacyLoss()))
    narrate.note(f"{names_of(measures)}: {price_of(price, len(measures))}")
    narrate.note("charged to the policy, to every analyst and to every group, those who come later included")
    narrate.note(f"least is left of {least_left(database.ledger.ladder_scopes())}")
    for table in dict.fromkeys(each.table for each in measures):
        if not tells_changes(database, table):
            narrate.warning(
                f"no change of {table} shows, so answers cannot tell what a bound leaves out: declare "
                "data_version in the policy first"
            )
    for each in beyond_unasked(database, measures):
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


def _release(
    database: Database, measures: Sequence[UnitMeasure], price: Fraction, out: AnswerOutput, *, as_json: bool
) -> None:
    """Charge, measure and keep the ladders, and show each."""
    from dpsql.cli import bounds_shown
    from dpsql.owner.kept_bounds import release_ladders
    from dpsql.owner.kept_list import describe_ladder

    with progress("measuring"):
        kept = release_ladders(database, measures, price, bounds_shown.command_of(measures))
        found = [describe_ladder(database, each) for each in kept]
    if as_json:
        out.write_text(bounds_shown.released_json(found))
    else:
        out.write_text(bounds_shown.draw_released(found, out.style))
    left = bounds_shown.least_left(database.ledger.ladder_scopes())
    narrate.note(f"charged: {bounds_shown.price_of(price, len(found))}; least is left of {left}")
