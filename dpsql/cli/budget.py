"""`dpsql budget` and `dpsql release`: what the ledger holds, and whether it is sound."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from dpsql.cli import narrate
from dpsql.cli.narrate import ExitCode
from dpsql.render.figures import show_left, show_spent
from dpsql.render.grid import column, draw, draw_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dpsql.cli.options import CliSettings
    from dpsql.kernel.loss import Charge, PrivacyLoss, Totals
    from dpsql.ledger import Budget, Entry, LadderCharge, Ledger
    from dpsql.render.grid import Drawn, Style


_SHOWN = 20
"""Entries the report lists; `--json` has them all."""


@click.group("budget", invoke_without_command=True)
@click.option("--json", "json_", is_flag=True, help="Print everything as one JSON object.")
@click.option(
    "--clear-failures",
    is_flag=True,
    help="For the owner: let analysts (or --analyst NAME) ask again after too many failed or cancelled ones.",
)
@click.option("--check", "check_", is_flag=True, help="Verify that the ledger is sound, all of it.")
@click.option("--head", is_flag=True, help="Print the receipt of the newest event.")
@click.option("--receipt", metavar="RECEIPT", help="Tell whether the ledger has the event of a receipt.")
@click.option(
    "--accept-restored",
    is_flag=True,
    help="For the owner: go on with a ledger that is older than its mark, or lost: that is spent.",
)
@click.option("--streams", is_flag=True, help="List the streams of checks of all analysts, or of --analyst.")
@click.option(
    "--close-stream",
    metavar="NAME",
    help="For the owner: settle a stream of --analyst, also if nobody can tell whether its check runs.",
)
@click.option(
    "--moved",
    is_flag=True,
    help="For the owner: units have moved from part to part, so the largest total counts in every part.",
)
@click.pass_context
def budget_command(
    ctx: click.Context,
    /,
    *,
    json_: bool,
    clear_failures: bool,
    check_: bool,
    head: bool,
    receipt: str | None,
    accept_restored: bool,
    streams: bool,
    close_stream: str | None,
    moved: bool,
) -> int:
    """Show what is spent, on what, and what is left."""
    settings: CliSettings = ctx.obj
    others = [streams and not json_, close_stream is not None]
    chosen = [json_, clear_failures, check_, head, receipt is not None, accept_restored, moved, *others]
    if ctx.invoked_subcommand is not None:
        if any(chosen):
            raise click.UsageError("the options of `budget` do not go with `check`")
        return ExitCode.OK
    if sum(chosen) > 1:
        raise click.UsageError("the options of `budget` go one at a time")
    if check_:
        return _check_ledger(settings)
    if receipt is not None:
        return _find_receipt(settings, receipt)
    if accept_restored:
        return _accept_restored(settings)
    if moved:
        return _spend_in_all_parts(settings)
    if close_stream is not None:
        return _close_stream(settings, close_stream)
    if streams:
        return _show_streams(settings, json_=json_)
    if settings.format not in (None, "table", "json"):
        raise click.UsageError("the budget is shown as a table or as JSON")
    with settings.answers("table") as out, settings.open_ledger() as ledger:
        if clear_failures:
            ledger.clear_failures(settings.analyst)
            narrate.note(
                f"failed and cancelled statements of {settings.analyst or 'every analyst'} are cleared"
            )
        elif head:
            out.write_text(f"{ledger.head()}\n")
        elif json_ or settings.format == "json":
            out.write_text(_as_json(ledger, settings.analyst))
        else:
            like = settings.load_policy().budget.default_epsilon
            out.write_text(_draw_report(ledger, settings.analyst, like, out.style))
    return ExitCode.OK


@budget_command.command("check")
@click.pass_obj
def budget_check(settings: CliSettings) -> int:
    """Verify that the whole ledger is sound."""
    return _check_ledger(settings)


def _check_ledger(settings: CliSettings) -> int:
    from dpsql.ledger import Opening

    with settings.open_ledger(Opening.INSPECT) as ledger:
        problems = ledger.check()
        if not ledger.has_mark:
            narrate.note("no mark is kept (high_water = false): that an older copy is in use goes unnoticed")
    for problem in problems:
        narrate.error(problem)
    if problems:
        return ExitCode.DATABASE
    narrate.note(
        "the ledger is sound: its events are complete, every total is the sum of its entries, "
        "every release is charged"
    )
    return ExitCode.OK


def _accept_restored(settings: CliSettings) -> int:
    """Count as spent what the mark tells of a ledger that was lost or is older."""
    from dpsql.ledger import Opening

    with settings.open_ledger(Opening.ACCEPT) as ledger:
        added = ledger.accepted
    if added is None:
        narrate.note("the ledger is as its mark tells: there is nothing to accept")
        return ExitCode.OK
    narrate.note("the ledger goes on; statements that had no end stay charged in full")
    _tell_added(added)
    return ExitCode.OK


def _spend_in_all_parts(settings: CliSettings) -> int:
    """Count the largest total of any part of units in all of them, and forget which units were in which."""
    from dpsql.release.moved_units import forget_units

    with settings.open_ledger() as ledger:
        if ledger.parts is None:
            raise click.UsageError("the policy divides no units into parts")
        added = ledger.spend_in_all_parts()
        forget_units(ledger)
    narrate.note("what was asked of any part counts in every part now")
    _tell_added(added)
    return ExitCode.OK


def _show_streams(settings: CliSettings, *, json_: bool) -> int:
    """List the latest stream of each name, of one analyst or of all."""
    import json

    with settings.answers("table") as out, settings.open_ledger() as ledger:
        rows = [
            {
                "analyst": each.analyst,
                "stream": each.terms.name,
                "state": each.said,
                "opened": f"{each.when:%Y-%m-%d %H:%M}",
                "misses": each.terms.misses,
                "left": each.left,
                "epsilon": show_spent(each.terms.charge.epsilon),
                "charged": show_spent(each.charged),
            }
            for each in ledger.streams.list(settings.analyst)
        ]
        if json_ or settings.format == "json":
            out.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
        elif rows:
            columns = [column(name, [str(row[name]) for row in rows], out.style) for name in rows[0]]
            out.write_text(draw(columns, out.style))
        else:
            out.write_text("no stream was opened yet\n")
    return ExitCode.OK


def _close_stream(settings: CliSettings, name: str) -> int:
    """Settle an analyst's stream: what its checks have used stays charged."""
    from dpsql.errors import ProgrammingError

    analyst = settings.analyst or "analyst"
    with settings.open_ledger() as ledger:
        found = ledger.streams.find(analyst, name.lower())
        if found is None or found.state != "open":
            raise ProgrammingError(f"{analyst} has no open stream {name[:60]}")
        closed = ledger.streams.close(found.entry, by_owner=True)
    narrate.note(
        f"the stream {closed.terms.name} of {analyst} is closed: epsilon {show_spent(closed.charged)}"
    )
    return ExitCode.OK


