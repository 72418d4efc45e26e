"""Requests of a page over HTTP and their answers as JSON: exact rows for programs, texts, pictures.

A refusal is an object with `refused` and `hint`. The files of the pages are served here, too; each is read
once.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from starlette.responses import Response
from starlette.routing import Route

from dpsql.errors import (
    BudgetExceeded,
    Error,
    NotSupportedError,
    PriceNotAgreed,
    ProgrammingError,
    StatementFailed,
    TooManyFailures,
)
from dpsql.kernel.loss import Charge
from dpsql.language.options import KEYWORDS, OPTION_VALUES, OPTIONS
from dpsql.release import tell_opening
from dpsql.render.column_values import values
from dpsql.render.data import as_json, write_csv, write_parquet
from dpsql.render.drawing import WIDTHS, draw, release_svg
from dpsql.render.grid import Style
from dpsql.render.picture_choice import picture_of
from dpsql.render.readable import assumptions, places, summary
from dpsql.render.table import public_columns, release_columns
from dpsql.serve import json_facts
from dpsql.serve.json_facts import MOST_ROWS, JsonObject, refusal
from dpsql.serve.limits import (
    LimitExceeded,
    PolicyReloaded,
    QueueFull,
    ShuttingDown,
    StatementTooLong,
    check_json,
)
from dpsql.serve.statement_service import ConfirmedStatements

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from starlette.requests import Request

    from dpsql.release import Release
    from dpsql.render.grid import TextColumn
    from dpsql.serve.answers import Answer
    from dpsql.serve.client import Client
    from dpsql.serve.gate import Login
    from dpsql.serve.statement_service import SpendingRule
    from dpsql.session_api import StatementResult

FOLDER = Path(__file__).with_name("static")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
LARGEST = 256 << 10
SMALL = 4 << 10
"""Bytes of a request's body: a statement is 64 KiB at most; before somebody has signed in it is less."""

_STATUSES: tuple[tuple[type[Error], int], ...] = (
    (PriceNotAgreed, 409),
    (BudgetExceeded, 402),
    (TooManyFailures, 403),
    (StatementFailed, 500),
    (QueueFull, 429),
    (StatementTooLong, 413),
    (PolicyReloaded, 503),
    (ShuttingDown, 503),
    (ProgrammingError, 422),
    (NotSupportedError, 422),
)
"""Kinds of errors with the status of HTTP, the first that fits; others have 500."""


class RefusedError(Exception):
    """A request that is refused before any statement is read."""

    def __init__(self, status: int, refused: str, hint: str = "") -> None:
        super().__init__(refused)
        self.status = status
        self.facts = {"refused": refused} | ({"hint": hint} if hint else {})


def to_json(facts: object) -> bytes:
    """Write an object as JSON, with values as results have them."""
    return as_json(facts).encode("utf-8", "backslashreplace")


def json_response(facts: object, status: int = 200) -> Response:
    """Return an answer of JSON; bytes are JSON already."""
    data = facts if isinstance(facts, bytes) else to_json(facts)
    return Response(data, status, media_type="application/json")


def refusal_response(problem: Exception) -> Response:
    """Return an error as a JSON response; an unexpected error shows its type alone."""
    if isinstance(problem, RefusedError):
        return json_response(problem.facts, problem.status)
    status = next((status for kind, status in _STATUSES if isinstance(problem, kind)), 500)
    facts = refusal(problem)
    if isinstance(problem, Error):
        facts["code"] = problem.sqlstate
    return json_response(facts, status)


async def read_fields(
    request: Request, kind: Literal["request", "sign in"] = "request", **kinds: type
) -> dict[str, Any]:
    """Read the body of a request: an object of JSON with these fields alone; one that is left out is None.

    `kind` is that of the table of limits, by which it is measured before it is read.
    """
    most = LARGEST if kind == "request" else SMALL
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(415, "the body is no JSON", "send Content-Type: application/json")
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most:
            raise RefusedError(413, f"the body has more than {most:,} bytes")
    try:
        check_json(bytes(data), kind)
        found = json.loads(bytes(data).decode())
    except LimitExceeded as problem:
        raise RefusedError(400, f"the body is more than an object of texts: {problem}") from None
    except (ValueError, RecursionError):
        raise RefusedError(400, "the body is no JSON in UTF-8") from None
    if not isinstance(found, dict):
        raise RefusedError(400, "the body is no object of JSON")
    for name in found:
        if name not in kinds:
            raise RefusedError(400, "the body has a field that is not known", "known: " + ", ".join(kinds))
    for name, of_value in kinds.items():
        value = found.setdefault(name, None)
        if value is not None and not isinstance(value, of_value):
            raise RefusedError(400, f"the field {name} has another type")
    return found


