"""Models: public tables that stand for private ones, such as synthetic rows, or a table published last year.

Streams of checks expect what they count (`EXPECT n = MODELS`). What is public of a policy is told to all, so
no guarantee depends on which rows these are: what stands for a table may be wrong, which costs misses.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.kernel.facts import fold
from dpsql.policy.names import Names, key_path, suggest, wrong
from dpsql.policy.table import Table

Models = Mapping[str, Mapping[str, str]]
"""By the name of a model, the public table that stands for each private one."""


def read_models(tables: Mapping[str, Mapping[str, object]]) -> Models:
    """Read the keys `stands_for` and `model` of all tables; a table without `model` is one by itself."""
    found: dict[str, dict[str, str]] = {}
    for name, raw in tables.items():
        place = key_path("tables", name)
        stands, model = raw.get("stands_for"), raw.get("model", name)
        if stands is None:
            if "model" in raw:
                raise wrong(f"{place}.model", "is for tables that stand for others", "write stands_for")
            continue
        if not isinstance(stands, str):
            raise wrong(f"{place}.stands_for", "expected the name of a table", 'write stands_for = "visits"')
        if not isinstance(model, str) or not model.strip() or "," in model:
            raise wrong(f"{place}.model", "expected a name, without a comma", 'write model = "2023"')
        stand_ins = found.setdefault(model.strip(), {})
        if fold(stands) in map(fold, stand_ins):
            raise wrong(f"{place}.stands_for", f"two tables of the model {model.strip()} stand for {stands}")
        stand_ins[stands] = name
    return {model: Names(stand_ins) for model, stand_ins in found.items()}


def check_models(models: Models, tables: Mapping[str, Table]) -> None:
    """Check that public tables stand for private ones."""
    for stand_ins in models.values():
        for stands, name in stand_ins.items():
            place, own, other = key_path("tables", name, "stands_for"), tables.get(name), tables.get(stands)
            if other is None:
                raise wrong(place, f"there is no table {stands!r}", suggest(stands, tables, "tables"))
            if other.public:
                raise wrong(place, f"{stands!r} is public: nothing has to stand for it", "leave it out")
            if own is None or not own.public:
                raise wrong(place, "what stands for a private table is public", "write public = true")
