"""Obtain the releases of a private statement: those that are stored, and the others under one reservation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from dpsql.analysis import Plan
from dpsql.composition.prepared import TAKEN, PreparedComposed, PreparedPrivate
from dpsql.composition.release_words import words_of_release, words_of_selection
from dpsql.database import Database, Running
from dpsql.engines import running_statement
from dpsql.errors import PriceNotAgreed
from dpsql.kernel.charged_work import Paid
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.release import Run
from dpsql.kernel.unit_parts import PartSet
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.ledger import Ledger, Request, StoredRelease, shown
from dpsql.planning import (
    NoisyResult,
    StableList,
    add_sentence_on_ends,
    build_details,
    build_rows,
    ends_at_once,
    keep_clear,
    needs_few_counts,
    noises_of,
    outside_of,
    widen_by_left_out,
)
from dpsql.release import (
    Release,
    from_bytes,
    question,
    rename_columns,
    renew_words,
    reuse_key,
    to_bytes,
    why_charged_again,
)

if TYPE_CHECKING:
    from dpsql.planning.bound_search import BoundSearches


@dataclass(frozen=True, slots=True)
class Releasing:
    """Obtains releases for one analyst: vets the data, reserves, counts, adds noise and settles."""

    database: Database
    ledger: Ledger
    analyst: str
    most: Charge | None = None
    """The largest charge that was agreed; None if any price was."""
    reports: tuple[int | None, ...] = ()
    """For each release the number of the registered report for which it is; none: it is for none."""

    def stored(self, prepared: PreparedPrivate | PreparedComposed) -> tuple[Release, ...] | None:
        """Return the releases of a statement, if all are stored; else None."""
        parts, found = self._found(prepared)
        return None if len(found) < len(parts) else _place_releases(prepared, found)

    def keys(
        self, prepared: PreparedPrivate | PreparedComposed, releases: tuple[Release, ...]
    ) -> tuple[str, ...]:
        """Return the reuse key of each release of a statement, with earlier releases' values filled in."""
        known = dict(enumerate(releases))
        return tuple(_fill_values(prepared, part, known).key for part in prepared.parts)

    def priced(self, prepared: PreparedPrivate | PreparedComposed) -> PreparedPrivate | PreparedComposed:
        """Return a statement with its present price: a release that is stored costs nothing.

        Whether a release that reads a value of another is stored depends on that value.
        """
        read = frozenset[int]().union(*(_needed(prepared, part) for part in prepared.parts))
        known, parts = dict[int, Release](), list(prepared.parts)
        for place in _in_order(prepared):
            part = _fill_values(prepared, prepared.parts[place], known)
            if place in read and (stored := self._stored(part)) is not None:
                known[place] = stored
            found = place in known if place in read else self._is_stored(part)
            price = Charge() if found else part.full_price
            parts[place] = replace(prepared.parts[place], price=price)
        return parts[0] if isinstance(prepared, PreparedPrivate) else replace(prepared, parts=tuple(parts))

    def added(self, prepared: PreparedPrivate | PreparedComposed) -> PreparedPrivate | PreparedComposed:
        """Return a statement with the answers of its combining parts, added up from stored releases."""
        parts = [
            replace(each, added=self._add_up(each)) if each.combines else each for each in prepared.parts
        ]
        return parts[0] if isinstance(prepared, PreparedPrivate) else replace(prepared, parts=tuple(parts))

    def _add_up(self, part: PreparedPrivate) -> Release:
        from dpsql.composition.added_releases import add_up  # noqa: PLC0415  few statements combine

        return add_up(part, self.ledger, self.analyst)

    def _found(
        self, prepared: PreparedPrivate | PreparedComposed
    ) -> tuple[dict[int, PreparedPrivate], dict[int, Release]]:
        """Return the releases of a statement in the order of running, and those that are stored.

        One that reads a value of another is stored for that value.
        """
        parts = {place: prepared.parts[place] for place in _in_order(prepared)}
        found: dict[int, Release] = {}
        for place, part in parts.items():
            parts[place] = filled = _fill_values(prepared, part, found)
            release = self._stored(filled)
            if release is not None:
                found[place] = release
        return parts, found

    def releases(self, prepared: PreparedPrivate | PreparedComposed) -> tuple[Release, ...] | None:
        """Return the releases of a statement, each stored before or made now.

        None if the data changed before anything was charged: the statement must be prepared again.
        """
        parts, found = self._found(prepared)
        missing = {place: part for place, part in parts.items() if place not in found}
        shared = {
            place: part
            for place, part in missing.items()
            # What is shared is known after the charge: too late for a release that reads its value.
            if part.reusable
            and self.database.policy.share_releases
            and not any(self.reports)  # each analyst's own report is measured for it alone
            and not any(each.values for each in parts.values())
            and self.ledger.is_shareable(part.key)
        }
        made = {place: part for place, part in missing.items() if place not in shared}
        self._check_agreed(sum((part.method.quote.charge for part in missing.values()), Charge()))
        keys = [part.key for part in shared.values()]
        if made:
            if not all(each.current() for part in made.values() for each in part.counts):
                return None
            found |= self._made(prepared, made, found, keys)
        elif shared:
            self.ledger.share(keys, self.analyst)
        found |= {place: release for place, part in shared.items() if (release := self._stored(part))}
        stored = {place for place in found if place not in made}
        renewed = self.ledger.describe_renewals() if stored else ""
        found |= {place: renew_words(found[place], renewed) for place in stored}
        return _place_releases(prepared, found)

    def _check_agreed(self, charge: Charge) -> None:
        """Refuse a charge above the one that was agreed."""
        if self.most is not None and not charge.fits(self.most):
            epsilon, agreed = shown(charge.epsilon, up=True), shown(self.most.epsilon, up=False)
            raise PriceNotAgreed(
                f"the statement costs epsilon {epsilon} now, and {agreed} was agreed",
                hint="ask for its price again",
            )

    def _find(self, part: PreparedPrivate) -> StoredRelease | None:
        """Return what is stored for the same question on the same data; None if nothing is.

        Nothing is for a question that reads values which are not known yet.
        """
        return self.ledger.find(part.key, self.analyst) if _has_key(part) else None

    def _is_stored(self, part: PreparedPrivate) -> bool:
        """Return whether `_stored` finds something, without reading a release, which may be large."""
        known = _has_key(part) and self.ledger.numbers((part.key,), self.analyst) is not None
        return part.combines or known

    def _stored(self, part: PreparedPrivate) -> Release | None:
        """Return the stored release of the same question on the same data; None if there is none.

        Of a statement that combines releases, return what they add up to; it is refused if they do not.
        """
        if part.combines:
            return self._add_up(part)
        stored = self._find(part)
        return None if stored is None else _release(stored, part)

    def _made(
        self,
        prepared: PreparedPrivate | PreparedComposed,
        parts: dict[int, PreparedPrivate],
        stored: dict[int, Release],
        shared: list[str],
    ) -> dict[int, Release]:
        """Charge and run releases, in order; settle their charges and store them, all or none.

        One that reads a value of another runs after it. Its price and its mechanism were fixed before.
        """
        text, places, known = prepared.text, len(prepared.parts), dict(stored)
        again = dict[int, str]()

        touched = dict[int, PartSet | None]()

        def run(place: int, part: PreparedPrivate) -> Paid[Release]:
            filled = _fill_values(prepared, part, known)
            if place not in again:
                again[place] = self._charged_again(text, place, filled)
            paid = count_and_run(text, filled, touched[place], renewed)
            known[place] = paid.value
            return paid

        for place, part in parts.items():
            if part.counting.values or not part.values:  # else its key is not known yet
                again[place] = self._charged_again(text, place, part)
        counted = [each for part in parts.values() for each in part.counts]
        for each in counted:
            each.check_unknown()
        for each in counted:
            self.database.vet(each.engines, each.plan.compiled.tables)
        facts = next(iter(parts.values())).counting.engines.facts
        with running_statement() as statement:
            statement.check()  # the last moment at which it costs nothing
            own = (p for p in parts.values() if not p.plan.ladders and not p.values)
            statement.beside = (*(part.plan.compiled for part in own), *statement.beside)
        reservation = self.ledger.reserve_all(
            analyst=self.analyst,
            statement=text,
            requests=[
                _request_of(part, place + 1, places, self.reports[place] if self.reports else None)
                for place, part in parts.items()
            ],
            shared=shared,
            facts=facts,
        )
        touched |= zip(parts, reservation.touches, strict=True)
        renewed = reservation.renewed
        work = [partial(run, place, part) for place, part in parts.items()]
        try:
            released, event = Running(self.ledger, reservation).finish(work)
        finally:  # no frame of an error holds an answer that was not settled
            known.clear()
        return {
            place: replace(release, number=number, charged_again=again[place], receipt=str(event))
            for place, (release, number) in zip(parts, released, strict=True)
        }

    def _charged_again(self, text: str, place: int, part: PreparedPrivate) -> str:
        if not part.reusable:
            return ""
        alike = "" if part.query.parameters else text  # equal texts may ask of other values
        return why_charged_again(
            part.key, self.ledger.find_asked(question(part.key), alike, self.analyst, place + 1)
        )