def _tell_added(added: Mapping[str, Totals]) -> None:
    """Say what is spent in addition in each scope."""
    for name, more in added.items():
        amounts = {"epsilon": more.epsilon, "delta": more.delta, "cost": more.cost}
        said = ", ".join(f"{what} {show_spent(amount)}" for what, amount in amounts.items() if amount)
        narrate.note(f"spent in addition, {name}: {said or 'what has no epsilon'}")


def _find_receipt(settings: CliSettings, receipt: str) -> int:
    """Tell whether the ledger has the event of a receipt; exit code 1 if not."""
    number, _, digits = receipt.strip().partition("-")
    if not (number.isascii() and number.isdigit() and digits):
        raise click.UsageError("a receipt is a number and 16 digits, such as 12-9f3c0e5d7a1b2c4d")
    with settings.open_ledger() as ledger:
        found, newest = ledger.event(int(number[:18])), ledger.head()
    if found is not None and str(found) == receipt.strip():
        narrate.note(f"the ledger has event {number} of this receipt")
        return ExitCode.OK
    if found is None:
        narrate.error(
            f"the ledger has no event {number}, its newest is {newest}: "
            "it is older than the receipt, or another one"
        )
    else:
        narrate.error(
            f"event {number} of the ledger is {found}: the receipt is of another ledger, or of a copy"
        )
    return ExitCode.QUERY_FAILED


