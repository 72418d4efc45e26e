"""Make the synthetic clinic: patients.parquet, visits.parquet and diagnoses.parquet.

    python data/make_clinic.py [--into DIRECTORY]

Nobody in it exists: every value is drawn from the distributions written here, starting from a fixed
seed. The same pyarrow release writes the same bytes again, any release the same tables: only raw
words of numpy's PCG64 are used, whose stream is fixed for good, never the methods of its Generator.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Indices = np.ndarray[tuple[int], np.dtype[np.int64]]
Reals = np.ndarray[tuple[int], np.dtype[np.float64]]
Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]

HERE = Path(__file__).resolve().parent
SEED = 20250301
PATIENTS = 50_000
VISITS = 400_000
FIRST_DAY, LAST_DAY = date(2023, 1, 1), date(2024, 12, 31)
OLDEST, YOUNGEST = 1930, 2022

BIRTHS = [5, 14, 30, 42, 52, 56, 58, 50, 44, 50]
"""A year's births, by decade from 1930 on."""
SEXES = {"F": 51.5, "M": 47.5, "X": 1.0}
REGIONS = {
    "North Coast": 14,
    "River Valley": 13,
    "Old Town": 12,
    "Lakeside": 10,
    "Hill Country": 9,
    "Harbour": 8,
    "West Plain": 8,
    "Forest Edge": 7,
    "Mill District": 6,
    "South Bank": 5,
    "Vineyards": 4,
    "Islands": 2,
}
CLINICS = {
    "Coast Road": "North Coast",
    "Lighthouse": "North Coast",
    "Dune Park": "North Coast",
    "Bridge Street": "River Valley",
    "Watermeadow": "River Valley",
    "Ferry Lane": "River Valley",
    "Market Square": "Old Town",
    "Clock Tower": "Old Town",
    "Abbey Gate": "Old Town",
    "Lake View": "Lakeside",
    "Boathouse": "Lakeside",
    "Summit": "Hill Country",
    "Quarry Hill": "Hill Country",
    "Harbour Street": "Harbour",
    "West Gate": "West Plain",
    "Pine Ridge": "Forest Edge",
    "Old Mill": "Mill District",
    "Embankment": "South Bank",
    "Orchard": "Vineyards",
    "Ferry Landing": "Islands",
}
"""The twenty clinics, each in its region; the first are the larger ones."""
NO_REGION = 0.015
NO_PATIENT = 0.0006
NO_CODE = 0.02
NO_NOTE = 0.35
AWAY_FROM_HOME_CLINIC = 0.12

AGES = {
    "": (1.0, 1.0, 1.0, 1.0),
    "child": (1.0, 0.02, 0.01, 0.01),
    "adult": (0.04, 1.0, 1.0, 0.8),
    "older": (0.01, 0.25, 1.0, 1.5),
    "childbearing": (0.0, 1.0, 0.0, 0.0),
}
"""How likely each age group (0-17, 18-44, 45-64, 65 and over) meets a diagnosis of each kind."""
VISITS_BY_AGE = (0.8, 0.7, 1.0, 1.6)
CHRONIC_AT_MOST = 4
CHRONIC_PROBABILITY = (0.10, 0.30, 0.58, 0.80)
"""That each of the four places of a patient's list of chronic diagnoses is taken, by age group."""
VISIT_IS_CHRONIC = 0.84
"""That a visit is for the chronic diagnosis in one of these places, if that is taken."""

MINUTES_ACUTE = {5: 14, 10: 38, 15: 28, 20: 12, 30: 6, 45: 2}
MINUTES_CHRONIC = {10: 16, 15: 30, 20: 26, 30: 18, 45: 8, 60: 2}
EXTRAS = {0: 58, 480: 14, 1240: 11, 2500: 8, 3875: 5, 8500: 3, 21000: 1}
"""Cents for tests and material, on top of the fee and the minutes."""
SENTENCES = [
    "Feels better",
    "No change",
    "Worse than last time",
    "Repeat prescription",
    "Sick note issued",
    "Bloods taken",
    "Referred to specialist",
    "X-ray ordered",
    "Discussed options",
    "Advice given",
    "Declined treatment",
    "Came with interpreter",
    "Phone consultation",
    "Wound clean and dry",
    "Tolerates medication well",
    "Side effects, dose reduced",
    "Urgent appointment",
    "Late arrival",
]


