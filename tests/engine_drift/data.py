"""The facts of the tested versions as files of `dpsql/engines/duckdb/tested`, to be reviewed as a diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dpsql.analysis.scalar_functions import REFUSED
from dpsql.engines.duckdb import duckdb_settings

FOLDER = Path(__file__).parents[2] / "dpsql" / "engines" / "duckdb" / "tested"
COMPILED = frozenset({"range", "error"})
"""Refused functions that compiled SQL may call all the same, with arguments that it writes itself."""


def tested() -> list[str]:
    """Return the tested versions, the oldest first."""
    return list(duckdb_settings.tested_versions())


def facts_of(collected: dict[str, Any]) -> dict[str, Any]:
    """Return what the guarantee reads, out of all that was collected of a version.

    Raises `ValueError` where that is incomplete, or where plans call what is volatile or refused.
    """
    if collected["failed"]:
        raise ValueError(f"not everything was collected: {collected['failed']}")
    words, described = collected["words"], collected["functions"]
    called = {name: described.get(name, "") for name in words["called"]}
    volatile = [name for name, text in called.items() if "VOLATILE" in text]
    refused = sorted(called.keys() & REFUSED.keys() - COMPILED)
    if volatile or refused:
        raise ValueError(f"plans call volatile functions {volatile}, refused functions {refused}")
    return {
        "words": words["words"],
        "functions": called,
        "relied_on": collected["relied_on"],
        "settings": collected["settings"],
        "optimizers": collected["optimizers"],
    }


def write(version: str, collected: dict[str, Any]) -> Path:
    """Write the facts of a version; return the file."""
    path = FOLDER / f"{version}.json"
    path.write_text(json.dumps(facts_of(collected), indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path
