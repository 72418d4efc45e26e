"""Time zones: the offsets of local times from UTC, from one database whose version is pinned.

The database is the package `tzdata`, never that of the system or of an engine: these differ from each other,
so that one statement would have several answers. A conversion is written into a statement as a choice among
the offsets between the changes of a public range of time (by `dpsql.analysis`).

Of local times that occur twice the later instant is taken, as PostgreSQL and DuckDB do. A local time that is
skipped has the offset before the change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from zoneinfo import ZoneInfo

DATABASE = "tzdata"
"""The name of the database in the notes of answers."""
SECOND = 1_000_000
DAY = 86_400
_FIRST, _LAST = -62_000_000_000, 253_370_764_800
"""Seconds since 1970 in the years 5 and 9999: the offsets there hold outside, too."""
_RULES = -2_208_988_800
"""1900-01-01, from where on rules are looked at that no file lists."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Steps:
    """An offset from UTC in seconds, as a function of time: `offsets[i]` holds before `starts[i]`.

    `starts` are in seconds since 1970, and there is one offset more than starts.
    """

    starts: tuple[int, ...]
    offsets: tuple[int, ...]

    def at(self, seconds: int) -> int:
        """Return the zone's offset from UTC at a time."""
        return self.offsets[bisect_right(self.starts, seconds)]

    @property
    def unit(self) -> int:
        """The largest number of seconds of which all starts and offsets are multiples, at most a day."""
        size = DAY
        for number in (*self.starts, *self.offsets):
            while number % size:
                size = _LESS[size]
        return size

    def negative(self) -> Steps:
        """Return the steps with the opposite offsets: of a conversion to UTC."""
        return Steps(self.starts, tuple(-offset for offset in self.offsets))

    def then(self, other: Steps) -> Steps:
        """Return the sum of the own offset at a time and the offset of `other` at the moved time."""
        moved = {start - offset for start in other.starts for offset in set(self.offsets)}
        starts = sorted({*self.starts, *moved})
        times = [*(starts[0] - 1 for _ in starts[:1]), *starts] or [0]
        return _make_steps(starts, [self.at(t) + other.at(t + self.at(t)) for t in times])


