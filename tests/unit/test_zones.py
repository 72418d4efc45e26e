"""Time zones against the standard library's reading of the same files; the rule for local times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from importlib.resources import files
from zoneinfo import ZoneInfo

import pytest

from dpsql.policy import zones

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = 0, int((datetime(2037, 12, 31, 23, 59, 59, tzinfo=UTC) - EPOCH).total_seconds())


def rules(name: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file)


def seconds(text: str) -> int:
    return int((datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH).total_seconds())


def offset(zone: ZoneInfo, instant: int) -> int:
    found = zone.utcoffset((EPOCH + timedelta(seconds=instant)).astimezone(zone))
    assert found is not None
    return round(found.total_seconds())


def of_local(zone: ZoneInfo, local: int) -> int:
    """The offset of a local time: of the later of two instants; of a skipped one that before the change."""
    naive = (EPOCH + timedelta(seconds=local)).replace(tzinfo=zone)
    early, late = (naive.replace(fold=fold).utcoffset() for fold in (0, 1))
    assert early is not None
    assert late is not None
    # Where an hour is skipped, `fold=0` has the offset before the change, which is the smaller one.
    return round((early if early < late else late).total_seconds())


@pytest.mark.parametrize("every", [60, pytest.param(1, marks=pytest.mark.slow)])
def test_every_zone_is_as_the_standard_library_reads_it(every: int) -> None:
    for name in zones.names()[::every]:
        zone, known = zones.zone(name), rules(name)
        steps, local = zone.of_instants(FIRST, LAST), zone.of_local_times(FIRST, LAST)
        near = [t + d for t in steps.starts for d in (-1, 0, 1)]
        for at in (*range(FIRST + 7, LAST, 40 * zones.DAY + 4321), *near):
            assert steps.at(at) == offset(known, at) == zone.offset(at), (name, at)
        near = [t + d for t in local.starts for d in (-7201, -3601, -1800, -1, 0, 1, 1800, 3599, 3601, 7199)]
        for at in (*range(FIRST + zones.DAY, LAST - zones.DAY, 40 * zones.DAY + 4321), *near):
            if FIRST + zones.DAY < at < LAST - zones.DAY:
                assert local.at(at) == of_local(known, at) == at - zone.instant(at), (name, at)


def test_a_doubled_hour_is_the_later_instant_and_a_skipped_one_has_the_offset_before() -> None:
    berlin = zones.zone("Europe/Berlin")
    doubled, skipped = seconds("2024-10-27 02:30:00"), seconds("2024-03-31 02:30:00")
    assert [zones.show_time(t) for t in berlin.instants(doubled)] == [
        "2024-10-27 00:30:00",
        "2024-10-27 01:30:00",
    ]
    assert zones.show_time(berlin.instant(doubled)) == "2024-10-27 01:30:00"
    assert berlin.instants(skipped) == ()
    assert zones.show_time(berlin.instant(skipped)) == "2024-03-31 01:30:00"
    assert berlin.longer_days(seconds("2024-01-01"), seconds("2024-12-31")) == [
        ("2024-03-31", 23 * 60),
        ("2024-10-27", 25 * 60),
    ]


def test_one_function_of_time_after_another_is_their_sum() -> None:
    to_utc = zones.zone("Europe/Berlin").of_local_times(FIRST, LAST).negative()
    there = zones.zone("America/New_York").of_instants(FIRST, LAST)
    both = to_utc.then(there)
    changes = {*both.starts, *to_utc.starts, *there.starts}
    near = [at + d for at in changes for d in (-7201, -3601, -1, 0, 1, 3599, 3601, 7199)]
    for at in (*range(FIRST + zones.DAY, LAST - zones.DAY, 9 * zones.DAY + 4321), *near):
        assert both.at(at) == to_utc.at(at) + there.at(at + to_utc.at(at))
    assert zones.Steps((), (5,)).then(zones.Steps((), (-7,))) == zones.Steps((), (-2,))


def test_the_unit_divides_all_changes() -> None:
    units = {name: zones.zone(name).of_instants(FIRST, LAST).unit for name in ("UTC", "Europe/Berlin")}
    units["Asia/Kathmandu"] = (
        zones.zone("Asia/Kathmandu").of_instants(FIRST + 20 * 366 * zones.DAY, LAST).unit
    )
    assert units == {"UTC": zones.DAY, "Europe/Berlin": 3600, "Asia/Kathmandu": 900}


def test_names_are_those_of_the_package_in_any_case() -> None:
    assert zones.zone("EUROPE/berlin").name == "Europe/Berlin"
    for wrong in ("Europe/Belin", "../zones", "", "+02", "localtime"):
        with pytest.raises(ValueError, match="there is no time zone"):
            zones.zone(wrong)
    assert zones.version() == version("tzdata")
