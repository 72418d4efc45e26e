"""diffprivlib: its tools on one value of each unit, its mechanisms on exact counts; bounds are kept by
hand in pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any

Rows = Iterable[tuple[Any, ...]]


def prepared(file: str, given: dict[str, Any]) -> tuple[str, dict[str, Callable[[], Rows]]]:
    """Return the version, and what answers each question."""
    import pandas
    from diffprivlib import tools
    from diffprivlib.mechanisms import Geometric, Laplace, PermuteAndFlip

    frame = pandas.read_parquet(file, columns=["unit", "kind", "item", "amount"])
    epsilon, high, rows = given["epsilon"], float(given["high"]), given["rows"]

    def limited() -> Any:
        """Return at most so many rows of each unit, drawn at random, with amounts cut to the bounds."""
        drawn = frame.sample(frac=1).groupby("unit").head(rows)
        return drawn.assign(amount=drawn["amount"].clip(0, high))

    def of_groups(key: str, limit: int) -> Any:
        """Return the units of each group, of which each is in at most so many."""
        return (
            frame.drop_duplicates(["unit", key])
            .sample(frac=1)
            .groupby("unit")
            .head(limit)[key]
            .value_counts()
        )

    def count_rows() -> Rows:
        return [("0", Geometric(epsilon=epsilon, sensitivity=rows).randomise(len(limited())))]

    def count_units() -> Rows:
        return [("0", Geometric(epsilon=epsilon, sensitivity=1).randomise(frame["unit"].nunique()))]

    def units_by_kind() -> Rows:
        limit = given["kinds_of_unit"]
        found, noise = of_groups("kind", limit), Geometric(epsilon=epsilon, sensitivity=limit)
        return [(kind, noise.randomise(int(found.get(kind, 0)))) for kind in given["kinds"]]

    def rows_by_kind() -> Rows:
        found, noise = limited()["kind"].value_counts(), Geometric(epsilon=epsilon, sensitivity=rows)
        return [(kind, noise.randomise(int(found.get(kind, 0)))) for kind in given["kinds"]]

    def total() -> Rows:
        of_units = limited().groupby("unit")["amount"].sum()
        return [("0", tools.sum(of_units.to_numpy(), epsilon=epsilon, bounds=(0, rows * high)))]

    def total_by_kind() -> Rows:
        found, noise = (
            limited().groupby("kind")["amount"].sum(),
            Laplace(epsilon=epsilon, sensitivity=rows * high),
        )
        return [(kind, noise.randomise(float(found.get(kind, 0)))) for kind in given["kinds"]]

    def average() -> Rows:
        drawn = limited()
        whole = Laplace(epsilon=epsilon / 2, sensitivity=rows * high).randomise(float(drawn["amount"].sum()))
        return [("0", whole / max(Geometric(epsilon=epsilon / 2, sensitivity=rows).randomise(len(drawn)), 1))]

    def median() -> Rows:
        amounts = limited()["amount"].to_numpy()
        return [
            ("0", tools.median(amounts, epsilon=epsilon / rows, bounds=(0, high)))
        ]  # a unit has so many rows

    def top() -> Rows:
        found = frame.drop_duplicates(["unit", "item"])["item"].value_counts()
        items, counts = list(given["items"]), [int(found.get(item, 0)) for item in given["items"]]
        count = Geometric(epsilon=epsilon / 2, sensitivity=1 if rows == 1 else 5)
        released = []
        for _ in range(5):
            select = PermuteAndFlip(epsilon=epsilon / 10, sensitivity=1, monotonic=True, utility=counts)
            place = select.randomise()
            released.append((items.pop(place), count.randomise(counts.pop(place))))
        return released

    return version("diffprivlib"), {
        "rows": count_rows,
        "units": count_units,
        "units_by_kind": units_by_kind,
        "rows_by_kind": rows_by_kind,
        "total": total,
        "total_by_kind": total_by_kind,
        "average": average,
        "median": median,
        "top": top,
    }