@dataclass(frozen=True)
class Draws:
    """Uniform numbers, one independent stream for each name."""

    seed: int

    def uniform(self, name: str, size: int) -> Reals:
        """Return doubles in [0, 1) from the top 53 bits of PCG64's words."""
        stream = np.random.PCG64(np.random.SeedSequence([self.seed, *name.encode()]))
        return np.asarray(stream.random_raw(size) >> np.uint64(11), dtype=np.float64) * 2.0**-53

    def below(self, name: str, bound: int, size: int) -> Indices:
        """Return whole numbers from 0 up to, but not including, the bound."""
        return np.asarray(self.uniform(name, size) * bound, dtype=np.int64)

    def pick(self, name: str, weights: Sequence[float] | np.ndarray, size: int) -> Indices:
        """Return indices, each as likely as its weight."""
        total = np.cumsum(np.asarray(weights, dtype=np.float64))
        found = np.searchsorted(total, self.uniform(name, size) * total[-1], side="right")
        return np.asarray(found, dtype=np.int64)

    def weighted(self, name: str, choices: dict[int, int], size: int) -> Indices:
        """Return values, each as likely as its weight."""
        return np.array(list(choices), dtype=np.int64)[self.pick(name, list(choices.values()), size)]

    def bell(self, name: str, size: int) -> Reals:
        """Return about standard normal numbers: the sum of twelve uniform ones."""
        return np.asarray(self.uniform(name, 12 * size).reshape(12, size).sum(axis=0) - 6.0)


@dataclass(frozen=True)
class Catalogue:
    """The diagnoses: the public table, its source rows, and how common each one is."""

    table: pa.Table
    rows: list[dict[str, str]]
    weight: Reals

    @classmethod
    def read(cls) -> Catalogue:
        """Read the source; how common a diagnosis is follows a power law of its rank."""
        with (HERE / "make_clinic_diagnoses.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        order = sorted(range(len(rows)), key=lambda i: int(rows[i]["tier"]))
        rank = np.arange(len(rows))
        chronic = np.array([rows[i]["course"] == "chronic" for i in order])
        weight = np.empty(len(rows))
        weight[order] = np.where(chronic, (rank + 1.5) ** -0.9, (rank + 7.0) ** -0.95)
        public = ("code", "diagnosis", "chapter")
        table = pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in public})
        return cls(table, rows, weight)

    def chance(self, course: str, group: int, sex: str) -> Reals:
        """Return the weight of each diagnosis of this course for a patient of this age group and sex."""
        fits = [row["course"] == course and row["sex"] in {"", sex} for row in self.rows]
        return self.weight * fits * [AGES[row["ages"]][group] for row in self.rows]