def _has_key(part: PreparedPrivate) -> bool:
    """Return whether a question may be answered from what is stored, and its key is known."""
    return part.reusable and bool(part.counting.values or not part.values)


def _release(stored: StoredRelease, part: PreparedPrivate) -> Release:
    """Return a stored release with the names that a statement gives to its columns."""
    release = rename_columns(from_bytes(stored.payload), part.plan)
    return replace(release, reused=stored.when, number=stored.number, receipt=str(stored.event))


def _in_order(prepared: PreparedPrivate | PreparedComposed) -> list[int]:
    """Return the places of the releases as they were written, each after those whose values it reads."""
    waiting, found = [*range(len(prepared.parts))], list[int]()
    while waiting:
        ready = next(p for p in waiting if _needed(prepared, prepared.parts[p]) <= {*found})
        waiting.remove(ready)
        found.append(ready)
    return found


def _needed(prepared: PreparedPrivate | PreparedComposed, part: PreparedPrivate) -> frozenset[int]:
    """Return the places of the releases whose values a release reads."""
    if isinstance(prepared, PreparedPrivate):
        return frozenset()
    return frozenset[int]().union(*(prepared.values[value].releases for value in part.values))


def _fill_values(
    prepared: PreparedPrivate | PreparedComposed, part: PreparedPrivate, known: Mapping[int, Release]
) -> PreparedPrivate:
    """Return a release with the values that it reads, and the key of that question, once they are known."""
    if not part.values or part.counting.values or not _needed(prepared, part) <= known.keys():
        return part
    assert isinstance(prepared, PreparedComposed)  # noqa: S101  no other statement has values
    from dpsql.composition.composed_statements import value_over  # noqa: PLC0415  few have values

    values = tuple((place, value_over(prepared, place, known)) for place in part.values)
    counting = part.counting.with_values(values)
    charge = part.method.quote.charge
    key = reuse_key(counting.plan, counting.policy, counting.engines.versions, charge)
    return replace(part, counting=counting, key=key)