_LESS = {DAY: 3600, 3600: 900, 900: 60, 60: 1}
"""Each size of `Steps.unit` with the next smaller one."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone by its name in the database."""

    name: str

    def of_instants(self, first: int, last: int) -> Steps:
        """Return the offsets as a function of the instant, from one second since 1970 to another."""
        rules = _read_rules(self.name)
        changes = sorted(t for t in _list_changes(self.name, last + DAY) if first < t <= last)
        return _make_steps(changes, [_offset_at(rules, first), *(_offset_at(rules, t) for t in changes)])

    def of_local_times(self, first: int, last: int) -> Steps:
        """Return the offsets as a function of the local time, from one instant to another.

        A local time has the offset after the last change whose new local time it has reached: of two instants
        the later one, and where none is, the offset before the change.
        """
        own = self.of_instants(first, last)
        reached = {start + offset for start, offset in zip(own.starts, own.offsets[1:], strict=True)}
        starts = sorted(reached)
        offsets = [own.offsets[0]]
        for local in starts:
            pairs = zip(own.starts, own.offsets[1:], strict=True)
            offsets.append([offset for start, offset in pairs if start + offset <= local][-1])
        return _make_steps(starts, offsets)

    def offset(self, instant: int) -> int:
        """Return the offset at an instant, in seconds since 1970."""
        return _offset_at(_read_rules(self.name), min(max(instant, _FIRST), _LAST))

    def instants(self, local: int) -> tuple[int, ...]:
        """Return the instants that have a local time, in seconds: one, two in order, or none."""
        around = {self.offset(local + days * DAY) for days in (-1, 0, 1)}
        around |= {self.offset(local - offset) for offset in tuple(around)}
        return tuple(sorted({local - o for o in around if self.offset(local - o) == o}))

    def instant(self, local: int) -> int:
        """Return the instant of a local time by the rule of this module."""
        found = self.instants(local)
        if found:
            return found[-1]
        changes = [t for t in _list_changes(self.name, local + 2 * DAY) if abs(t - local) < 2 * DAY]
        skipped = [t for t in changes if t + self.offset(t - 1) <= local < t + self.offset(t)]
        return local - self.offset(skipped[-1] - 1 if skipped else local - DAY)

    def changed_hours(self, first: int, last: int, *, doubled: bool) -> list[tuple[int, int]]:
        """Return the local times that occur twice, or those that are skipped, each as a start and an end."""
        own = self.of_instants(first, last)
        pairs = zip(own.starts, own.offsets, own.offsets[1:], strict=False)
        moved = [(at + before, at + after) for at, before, after in pairs]
        return [(b, a) for a, b in moved if b < a] if doubled else [(a, b) for a, b in moved if a < b]

    def longer_days(self, first: int, last: int) -> list[tuple[str, int]]:
        """Return the local days of a range that have other than 24 hours, with their minutes."""
        own, found = self.of_instants(first, last), []
        for place, start in enumerate(own.starts):
            before, after = own.offsets[place], own.offsets[place + 1]
            if before != after:
                day = _EPOCH + timedelta(seconds=start - 1 + before)
                found.append((day.date().isoformat(), 1440 - (after - before) // 60))
        return found


@cache
def version() -> str:
    """Return the version of the database, as of the package: `2026.6`."""
    from importlib.metadata import version as of_package  # noqa: PLC0415  only where a zone is used

    return of_package(DATABASE)


def _open_resource(*names: str) -> Traversable:
    from importlib.resources import files  # noqa: PLC0415

    return files(DATABASE).joinpath(*names)


@cache
def _read_names() -> dict[str, str]:
    listed = _open_resource("zones").read_text("utf-8").split()
    return {name.lower(): name for name in listed}


_UTC = "UTC"
"""The zone of most policies: the list of all is not read for it."""


@cache
def zone(name: str) -> Zone:
    """Return a time zone by its name, in capital or small letters; `ValueError` for an unknown one.

    >>> zone("europe/berlin").name
    'Europe/Berlin'
    """
    found = _UTC if name.upper() == _UTC else _read_names().get(name.lower())
    if found is None:
        raise ValueError(f"there is no time zone {name[:40]!r}")
    return Zone(found)


def show_time(seconds: int) -> str:
    """Write a time, given in seconds since 1970.

    >>> show_time(0)
    '1970-01-01 00:00:00'
    """
    return str((_EPOCH + timedelta(seconds=min(max(seconds, _FIRST), _LAST))).replace(tzinfo=None))


def names() -> tuple[str, ...]:
    """Return the names of all time zones."""
    return tuple(_read_names().values())


@cache
def _read_rules(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo  # noqa: PLC0415

    with _open_resource("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, name)


@cache
def _read_changes(name: str) -> tuple[int, ...]:
    """Return the instants that the zone's file lists, in its block of 64-bit numbers (RFC 8536)."""
    data = _open_resource("zoneinfo", *name.split("/")).read_bytes()
    counts = [int.from_bytes(data[20 + 4 * i : 24 + 4 * i]) for i in range(6)]
    isutcnt, isstdcnt, leapcnt, timecnt, typecnt, charcnt = counts
    second = 44 + timecnt * 5 + typecnt * 6 + charcnt + leapcnt * 8 + isstdcnt + isutcnt
    number = int.from_bytes(data[second + 32 : second + 36])
    listed = data[second + 44 : second + 44 + 8 * number]
    return tuple(int.from_bytes(listed[8 * i : 8 * i + 8], signed=True) for i in range(number))


@cache
def _find_changes(name: str, year: int) -> tuple[int, ...]:
    """Return the changes up to the end of a year: those of the file, and those by the rule behind them."""
    rules, written = _read_rules(name), [t for t in _read_changes(name) if t > _FIRST]
    end = int((datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC) - _EPOCH).total_seconds())
    changes = [t for t in written if _offset_at(rules, t) != _offset_at(rules, t - 1)]
    # Behind the file there are at most two changes a year, months apart.
    at, step = max([*written, _RULES]), 30 * DAY
    while at < end:
        following = min(at + step, end)
        before, after = _offset_at(rules, at), _offset_at(rules, following)
        if before != after:
            low, high = at, following
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset_at(rules, middle) == before else (low, middle)
            changes.append(high)
        at = following
    return tuple(changes)


def _list_changes(name: str, last: int) -> tuple[int, ...]:
    year = (_EPOCH + timedelta(seconds=min(max(last, 0), _LAST))).year
    return _find_changes(name, min(9998, -(-max(year, 2037) // 50) * 50))


def _offset_at(rules: ZoneInfo, instant: int) -> int:
    offset = rules.utcoffset((_EPOCH + timedelta(seconds=instant)).astimezone(rules))
    return round(offset.total_seconds()) if offset is not None else 0


def _make_steps(starts: Iterable[int], offsets: list[int]) -> Steps:
    """Return offsets without the starts at which nothing changes."""
    kept = [(s, o) for i, (s, o) in enumerate(zip(starts, offsets[1:], strict=True)) if o != offsets[i]]
    return Steps(tuple(s for s, _ in kept), (offsets[0], *(o for _, o in kept)))