@dataclass(frozen=True)
class People:
    """The patients: their table, and of each the age group, the sex and the region (-1: unknown)."""

    table: pa.Table
    group: Indices
    sex: Indices
    region: Indices

    @classmethod
    def draw(cls, draws: Draws) -> People:
        """Draw them; they are numbered one after the other."""
        years = np.arange(OLDEST, YOUNGEST + 1)
        year = years[draws.pick("birth year", np.array(BIRTHS)[(years - OLDEST) // 10], PATIENTS)]
        sex = draws.pick("sex", list(SEXES.values()), PATIENTS)
        region = draws.pick("region", list(REGIONS.values()), PATIENTS)
        region[draws.uniform("no region", PATIENTS) < NO_REGION] = -1
        table = pa.table(
            {
                "patient_id": pa.array(np.arange(PATIENTS) + 100_001, pa.int64()),
                "birth_year": pa.array(year, pa.int32()),
                "sex": chosen(list(SEXES), sex),
                "region": chosen(list(REGIONS), region),
            }
        )
        group = np.searchsorted([18, 45, 65], FIRST_DAY.year - year, side="right").astype(np.int64)
        return cls(table, group, sex, region)


def chosen(values: list[str], index: Indices) -> pa.Array:
    """Return the values at these indices; -1 is NULL."""
    return pa.array(values, pa.string()).take(pa.array(index, pa.int64(), mask=index < 0))


def codes(draws: Draws, catalogue: Catalogue, people: People, who: Indices) -> tuple[Indices, Flags]:
    """Return each visit's diagnosis, and whether it is one of the patient's chronic ones (those repeat)."""
    chronic = np.full((PATIENTS, CHRONIC_AT_MOST), -1)
    acute = np.empty(VISITS, dtype=np.int64)
    for group in range(4):
        for number, sex in enumerate(SEXES):
            alike = (people.group == group) & (people.sex == number)
            members, seen = np.flatnonzero(alike), np.flatnonzero(alike[who])
            size = members.size * CHRONIC_AT_MOST
            drawn = draws.pick(f"chronic {group} {sex}", catalogue.chance("chronic", group, sex), size)
            drawn[draws.uniform(f"taken {group} {sex}", size) >= CHRONIC_PROBABILITY[group]] = -1
            chronic[members] = drawn.reshape(members.size, CHRONIC_AT_MOST)
            chances = catalogue.chance("acute", group, sex)
            acute[seen] = draws.pick(f"acute {group} {sex}", chances, seen.size)
    mine = chronic[who, draws.below("place in the list", CHRONIC_AT_MOST, VISITS)]
    repeats = (mine >= 0) & (draws.uniform("for a chronic one", VISITS) < VISIT_IS_CHRONIC)
    return np.where(repeats, mine, acute), repeats


def days(draws: Draws, winter: Flags) -> Indices:
    """Return each visit's day, counted from the first: few on Saturdays, hardly any on Sundays."""
    day = np.arange((LAST_DAY - FIRST_DAY).days + 1)
    weekday = np.array([1.25, 1.1, 1.0, 1.0, 0.9, 0.25, 0.02])[(day + FIRST_DAY.weekday()) % 7]
    season = 1.0 + 0.7 * np.cos(2 * np.pi * (day - 20) / 365.25)
    in_winter = draws.pick("winter day", weekday * season, VISITS)
    return np.where(winter, in_winter, draws.pick("day", weekday, VISITS))


def clinics(draws: Draws, people: People, who: Indices) -> Indices:
    """Return each visit's clinic: mostly the patient's own, one of those in the patient's region."""
    popularity = 1.0 / np.sqrt(np.arange(len(CLINICS)) + 1.0)
    home = draws.pick("home anywhere", popularity, PATIENTS)
    for number, region in enumerate(REGIONS):
        members = np.flatnonzero(people.region == number)
        here = popularity * [where == region for where in CLINICS.values()]
        home[members] = draws.pick(f"home in {region}", here, members.size)
    away = draws.uniform("away", VISITS) < AWAY_FROM_HOME_CLINIC
    return np.where(away, draws.pick("other clinic", popularity, VISITS), home[who])


def notes(draws: Draws, day: Indices) -> pa.Array:
    """Return the free text: sentences, measurements, sometimes only a number or a date, often nothing."""
    sentence = draws.pick("sentence", 1.0 / (np.arange(len(SENTENCES)) + 2.0), VISITS)
    number = draws.below("number", 12, VISITS) + 1
    later = pc.cast(pa.array(np.datetime64(FIRST_DAY) + day + 7 * number, pa.date32()), pa.string())
    high, low = draws.below("systolic", 14, VISITS), draws.below("diastolic", 8, VISITS)
    tenths = draws.below("temperature", 35, VISITS) + 365
    kinds = {
        "sentence": (50, chosen(SENTENCES, sentence)),
        "review": (12, joined("Review in ", number, " weeks")),
        "pressure": (10, joined("Blood pressure ", 100 + 5 * high, "/", 60 + 5 * low)),
        "number": (8, joined(number)),
        "temperature": (6, joined("Temperature ", tenths // 10, ".", tenths % 10)),
        "pain": (6, joined("Pain ", number, " out of 12")),
        "appointment": (5, joined("Next appointment ", later)),
        "date": (3, later),
    }
    kind = draws.pick("kind of note", [share for share, _ in kinds.values()], VISITS)
    note = pc.choose(pa.array(kind), *[text for _, text in kinds.values()])
    return pc.if_else(
        pa.array(draws.uniform("no note", VISITS) < NO_NOTE), pa.scalar(None, pa.string()), note
    )


def joined(*parts: str | Indices | pa.Array) -> pa.Array:
    """Return the texts and numbers, written one after the other."""
    written = [
        pc.cast(pa.array(part), pa.string()) if isinstance(part, np.ndarray) else part for part in parts
    ]
    return pc.binary_join_element_wise(*written, "")


def visits(draws: Draws, catalogue: Catalogue, people: People) -> pa.Table:
    """Return the visits, numbered in order of their dates."""
    often = np.exp(0.85 * draws.bell("often", PATIENTS)) * np.array(VISITS_BY_AGE)[people.group]
    who = draws.pick("who", often, VISITS)
    code, chronic = codes(draws, catalogue, people, who)
    winter = [row["chapter"] == "Respiratory" and row["course"] == "acute" for row in catalogue.rows]
    day = days(draws, np.array(winter)[code])
    minutes = np.where(
        chronic,
        draws.weighted("minutes, chronic", MINUTES_CHRONIC, VISITS),
        draws.weighted("minutes, acute", MINUTES_ACUTE, VISITS),
    )
    cents = 1850 + 135 * minutes + draws.weighted("extras", EXTRAS, VISITS)
    code[draws.uniform("no code", VISITS) < NO_CODE] = -1
    unknown = draws.uniform("no patient", VISITS) < NO_PATIENT
    unordered = pa.table(
        {
            "patient_id": pa.array(who + 100_001, pa.int64(), mask=unknown),
            "visit_date": pa.array(np.datetime64(FIRST_DAY) + day, pa.date32()),
            "diagnosis_code": chosen(catalogue.table["code"].to_pylist(), code),
            "clinic": chosen(list(CLINICS), clinics(draws, people, who)),
            "minutes": pa.array(minutes, pa.int32()),
            "cost": money(cents),
            "note": notes(draws, day),
        }
    )
    numbers = pa.array(np.arange(VISITS) + 500_001, pa.int64())
    return unordered.take(np.argsort(day, kind="stable")).add_column(0, "visit_id", numbers)


def money(cents: Indices) -> pa.Array:
    """Return amounts as exact decimals: a decimal is stored as its number of cents."""
    whole = pc.cast(pa.array(cents, pa.int64()), pa.decimal128(19, 0))
    return pa.Array.from_buffers(pa.decimal128(10, 2), len(whole), whole.buffers())


def tables() -> dict[str, pa.Table]:
    """Return every table of the clinic by its name."""
    draws = Draws(SEED)
    catalogue = Catalogue.read()
    people = People.draw(draws)
    return {
        "patients": people.table,
        "visits": visits(draws, catalogue, people),
        "diagnoses": catalogue.table,
    }


def main() -> None:
    """Write the tables beside this script, or where `--into` says."""
    parser = argparse.ArgumentParser(description="Make the synthetic clinic.")
    parser.add_argument(
        "--into", type=Path, default=HERE, help="directory to write to (default: beside this script)"
    )
    into = parser.parse_args().into
    for name, table in tables().items():
        path = into / f"{name}.parquet"
        # Running numbers take no room as differences.
        running = [column for column in table.column_names[:1] if pa.types.is_integer(table[column].type)]
        pq.write_table(
            table,
            path,
            compression="zstd",
            compression_level=19,
            store_decimal_as_integer=True,
            use_dictionary=[column for column in table.column_names if column not in running],
            column_encoding=dict.fromkeys(running, "DELTA_BINARY_PACKED"),
        )
        print(f"{path.name}: {table.num_rows} rows, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