def _place_releases(
    prepared: PreparedPrivate | PreparedComposed, found: Mapping[int, Release]
) -> tuple[Release, ...]:
    """Return the releases in the order of the statement, with its notes."""
    return tuple(
        _add_note(_add_note(found[place], part.of_intervals), part.note)
        for place, part in enumerate(prepared.parts)
    )


def _add_note(release: Release, note: str) -> Release:
    """Return a release with a note on the statement among its warnings."""
    if TAKEN in note:
        day = release.rows.column(0).to_pylist() if release.rows.num_rows else ()
        paid = shown(release.charge.epsilon, up=True)
        note = f"{note.replace(TAKEN, str(day[0]) if day else 'none')} (epsilon {paid})"
    return replace(release, warnings=(note, *release.warnings)) if note else release


def _request_of(part: PreparedPrivate, place: int, places: int, report: int | None) -> Request:
    quote = part.method.quote
    selection = words_of_selection(part.plan)
    return Request(
        selection,
        quote.mechanism,
        quote.charge,
        part.refines,
        place,
        places,
        quote.loss,
        part.unit_parts,
        of_person=not any(each.plan.compiled.certificate.periods for each in part.counts),
        report=report,
    )


def count_and_run(
    text: str, prepared: PreparedPrivate, parts: PartSet | None, renewed: str = ""
) -> Paid[Release]:
    """Count and run the mechanism; called by `Running.finish` after these parts of units were charged.

    `renewed` is what the guarantee says of budgets that start anew.
    """
    spending = Spending(prepared.method.quote.loss, parts)
    plan, run, found = _run_method(prepared, spending)
    answer = widen_by_left_out(plan, found)
    shown = build_rows(plan, answer, run)
    charge = _charge_said(prepared, run.loss)
    table, places = build_details(plan, answer, shown)
    said = words_of_release(plan, prepared.method, prepared.refines, answer, renewed)
    if prepared.others:  # its privacy rests on the facts of all that was counted
        every = (fact for each in prepared.counts for fact in each.plan.assumed)
        said["assumed"] = tuple(dict.fromkeys(every))
    said["properties"] = add_sentence_on_ends(said["properties"], plan, answer)
    release = Release(
        rows=shown,
        table=table,
        places=places,
        together=ends_at_once(plan, answer, places),
        charge=charge,
        statement=text,
        scale=prepared.method.quote.scale,
        outside=outside_of(plan, answer),
        noises=noises_of(plan, found.alone or found, answer),
        addable=None if plan.addable is None else plan.addable.written,
        **said,
    )
    # Where a file may change while it is counted, the answer is for this statement alone.
    unchanged = all(each.unchanged() for each in prepared.counts)
    key = prepared.key if prepared.refines is None and unchanged else None
    return Paid(release, charge, to_bytes(release), key, run.loss, run.level, spending.unit_parts)