@cache
def _read_file(name: str) -> tuple[bytes, str]:
    data = (FOLDER / name).read_bytes()
    return data, f'"{hashlib.sha256(data).hexdigest()[:24]}"'


def file_routes(files: Iterable[tuple[str, str]]) -> list[Route]:
    """Return the routes of files: pairs of a path and the file's name."""
    return [_file_route(path, name) for path, name in files]


def _file_route(path: str, name: str) -> Route:
    async def file(request: Request) -> Response:
        data, tag = _read_file(name)
        headers = {"cache-control": "no-cache", "etag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, headers=headers, media_type=_TYPES[Path(name).suffix])

    return Route(path, file, methods=["GET"])


_LARGEST_NUMBER = 1 << 53
_LONG = 1 << 16
"""The size, in characters, that the writing of an answer counts for."""

FORMS = {
    "rows.csv": "text/csv; charset=utf-8",
    "rows.parquet": "application/vnd.apache.parquet",
    "chart.svg": "image/svg+xml",
}
"""The files that a release is downloaded as, with their media types."""
MOST_BYTES = 4 << 20
"""Bytes of the rows in one answer, which are written several times over."""


class UserRequest:
    """A request of a user about statements: reads it, asks, answers. Raises `Error`, or `RefusedError`.

    What is free has a client of its own, so that prices are told while a statement runs.
    """

    def __init__(
        self, request: Request, login: Login, free: Client, asks: Client, rule: SpendingRule
    ) -> None:
        self._request, self._login = request, login
        self._free, self._asks, self._rule = free, asks, rule

    async def who(self) -> JsonObject:
        """Return the names of the user and of the analyst."""
        return {"user": self._login.user.name, "analyst": self._login.analyst}

    async def language(self) -> JsonObject:
        """Return the words that an editor completes."""
        options = {name: list(OPTION_VALUES.get(name, ())) for name in OPTIONS}
        return {"keywords": list(KEYWORDS), "options": options}

    async def tables(self) -> JsonObject:
        """Return tables, units, columns, declared values, and the limits that hold for everybody."""
        return await json_facts.describe_policy(self._free)

    async def budget(self) -> JsonObject:
        """Return what may be spent, is spent and is left."""
        return json_facts.budget_facts(await self._free.budget())

    async def explain(self) -> JsonObject:
        """Return the price of a statement, the error to expect, how it is answered; read no data."""
        given = await read_fields(self._request, sql=str)
        statements = ConfirmedStatements(self._free, self._rule)
        price, said, private = await json_facts.explain(statements, given["sql"] or "")
        return {**said, **price, "private": private}

    async def query(self) -> bytes:
        """Answer a statement; above the free price only with the confirmation of its price."""
        given = await read_fields(self._request, sql=str, confirm=str)
        statements = ConfirmedStatements(self._asks, self._rule)
        found = await statements.run(given["sql"] or "", given["confirm"])
        budget = await self._free.budget()

        def write() -> bytes:
            with tell_opening(found.release):
                return to_json({**answer_facts(found, 0, budget.total), "left": json_facts.left_of(budget)})

        return await self._beside(write)

    async def cancel(self) -> JsonObject:
        """Stop what the user asks over HTTP now; what was charged stays charged."""
        running = self._asks.is_running
        self._asks.cancel()
        return {"cancelled": running}

    async def releases(self) -> bytes:
        """List the analyst's own releases, the newest last."""
        latest = await json_facts.latest_releases(self._free)
        return await self._beside(lambda: to_json({"releases": json_facts.records(latest)}))

    async def release(self) -> bytes:
        """Return one of the analyst's own releases again, from a row on."""
        text = self._request.query_params.get("first_row", "0")
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise RefusedError(400, "first_row is the number of a row, from 0")
        release = await self._find()
        return await self._beside(lambda: to_json(release_page(release, int(text))))

    async def file(self) -> Response:
        """Return one of the analyst's own releases as a file; CSV for a spreadsheet has no formulas."""
        wanted = self._request.query_params.get("spreadsheet", "false")
        if wanted not in ("true", "false"):
            raise RefusedError(400, "spreadsheet is true or false")
        release, form = await self._find(), self._request.url.path.rpartition("/")[2]
        data = await self._beside(lambda: write_file(release, form, spreadsheet=wanted == "true"))
        name = f"release-{release.number}.{form.rpartition('.')[2]}"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(data, headers=headers, media_type=FORMS[form])

    async def _beside(self, work: Callable[[], bytes]) -> bytes:
        """Write an answer in turn with other analysts; a long one would hold the event loop."""
        return await self._free.beside(_LONG, work)

    async def _find(self) -> Release:
        written = self._request.path_params["number"]
        # Python refuses to read thousands of digits, as an error of its own.
        number = int(written) if written.isascii() and written.isdigit() and len(written) < 20 else -1
        if not 0 <= number < _LARGEST_NUMBER:
            raise RefusedError(404, "there is no such release of yours")
        try:
            return await self._free.release(number)
        except ProgrammingError:
            raise RefusedError(
                404, "there is no such release of yours", "GET /v1/releases lists them"
            ) from None


def answer_facts(found: Answer | StatementResult, first: int = 0, total: Charge | None = None) -> JsonObject:
    """Return what a statement is answered; `total` is the whole budget, for "epsilon 1 of 10"."""
    if found.release is None:
        rows = _count_fitting_rows(found.table, first)
        shown = public_columns(found.table.slice(first, rows), Style())
        return {
            **_rows_facts(found.table, first, rows),
            "shown": _texts_facts(shown, range(len(shown))),
            "epsilon": 0.0,
            "delta": 0.0,
        }
    return release_page(found.release, first, total)


def release_page(release: Release, first: int = 0, total: Charge | None = None) -> JsonObject:
    """Return a release as JSON: rows from row `first` on with intervals, its price, what is said below it."""
    rows = _count_fitting_rows(release.table, first)
    part = replace(release, rows=release.rows.slice(first, rows), table=release.table.slice(first, rows))
    return {
        **_rows_facts(release.table, first, rows),
        "keys": list(release.keys),
        "counts": list(release.counts),
        "shown": _texts_facts(release_columns(part, Style(), none=""), _shown_places(release)),
        "picture": picture_facts(release),
        **json_facts.release_facts(release),
        "selection": release.selection,
        "guarantee": release.guarantee,
        "below": [" · ".join(summary(release, total)), *assumptions(release)],
    }


def _count_fitting_rows(table: pa.Table, first: int) -> int:
    """Return how many rows an answer has, from one on: fewer if they are long, but one at least."""
    rows = MOST_ROWS
    while rows > 1 and table.slice(first, rows).nbytes > MOST_BYTES:
        rows //= 2
    return rows


def _rows_facts(table: pa.Table, first: int, rows: int) -> JsonObject:
    part = table.slice(first, rows)
    columns = [{"name": field.name, "type": str(field.type)} for field in table.schema]
    listed = [list(row) for row in zip(*(values(column) for column in part.columns), strict=True)]
    return {"columns": columns, "rows": listed, "first_row": first, "rows_in_all": table.num_rows}


def _shown_places(release: Release) -> list[int]:
    """Return the places in the table of the columns that are shown: those of its rows, then the free gap."""
    gap = places(release).gap
    return [*range(release.rows.num_columns), *([] if gap is None else [gap])]


def _texts_facts(columns: list[TextColumn], places: Iterable[int]) -> list[JsonObject]:
    """Return columns of texts as people read them; blanks align numbers in a terminal only.

    `column` is the place of the column in the exact rows, by which a page sorts.
    """
    return [
        {
            "name": column.name,
            "column": place,
            "number": column.right,
            "cells": [" ".join(cell.split()) if column.right else cell for cell in column.cells],
            "nulls": sorted(column.nulls),
        }
        for column, place in zip(columns, places, strict=False)
    ]


def picture_facts(release: Release) -> JsonObject | None:
    """Return the picture of a release as elements for several widths, and in words; None: nothing to draw."""
    picture = picture_of(release)
    if picture is None or not release.rows.num_rows:
        return None
    drawings = [{"width": wide, "drawing": draw(picture, wide, foot=False)} for wide in WIDTHS]
    return {"kind": picture.kind, "of": picture.of, "said": picture.describe(), "drawings": drawings}


def write_file(release: Release, form: str, *, spreadsheet: bool = False) -> bytes:
    """Return a release as a file."""
    if form == "chart.svg":
        try:
            drawn = release_svg(release)
        except ProgrammingError:
            raise RefusedError(404, "the release has no number to draw") from None
        return drawn.encode("utf-8", "backslashreplace")
    out = io.BytesIO()
    if form == "rows.csv":
        write_csv(release.table, out, spreadsheet=spreadsheet)
    else:
        write_parquet(release.table, out)
    return out.getvalue()


def hash_secret(secret: str) -> bytes:
    """Return the SHA-256 of a cookie or a key, which is kept and compared in its place."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()


def address_of(request: Request) -> str:
    """Return where a request comes from."""
    return request.client.host if request.client is not None else ""
