"""Verify a ledger, for the owner and for tests: its invariants, and its tables against its events.

`find_problems` is the whole of it. The invariants are those of entries, releases, steps of streams, parts of
a statement and refinements; the totals are added up anew. `replay_events` then reads the events one after the
other, and compares what each tells with the tables, and its totals with the sums so far.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpsql.kernel.ledger import events, kept_results, part_totals, tables
from dpsql.kernel.ledger.charging import entry_content, problem_of, release_content
from dpsql.kernel.ledger.events import RefinementStep
from dpsql.kernel.ledger.renewal_rows import Last, find_last, renewal_setting, renewal_total
from dpsql.kernel.ledger.totals import (
    BOUNDS,
    POLICY,
    DamagedError,
    Stored,
    added_amounts,
    base,
    find_restored_cost,
    read,
    read_loss,
    scope,
)
from dpsql.kernel.loss import PrivacyLoss, Totals
from dpsql.ledger.listing import compare_end, compare_report
from dpsql.ledger.migration import digest_of
from dpsql.ledger.replay import RunningSums, StreamReplay, list_wrong_steps, list_wrong_streams

_Record = Mapping[str, Any]


def find_problems(connection: sqlite3.Connection) -> list[str]:
    """Return a sentence for each violated invariant."""
    found = [
        f"the file is damaged: {text}"
        for (text,) in connection.execute("PRAGMA integrity_check")
        if text != "ok"
    ]
    try:
        found += [
            f"{row[0]} refers to a missing {row[2]}" for row in connection.execute("PRAGMA foreign_key_check")
        ]
        found += _check_entries(connection)
        found += _check_releases(connection)
        found += list_wrong_steps(connection)
        found += _check_parts(connection)
        found += _check_refinements(connection)
        found += _check_trees(connection)
        found += list_wrong_streams(connection)
        found += replay_events(connection)
    except DamagedError as problem:
        found.append(f"something is unreadable: {problem}")
    except sqlite3.DatabaseError:
        if not found:
            raise
    return found


def _check_entries(connection: sqlite3.Connection) -> Iterator[str]:
    open_ones: Counter[tuple[str, str]] = Counter()
    rows = connection.execute(
        "SELECT entry, analyst, state, release, holder, reserved_loss, charged_loss FROM entry ORDER BY entry"
    )
    for entry, analyst, state, release, holder, *losses in rows:
        reserved, charged = map(read_loss, losses)
        most = reserved.epsilon
        if charged.delta > reserved.delta or (most is not None and (charged.epsilon or 0) > most):
            yield f"entry {entry} is charged more than was reserved"
        if state != "settled" and charged != reserved:
            yield f"entry {entry} is {state} but not charged in full"
        if (state == "settled") != (release is not None):
            yield f"entry {entry} is {state} but has {'a' if release is not None else 'no'} release"
        if state == "reserved":
            open_ones[analyst, holder] += 1
    begun = connection.execute(
        "SELECT s.analyst, a.holder FROM asked a JOIN stream s ON s.entry = a.entry WHERE a.state = 'begun'"
    )
    open_ones.update((analyst, holder) for analyst, holder in begun)
    kept = read_sums(connection)
    found = compute_sums(connection, kept)
    for name in sorted({*found, *kept}):
        if found.get(name) != kept.get(name):
            yield f"the total of {name} is not the sum of its entries"
    for analyst, holder, n in connection.execute("SELECT * FROM running"):
        if n > open_ones[analyst, holder]:
            yield f"{n} statements of {analyst} are counted as running, {open_ones[analyst, holder]} are"


def _check_releases(connection: sqlite3.Connection) -> Iterator[str]:
    rows = connection.execute(
        "SELECT r.number FROM release r LEFT JOIN entry e ON e.entry = r.entry AND e.release = r.number"
        " AND e.state = 'settled' AND e.analyst = r.analyst WHERE e.entry IS NULL"
    )
    for (number,) in rows:
        yield f"release {number} has no settled entry"


def _check_parts(connection: sqlite3.Connection) -> Iterator[str]:
    """Check that the releases of a statement were charged by one analyst and ended together."""
    rows = connection.execute(
        "SELECT p.first FROM part p JOIN entry e ON e.entry = p.entry GROUP BY p.first"
        " HAVING COUNT(DISTINCT e.state) > 1 OR COUNT(DISTINCT e.analyst) > 1 OR min(p.entry) <> p.first"
        " OR COUNT(DISTINCT p.places) > 1"
    )
    for (first,) in rows:
        yield f"the releases of the statement of entry {first} did not end together"


def _check_refinements(connection: sqlite3.Connection) -> Iterator[str]:
    """Return a sentence for each refinement that costs too little, or that its analyst had no right to."""
    rows = connection.execute(
        "SELECT f.entry, f.parent, f.epsilon, e.analyst, e.reserved_loss"
        " FROM refinement f JOIN entry e ON e.entry = f.entry"
    ).fetchall()
    for entry, parent, epsilon, analyst, reserved in rows:
        refines = RefinementStep(parent, read(epsilon))
        problem = problem_of(connection, analyst, read_loss(reserved).epsilon or Fraction(0), refines)
        if problem:
            yield f"entry {entry} {problem}"


def _check_trees(connection: sqlite3.Connection) -> Iterator[str]:
    """Build the totals by parts of all scopes anew from the entries."""
    for name in part_totals.find_wrong_trees(connection, tables.NODES):
        yield f"the totals by parts of {name} are not the sums of its entries"


def read_sums(connection: sqlite3.Connection) -> dict[str, Stored]:
    """Return all totals as they are stored."""
    rows = connection.execute("SELECT name, epsilon, delta, cost, alpha FROM total")
    return {name: Stored.read(tuple(row)) for name, *row in rows}


def compute_sums(connection: sqlite3.Connection, kept: Mapping[str, Stored]) -> dict[str, Stored]:
    """Return the totals of all entries, ladders and restored amounts, at the orders of the stored ones."""
    by_owner: dict[str, list[str]] = {POLICY: [POLICY]}
    renewal, last = renewal_total(connection), find_last(connection)
    for name in kept:
        by_owner.setdefault(base(name), []).append(name)
    by_owner[POLICY] = [POLICY]
    found: dict[str, Stored] = {}
    order = {name: total.order for name, total in kept.items()}
    for reserved, charged, bases in _list_charges(connection):
        for each in bases:
            for name in by_owner.get(each, [each]):
                before = found.get(name, Stored(Totals(), order.get(name)))
                more = added_amounts(reserved, charged, before.order)
                found[name] = replace(before, totals=before.totals + more)
    for event, each, epsilon, delta in connection.execute(
        "SELECT event, scope, epsilon, delta FROM restored"
    ):
        also = [renewal] if renewal and each == POLICY and event > last.event else []
        for name in [*by_owner.get(each, [each]), *also]:
            before = found.get(name, Stored(Totals(), order.get(name)))
            cost = find_restored_cost(connection, event, each, before.order)
            more = Totals(None if epsilon is None else read(epsilon), read(delta), cost)
            found[name] = replace(before, totals=before.totals + more)
    for name, total in kept.items():
        found.setdefault(name, Stored(Totals(), total.order))
    return found


def _list_charges(
    connection: sqlite3.Connection,
) -> Iterator[tuple[PrivacyLoss, PrivacyLoss, tuple[str, ...]]]:
    """Yield reserved and charged loss of all entries and ladders, and the scopes in which each counts."""
    rows = connection.execute(
        "SELECT entry, analyst, shared, reserved_loss, charged_loss FROM entry"
        " WHERE entry NOT IN (SELECT entry FROM touch)"
    )
    renewal, last = renewal_total(connection), find_last(connection)
    for entry, analyst, shared, *losses in rows:
        reserved, charged = map(read_loss, losses)
        also = (renewal,) if renewal and not shared and entry > last.entry else ()
        yield reserved, charged, (*_scopes_of(analyst, shared), *also)
    for number, loss in connection.execute("SELECT number, loss FROM bounds"):
        also = (renewal,) if renewal and number > last.ladder else ()
        yield read_loss(loss), read_loss(loss), (BOUNDS, POLICY, *also)


def replay_events(connection: sqlite3.Connection) -> Iterator[str]:
    """Return a sentence for each event that was changed, and for each row that no event tells of."""
    replay = _Replay(connection)
    last = 0
    for n, record, follows in events.chain(connection):
        if not follows:
            yield f"event {n} is not what it was when it was written, or one before it is missing"
        yield from replay.compare(n, record)
        last = n
    if not last:
        yield "there are no events"
    yield from replay.compare_rest()


class _Replay:
    """What the tables should hold after the events so far."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sums = RunningSums(connection)
        self._running: dict[int, PrivacyLoss] = {}
        """The entries without an end, and what they have reserved."""
        self._streams = StreamReplay(connection)
        self._measuring: set[int] = set()
        """The ladders without an end."""
        self._entries = self._releases = self._ladders = self._runs = self._n = 0
        self._last: Mapping[str, Any] = {}
        self._facts: str | None = None
        """The hash of the facts that the newest event `policy` tells of."""
        self._renewal: str | None = None
        """What the newest event `renewal` tells."""
        self._rules: dict[str, Callable[[_Record], Iterator[str]]] = {
            "migration": self._compare_migration,
            "policy": self._compare_policy,
            "reserve": self._compare_entries,
            "share": self._compare_shared,
            "settle": self._compare_settled,
            "fail": self._compare_ended("failed"),
            "cancel": self._compare_ended("cancelled"),
            "restored": self._compare_restored,
            "parts": self._compare_spent_in_all,
            "renewal": self._renew,
            "report": lambda record: compare_report(connection, record),
            "report-end": lambda record: compare_end(connection, self._n, record),
            "stream": self._streams.compare_opened,
            "check": self._streams.compare_check,
            "bounds": self._compare_ladders,
            "bounds-settle": self._compare_settled_ladder,
            "bounds-fail": lambda record: self._compare_ended_ladders("failed", [record["ladder"]]),
        }

    def compare(self, n: int, record: _Record) -> Iterator[str]:
        """Compare what an event says with the tables, and its totals with the sums."""
        try:
            self._n = n
            rule = self._rules.get(record["event"])
            if rule is not None:
                yield from (f"event {n}: {text}" for text in rule(record))
            self._last = record["totals"]
            for name, total in self._last.items():
                if name.startswith(part_totals.BY_PARTS):  # these are built anew from all entries
                    continue
                if Stored.read(tuple(total)) != self._sums.at(name, total[3]):
                    yield f"event {n}: the total of {name} is not the sum of the events"
        except (KeyError, TypeError, ValueError, DamagedError):
            yield f"event {n} cannot be read"

    def compare_rest(self) -> Iterator[str]:
        """Compare what is left at the end."""
        for name, total in self._last.items():
            if events.stored_total(self._connection, name) != tuple(total):
                yield f"the total of {name} is not the one that the newest event tells of"
        yield from self._streams.compare_rest()
        rows = self._connection.execute("SELECT entry FROM entry WHERE state = 'reserved'")
        if {entry for (entry,) in rows} != self._running.keys():
            yield "the entries that have not ended are not those of the events"
        rows = self._connection.execute("SELECT number FROM bounds WHERE state = 'reserved'")
        if {number for (number,) in rows} != self._measuring:
            yield "the ladders that have not ended are not those of the events"
        row = self._connection.execute("SELECT value FROM setting WHERE name = 'facts'").fetchone()
        if (row[0] if row is not None else "") != (self._facts or ""):
            yield "the facts are not those of the newest event that tells of the policy"
        if self._renewal != renewal_setting(self._connection):
            yield "when the budget started anew is not what the newest event tells of it"
        numbers = {"entry": self._entries, "release": self._releases, "bounds": self._ladders}
        numbers |= {"report_run": self._runs}
        for table, number in numbers.items():
            (found,) = self._connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
            if found != number:
                yield f"the table {table} has {found} rows, and the events tell of {number}"

    def _compare_policy(self, record: _Record) -> Iterator[str]:
        self._facts = record.get("facts")
        if self._facts is not None and re.fullmatch("[0-9a-f]{64}", self._facts) is None:
            yield "the hash of the facts is none"

    def _renew(self, record: _Record) -> Iterator[str]:
        self._renewal = events.canonical(record["renewal"])
        self._sums.renew(Last(*record["renewal"]["last"]))
        yield from ()

    def _compare_migration(self, record: _Record) -> Iterator[str]:
        connection, last = self._connection, record["entries"]
        if digest_of(connection, last, record["running"]) != record["digest"]:
            yield "the entries and releases from before the migration are not what they were"
        running = set(record["running"])
        rows = connection.execute(
            "SELECT entry, analyst, shared, reserved_loss, charged_loss FROM entry WHERE entry <= ?", (last,)
        )
        for entry, analyst, shared, reserved, charged in rows:
            self._entries += 1
            if entry in running:
                self._running[entry] = read_loss(reserved)
            else:
                self._releases += connection.execute(
                    "SELECT COUNT(*) FROM release WHERE entry = ?", (entry,)
                ).fetchone()[0]
            loss = read_loss(reserved if entry in running else charged)
            self._sums.enter(entry, read_loss(reserved), loss, _scopes_of(analyst, shared))

    def _compare_entries(self, record: _Record) -> Iterator[str]:
        for content in record["entries"]:
            entry, loss = content["entry"], read_loss(content["reserved_loss"])
            found = self._connection.execute("SELECT 1 FROM entry WHERE entry = ?", (entry,)).fetchone()
            if found is None:
                yield f"entry {entry} is missing"
            elif entry_content(self._connection, entry) != content:
                yield f"entry {entry} is not what it was when it was reserved"
            self._entries += 1
            self._runs += "report" in content
            self._running[entry] = loss
            names = () if "parts" in content else _scopes_of(content["analyst"], content["shared"])
            self._sums.enter(entry, loss, loss, names)

    def _compare_shared(self, record: _Record) -> Iterator[str]:
        yield from self._compare_entries(record)
        yield from self._compare_settled(record)

    def _compare_settled(self, record: _Record) -> Iterator[str]:
        for content in record["releases"]:
            entry, loss = content["entry"], read_loss(content["charged_loss"])
            row = self._connection.execute(
                "SELECT e.state, e.charged_loss, e.at = r.at AND e.analyst = r.analyst AND r.event = ?,"
                " r.number, r.reuse_key, r.payload FROM entry e JOIN release r ON r.number = e.release"
                " WHERE e.entry = ?",
                (self._n, entry),
            ).fetchone()
            if row is None:
                yield f"the release of entry {entry} is missing"
                continue
            state, charged, same, number, key, payload = row
            found = release_content(entry, number, read_loss(charged), key, payload)
            if state != "settled" or not same or found != content:
                yield f"entry {entry} or its release is not what it was when it was settled"
            self._releases += 1
            del self._running[entry]
            self._sums.settle(entry, loss)

    def _compare_restored(self, record: _Record) -> Iterator[str]:
        yield from self._compare_ended("cancelled")({"entries": record["ended"]})
        yield from self._compare_ended_ladders("cancelled", record.get("ladders", []))
        yield from self._streams.compare_cancelled(record)
        yield from self._compare_spent_in_all(record)

    def _compare_spent_in_all(self, record: _Record) -> Iterator[str]:
        rows = self._connection.execute(
            "SELECT scope, epsilon, delta, cost, alpha, most FROM restored WHERE event = ?", (self._n,)
        ).fetchall()
        if {name: amounts for name, *amounts in rows} != record["added"]:
            yield "what was added to the totals is not what it was"
        for name, amounts in record["added"].items():
            epsilon, delta, *_ = amounts
            self._sums.restore(name, (self._n, epsilon, delta))

    def _compare_ladders(self, record: _Record) -> Iterator[str]:
        for content in record["ladders"]:
            number, loss = content["number"], read_loss(content["loss"])
            if kept_results.content_of(self._connection, number) != content:
                yield f"ladder {number} is missing or not what it was when it was reserved"
            self._ladders += 1
            self._measuring.add(number)
            self._sums.enter(("ladder", number), loss, loss, (BOUNDS, POLICY))

    def _compare_settled_ladder(self, record: _Record) -> Iterator[str]:
        number = record["ladder"]
        row = self._connection.execute(
            "SELECT payload FROM bounds WHERE number = ? AND state = 'settled' AND event = ?",
            (number, self._n),
        ).fetchone()
        if row is None or events.digest(row[0]) != record["payload"]:
            yield f"ladder {number} is missing or not what it was when it was settled"
        self._measuring.remove(number)

    def _compare_ended_ladders(self, state: str, numbers: Iterable[int]) -> Iterator[str]:
        for number in numbers:
            row = self._connection.execute("SELECT state FROM bounds WHERE number = ?", (number,)).fetchone()
            if row != (state,):
                yield f"ladder {number} has not {state}"
            self._measuring.remove(number)

    def _compare_ended(self, state: str) -> Callable[[_Record], Iterator[str]]:
        def compare(record: _Record) -> Iterator[str]:
            for entry in record["entries"]:
                del self._running[entry]
                row = self._connection.execute("SELECT state FROM entry WHERE entry = ?", (entry,)).fetchone()
                if row != (state,):
                    yield f"entry {entry} has not {state}"

        return compare


def _scopes_of(analyst: str, shared: int) -> tuple[str, ...]:
    return (scope(analyst),) if shared else (scope(analyst), POLICY)
