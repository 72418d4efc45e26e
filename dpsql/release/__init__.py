"""What a private statement releases: its stored form, its reuse, and its way to a client.

=================  ==================================================================================
``release``        the rows of a statement with their price and certainty; as JSON bytes for the ledger
``reuse``          versions of the data, and the key of a question: the same key means the same question on
                   the same data, so that an answer is found again, under other names of its columns, too
``check_answers``  answers of checks, and the key of a check
``moved_units``    notices that units moved from one part to another between versions of the data
``kept_ladders``   kept bounds of the policy's tables, as statements use them
=================  ==================================================================================

Here are stored answers as Arrow streams for a client, with everything that is free beside their rows, under
other names of their columns, and how they are opened where something fails after they were paid for.

An answer is stored before anybody sees it. What fails behind that (SQL over the released rows, a conversion,
a file that cannot be written) spends nothing twice: whoever is told of the failure is told that, too.

The first stream holds the rows, so that every reader of Arrow can use it. Of a private statement its schema
has the metadata `dpsql.release`: the facts of the release as JSON, and of the releases that it was computed
from. Behind it stand the tables of these releases as streams of their own. The rows of a release are among
them where the answer shows something else, such as its description.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dpsql.errors import Error, InternalError, PolicyError, QueryRefused, QuerySyntaxError
from dpsql.places import FREE
from dpsql.release.release import (
    Release,
    facts_of,
    from_bytes,
    hold_at_once,
    places_of,
    release_of,
    stream,
    to_bytes,
    write_cell,
)
from dpsql.release.reuse import changes, question, reuse_key, source_version, tables_read, why_charged_again
from dpsql.render.readable import COMPUTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from dpsql.analysis import Output, Plan
    from dpsql.places import Places

RENEWED = "renewals"
"""The property of a release that says how often the budget has started anew."""


def add_renewals(text: str, renewed: str) -> str:
    """Return a guarantee with what is to be said of budgets that start anew."""
    return f"{text}; {renewed}" if renewed else text


def renew_words(release: Release, renewed: str) -> Release:
    """Return a stored release with what is said now of budgets: they may have started anew since."""
    before = release.properties.get(RENEWED, "")
    if before == renewed:
        return release
    text = release.guarantee.removesuffix(f"; {before}") if before else release.guarantee
    others = {name: each for name, each in release.properties.items() if name != RENEWED}
    properties = {**others, **({RENEWED: renewed} if renewed else {})}
    return replace(release, guarantee=add_renewals(text, renewed), properties=properties)


_HINT = "\nHint: "


def describe_opening(*releases: Release) -> str:
    """Say how stored answers are opened, free; empty if none is stored.

    The statement that does it is answered at every door.
    """
    parts = [part for release in releases for part in release.parts or (release,)]
    numbers = list(dict.fromkeys(str(part.number) for part in parts if part.number is not None))
    if not numbers:
        return ""
    if len(numbers) == 1:
        return f"the answer is stored as release {numbers[0]}: SHOW RELEASE {numbers[0]} opens it, free"
    statements = ", ".join(f"SHOW RELEASE {number}" for number in numbers)
    return f"what it is computed from is stored as releases {', '.join(numbers)}: {statements} open it, free"


@contextmanager
def tell_opening(*releases: Release | None, passed: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Let the errors of a block say how the answers are opened; none of another package leaves it.

    An `OSError` does, an `ImportError`, and those that are `passed`: whoever writes to a file or to a client
    reports them. Of other errors only the type is told.
    """
    known = [release for release in releases if release is not None]
    if not known:
        yield  # nothing was charged
        return
    try:
        yield
    except Error as problem:
        raise with_hint(problem, describe_opening(*known)) from None
    except Exception as problem:
        if isinstance(problem, (OSError, ImportError, *passed)):
            raise
        text = f"internal error ({type(problem).__name__}): this is a bug of dpsql, please report it"
        raise with_hint(InternalError(text), describe_opening(*known)) from None


def with_hint(problem: Error, hint: str) -> Error:
    """Return an error with one more hint; the error itself if it has it already, or if there is none."""
    if not hint or hint in str(problem):
        return problem
    made = copy.copy(problem)
    if isinstance(made, (PolicyError, QueryRefused, QuerySyntaxError)):
        first, *others = made.obstacles
        both = f"{first.hint}; {hint}" if first.hint else hint
        made.obstacles = (replace(first, hint=both), *others)
        return made
    text = str(problem)
    made.args = (text + (f"; {hint}" if _HINT in text else _HINT + hint), *problem.args[1:])
    return made


def ends_of(outputs: Sequence[Output], places: Places) -> tuple[int, ...]:
    """Return the places of the columns of a release, with its details, that are ends of intervals."""
    asked = (place for place, output in enumerate(outputs) if output.kind in ("low", "high"))
    details = (end for number in places.numbers for end in (number.low, number.high) if end is not None)
    return tuple(dict.fromkeys((*asked, *details)))


def rename_columns(release: Release, plan: Plan) -> Release:
    """Return a stored release with the names of a statement with the same reuse key; its plan is given."""
    # Imported here: who reads answers of a server analyses no statement.
    import pyarrow as pa  # noqa: PLC0415

    from dpsql.analysis import place_columns  # noqa: PLC0415

    titles = [output.name for output in plan.outputs]
    if release.rows.column_names == titles and release.places is not None:
        return release
    table, before = release.table, places_of(release)
    free = {kind: place for kind in FREE if (place := getattr(before, kind)) is not None}
    names, after = place_columns(plan.outputs, free, getattr(plan.selection, "count", None))
    columns = dict(enumerate(release.rows.columns))
    moved = [(getattr(after, kind), place) for kind, place in free.items()]
    for old, new in zip(before.numbers, after.numbers, strict=True):
        moved += zip(new.details, old.details, strict=True)
    for to, place in moved:
        if to not in columns:
            columns[to] = pa.nulls(len(table), pa.float64()) if place is None else table.column(place)
    rows = release.rows.rename_columns(titles)
    listed = [columns[place] for place in range(len(names))]
    together = release.together
    if together is not None:
        now = {str(at): str(to) for to, at in moved if at is not None}
        together = together.rename_columns([now.get(name, name) for name in together.column_names])
    keys, counts = (tuple(o.name for o in plan.outputs if o.kind == kind) for kind in ("key", "count"))
    properties = dict(release.properties)
    if "ordering" in properties and after.ordering is not None:
        properties["ordering"] = counts[after.ordering]
    return replace(
        release,
        rows=rows,
        table=pa.table(listed, names=names) if listed else release.table,
        together=together,
        keys=keys,
        counts=counts,
        places=after,
        properties=properties,
        assumed=plan.assumed,
    )


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
    """Read the rows and the release that `to_arrow` wrote; raises `ValueError` for other bytes."""
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