def _charge_said(prepared: PreparedPrivate, loss: PrivacyLoss) -> Charge:
    """Return what an answer is said to cost: by the price that the statement names if costs are divided."""
    layout, quote = prepared.plan.epsilon_division, prepared.method.quote
    if layout.order is None or prepared.refines is not None:
        return loss.charge
    if loss == quote.loss:
        return quote.charge
    plan, charge = prepared.plan, layout.find_charge(loss)
    return Charge(charge.epsilon * plan.price / plan.epsilon, charge.delta)


def _run_method(prepared: PreparedPrivate, spending: Spending) -> tuple[Plan, Run, NoisyResult]:
    """Count and run the method; where bounds are to be found, first find them, then count with them.

    The kernel runs each step on the counts, and adds up the loss within what the method was quoted for.
    """
    counting, method = prepared.counting, prepared.method
    if isinstance(method, StableList):
        runs = [Run(each.count(), spending) for each in prepared.counts]  # all, whichever is answered
        place, result = method.run_first(runs)
        return prepared.counts[place].plan, runs[place], result
    searches = _find_searches(prepared)
    if searches is None:
        few = needs_few_counts(method)
        run = Run(counting.count(unchanged=prepared.refines is not None, few=few), spending)
        return prepared.plan, run, keep_clear(prepared.plan, method.run(run))
    runs = [Run(counting.count(each.compiled), spending) for each in prepared.plan.ladders]
    found = searches.find(runs)
    bounded = counting.with_bounds(found)
    plan = bounded.plan
    known = searches.known(plan, found, runs, spending)
    run = Run(bounded.count(), spending) if known is None else known
    result = searches.answer_with(plan, found, runs, run, spending)
    return plan, run, keep_clear(plan, searches.add_left_out(plan, result, found))


def _find_searches(prepared: PreparedPrivate) -> BoundSearches | None:
    """Return the method if it finds bounds, as a plan with ladders lets it; else None."""
    if not prepared.plan.ladders:
        return None
    from dpsql.planning import bound_search  # noqa: PLC0415  few bounds are to be found

    return prepared.method if isinstance(prepared.method, bound_search.BoundSearches) else None
