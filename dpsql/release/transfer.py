"""Answers on their way to a client: Arrow streams with everything that is free beside the rows.

The first stream holds the rows, so that every reader of Arrow can use it. Of a private statement its schema
has the metadata `dpsql.release`: the facts of the release as JSON, and of the releases that it was computed
from. Behind it stand the tables of these releases as streams of their own. The rows of a release are among
them where the answer shows something else, such as its description.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dpsql.release.release import Release, facts_of, release_of, stream

if TYPE_CHECKING:
    import pyarrow as pa

_KEY = b"dpsql.release"


def to_arrow(table: pa.Table, release: Release | None) -> bytes:
    """Write the rows of a statement and its release, which is None for a public statement."""
    if release is None:
        return stream(table)
    shown = table is release.rows or table.equals(release.rows)
    facts = json.dumps(_facts(release) | {"shown": shown}, ensure_ascii=False)
    marked = table.replace_schema_metadata({**(table.schema.metadata or {}), _KEY: facts})
    tables = [each for one in (release, *release.parts) for each in (one.rows, one.table)]
    return b"".join(map(stream, (marked, *(tables[1:] if shown else tables))))


def from_arrow(data: bytes | bytearray) -> tuple[pa.Table, Release | None]:
    """Read rows and release back; raises `ValueError` if the bytes are no such answer."""
    import pyarrow as pa  # noqa: PLC0415  loaded by the time there is an answer, never by `import dpsql`

    source = pa.BufferReader(data)

    def following() -> pa.Table:
        return pa.ipc.open_stream(source).read_all()

    table = following()
    metadata = dict(table.schema.metadata or {})
    written = metadata.pop(_KEY, None)
    if written is None:
        return table, None
    table = table.replace_schema_metadata(metadata or None)
    facts = json.loads(written)
    shown, parts = facts.pop("shown"), facts["parts"]
    release = _release(facts, table if shown else following(), following())
    return table, replace(release, parts=tuple(_release(part, following(), following()) for part in parts))


def _facts(release: Release) -> dict[str, Any]:
    return facts_of(release) | {
        "number": release.number,
        "receipt": release.receipt,
        "reused": None if release.reused is None else release.reused.isoformat(),
        "charged_again": release.charged_again,
        "parts": [_facts(part) for part in release.parts],
    }


def _release(facts: dict[str, Any], rows: pa.Table, table: pa.Table) -> Release:
    facts = {name: value for name, value in facts.items() if name != "parts"}
    reused = facts.pop("reused")
    number, charged_again = facts.pop("number"), facts.pop("charged_again")
    receipt = facts.pop("receipt", "")  # an older server sends none
    return replace(
        release_of(facts, rows, table),
        number=number,
        receipt=receipt,
        reused=None if reused is None else datetime.fromisoformat(reused),
        charged_again=charged_again,
    )