@click.command("release")
@click.argument("number", type=click.IntRange(min=1))
@click.pass_obj
def release_command(settings: CliSettings, /, *, number: int) -> None:
    """Show an earlier answer again, by its number in SHOW RELEASES."""
    from dpsql.release import from_bytes, renew_words

    with settings.answers() as out:
        with settings.open_ledger() as ledger:
            stored, renewed = (
                ledger.release(number, settings.analyst or "analyst"),
                ledger.describe_renewals(),
            )
        found = replace(from_bytes(stored.payload), number=number, receipt=str(stored.event))
        found = renew_words(found, renewed)
        out.write(found.rows, found)


def _draw_report(ledger: Ledger, analyst: str | None, like: Fraction | None, style: Style) -> str:
    """Draw the budget, the spending over time, the kept ladders and the latest entries."""
    from dpsql.render.plots import chart

    budget = ledger.budget(analyst)
    entries, ladders = ledger.entries(analyst), ledger.ladder_charges()
    text = _draw_amounts(budget, like, style)
    if budget.renewal is not None:
        cells = zip(*budget.renewal.rows, strict=True)
        names = ("", "total", "spent", "remaining")
        text += draw(
            [column(name, list(each), style) for name, each in zip(names, cells, strict=True)], style
        )
        text += f"{budget.renewal.words}\n"
    spent = [(e.when, e.charged.epsilon or Fraction(0)) for e in reversed(entries)]
    spent += [(each.when, each.loss.epsilon or Fraction(0)) for each in ladders]
    text += chart(sorted(spent, key=lambda one: one[0]), budget.total.epsilon, style)
    if ladders:
        text += _draw_ladder_charges(ladders, style)
        text += "ladders are known to every analyst, so each budget has paid for all of them\n"
    if entries:
        text += _draw_shares("analyst", [(e.analyst, e) for e in entries], style)
        text += _draw_shares("mechanism", [(e.mechanism, e) for e in entries], style)
        text += _draw_entries(entries[:_SHOWN], style)
        if len(entries) > _SHOWN:
            text += f"the latest {_SHOWN} of {len(entries)} entries; --json has all\n"
    else:
        text += "nothing was asked yet\n"
    return text


def _draw_amounts(budget: Budget, like: Fraction | None, style: Style) -> str:
    from dpsql.ledger import rows_of

    if budget.accounting != "pure":
        names = ("", "total", "spent", "remaining")
        rows = zip(*rows_of(budget, like), strict=True)
        return draw(
            [column(name, list(cells), style) for name, cells in zip(names, rows, strict=True)], style
        )
    parts = ["epsilon", "delta"] if budget.total.delta else ["epsilon"]
    # What is spent is rounded up, what there is and what is left down.
    columns: list[Drawn[str]] = [
        ("", str, ""),
        ("spent", lambda part: show_spent(getattr(budget.spent, part)), "number"),
        ("remaining", lambda part: show_left(getattr(budget.remaining, part)), "number"),
        ("total", lambda part: show_left(getattr(budget.total, part)), "number"),
    ]
    return draw_rows(parts, columns, style)


def _draw_shares(what: str, entries: Sequence[tuple[str, Entry]], style: Style) -> str:
    """Show what was spent by analyst or by mechanism, the most first."""
    spent: dict[str, Fraction] = defaultdict(Fraction)
    asked = Counter(name for name, _ in entries)
    for name, entry in entries:
        spent[name] += entry.charged.epsilon or 0
    columns: list[Drawn[str]] = [
        (f"by {what}", str, ""),
        ("statements", lambda name: str(asked[name]), "number"),
        ("epsilon", lambda name: show_spent(spent[name]), "number"),
    ]
    return draw_rows(sorted(spent, key=lambda name: (-spent[name], name)), columns, style)


