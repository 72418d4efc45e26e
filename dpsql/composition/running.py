"""Obtain the releases of a private statement: those that are stored, and the others under one reservation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from dpsql.analysis import Plan
from dpsql.answers import BoundSearches, NoisyResult, details, rows
from dpsql.database import Database
from dpsql.engines import Counts
from dpsql.info import words
from dpsql.ledger import Ledger, Request
from dpsql.prepared import PreparedComposed, PreparedPrivate
from dpsql.release import Release, charged_again, from_bytes, question, to_bytes
from dpsql.running import Paid, Running


@dataclass(frozen=True, slots=True)
class Releasing:
    """Obtains releases for one analyst: vets the data, reserves, counts, adds noise and settles."""

    database: Database
    ledger: Ledger
    analyst: str

    def releases(self, prepared: PreparedPrivate | PreparedComposed) -> tuple[Release, ...] | None:
        """Return the releases of a statement, each stored before or made now.

        None if the data changed before anything was charged: the statement must be prepared again.
        """
        parts = dict(enumerate(prepared.parts))
        found = {place: release for place, part in parts.items() if (release := self._stored(part))}
        missing = {place: part for place, part in parts.items() if place not in found}
        shared = {
            place: part
            for place, part in missing.items()
            if _reusable(part) and self.database.policy.share_releases and self.ledger.shareable(part.key)
        }
        made = {place: part for place, part in missing.items() if place not in shared}
        keys = [part.key for part in shared.values()]
        if made:
            if not all(part.counting.unchanged() for part in made.values()):
                return None
            found |= self._made(prepared.text, made, len(parts), keys)
        elif shared:
            self.ledger.share(keys, self.analyst)
        found |= {place: release for place, part in shared.items() if (release := self._stored(part))}
        return tuple(_noted(found[place], part.note) for place, part in parts.items())

    def _stored(self, part: PreparedPrivate) -> Release | None:
        """Return the stored release of the same question on the same data; None if there is none."""
        stored = self.ledger.find(part.key, self.analyst) if _reusable(part) else None
        if stored is None:
            return None
        return replace(from_bytes(stored.payload), reused=stored.when, number=stored.number)

    def _made(
        self, text: str, parts: dict[int, PreparedPrivate], places: int, shared: list[str]
    ) -> dict[int, Release]:
        """Charge and run releases, in order; settle their charges and store them, all or none."""
        again = {place: self._charged_again(text, place, part) for place, part in parts.items()}
        for part in parts.values():
            self.database.vet(part.counting.engines, part.plan.compiled.tables)
        reservation = self.ledger.reserve_all(
            analyst=self.analyst,
            statement=text,
            requests=[_request(part, place + 1, places) for place, part in parts.items()],
            shared=shared,
        )
        work = [partial(_noisy, text, part) for part in parts.values()]
        released = Running(self.ledger, reservation).finish(work)
        return {
            place: replace(release, number=number, charged_again=again[place])
            for place, (release, number) in zip(parts, released, strict=True)
        }

    def _charged_again(self, text: str, place: int, part: PreparedPrivate) -> str:
        if not _reusable(part):
            return ""
        return charged_again(part.key, self.ledger.asked(question(part.key), text, self.analyst, place + 1))


def _noted(release: Release, note: str) -> Release:
    """Return a release with a note on the statement among its warnings."""
    return replace(release, warnings=(note, *release.warnings)) if note else release


def _reusable(part: PreparedPrivate) -> bool:
    """Whether a stored release of the same question answers it."""
    return not part.plan.options.fresh and part.refines is None


def _request(part: PreparedPrivate, place: int, places: int) -> Request:
    quote, selection = part.method.quote, type(part.plan.selection).__name__
    return Request(selection, quote.mechanism, quote.charge, part.refines, place, places)


def _noisy(text: str, prepared: PreparedPrivate) -> Paid[Release]:
    """Count and run the mechanism; called by `Running.finish` after the charge was written."""
    plan, counts, answer = _answered(prepared)
    shown = rows(plan, answer, counts)
    release = Release(
        rows=shown,
        table=details(plan, answer, shown),
        charge=answer.charge,
        statement=text,
        scale=prepared.method.quote.scale,
        **words(plan, prepared.method, prepared.refines, answer.notes),
    )
    # Where a file may change while it is counted, the answer is for this statement alone.
    key = prepared.key if prepared.refines is None and prepared.counting.unchanged() else None
    return Paid(release, release.charge, to_bytes(release), key)


def _answered(prepared: PreparedPrivate) -> tuple[Plan, Counts, NoisyResult]:
    """Count and run the method; where bounds are to be found, first find them, then count with them."""
    counting, method = prepared.counting, prepared.method
    if not isinstance(method, BoundSearches):
        counts = counting.count(unchanged=prepared.refines is not None)
        return prepared.plan, counts, method.run(counts)
    found, loss = method.find([counting.count(each.compiled) for each in prepared.plan.ladders])
    bounded = counting.with_bounds(found)
    counts = bounded.count()
    result = method.after(bounded.plan).run(counts)
    return bounded.plan, counts, method.completed(result, found, loss)