def _draw_entries(entries: Sequence[Entry], style: Style) -> str:
    # States are not shown: whether a statement failed is for the owner alone.
    columns: list[Drawn[Entry]] = [
        ("entry", lambda e: str(e.entry), "number"),
        ("when (UTC)", lambda e: f"{e.when:%Y-%m-%d %H:%M}", "firm"),
        ("analyst", lambda e: " ".join(e.analyst.split()), ""),
        ("epsilon", lambda e: _show_epsilon(e.charged), "number"),
        ("delta", lambda e: show_spent(e.charged.delta), "number"),
        ("mechanism", lambda e: e.mechanism, ""),
        ("statement", lambda e: e.statement, "statements"),
    ]
    # What is the same in all entries stands above: the analyst, and that there is no delta.
    if not any(e.charged.delta for e in entries):
        columns.pop(4)
    if len({e.analyst for e in entries}) == 1:
        columns.pop(2)
    return draw_rows(entries, columns, style)


def _draw_ladder_charges(ladders: Sequence[LadderCharge], style: Style) -> str:
    """Show what was charged for ladders, the newest first; one that was not measured is not kept."""
    columns: list[Drawn[LadderCharge]] = [
        ("ladder", lambda each: str(each.number), "number"),
        ("when (UTC)", lambda each: f"{each.when:%Y-%m-%d %H:%M}", "firm"),
        ("table", lambda each: each.source, ""),
        ("measure", lambda each: each.measure, ""),
        ("epsilon", lambda each: _show_epsilon(each.loss), "number"),
        ("kept", lambda each: "yes" if each.state == "settled" else "no", ""),
    ]
    return draw_rows(ladders[::-1], columns, style)


def _as_json(ledger: Ledger, analyst: str | None) -> str:
    """Write the budget, all kept ladders and all entries as one JSON object, the oldest first.

    Amounts are numbers, rounded against the analyst, and under `exact` fractions as text.
    """
    import json

    budget = ledger.budget(analyst)
    whole = {
        "analyst": analyst,
        "total": _charge_facts(budget.total, show_left),
        "spent": _charge_facts(budget.spent, show_spent),
        "remaining": _charge_facts(budget.remaining, show_left),
        "accounting": budget.accounting,
        "order_way": _order_way(budget),
        **({} if budget.renewal is None else {"renewal": budget.renewal.facts}),
        "head": str(ledger.head()),
        "ladders": [
            {
                "ladder": each.number,
                "when": each.when.isoformat(),
                "table": each.source,
                "measure": each.measure,
                "version": each.version,
                "statement": each.statement,
                "kept": each.state == "settled",
                **_loss_facts(each.loss),
            }
            for each in ledger.ladder_charges()
        ],
        "entries": [
            {
                "entry": e.entry,
                "when": e.when.isoformat(),
                "analyst": e.analyst,
                "statement": e.statement,
                "selection": e.selection,
                "mechanism": e.mechanism,
                **_loss_facts(e.charged),
            }
            for e in reversed(ledger.entries(analyst))
        ],
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _order_way(budget: Budget) -> dict[str, object] | None:
    """Return order, limit and sum of costs; None if only epsilons add up."""
    if budget.alpha is None or budget.limit is None or budget.cost is None:
        return None
    amounts = {"alpha": budget.alpha, "limit": budget.limit, "cost": budget.cost}
    shown = {
        "alpha": float(budget.alpha),  # a multiple of 1/64
        "limit": float(show_left(budget.limit)),
        "cost": float(show_spent(budget.cost)),
    }
    return {**shown, "exact": {name: str(amount) for name, amount in amounts.items()}}


def _show_epsilon(loss: PrivacyLoss) -> str:
    """Show the epsilon of an entry; Gaussian noise has none that could be added to others."""
    return "none" if loss.epsilon is None else show_spent(loss.epsilon)


def _loss_facts(loss: PrivacyLoss) -> dict[str, object]:
    if loss.epsilon is not None:
        return {**_charge_facts(loss.charge, show_spent), "loss": str(loss)}
    exact = {"epsilon": None, "delta": str(loss.delta)}
    return {"epsilon": None, "delta": float(show_spent(loss.delta)), "exact": exact, "loss": str(loss)}


def _charge_facts(charge: Charge, rounded: Callable[[Fraction], str]) -> dict[str, object]:
    return {
        "epsilon": float(rounded(charge.epsilon)),
        "delta": float(rounded(charge.delta)),
        "exact": charge.fractions,
    }
