"""Bodies of requests, answers as JSON and the files of the pages, which are read once.

A refusal is an object with `refused` and `hint`.
"""

from __future__ import annotations

import hashlib
import json
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
from dpsql.render.data import as_json
from dpsql.serve.errors import PolicyReloaded, QueueFull, ShuttingDown, StatementTooLong
from dpsql.serve.json_facts import refusal
from dpsql.serve.limits import LimitExceeded, check_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request

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


def body(facts: object) -> bytes:
    """Write an object of JSON, with values as results have them."""
    return as_json(facts).encode("utf-8", "backslashreplace")


def answer(facts: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer of JSON; bytes are JSON already."""
    return Response(facts if isinstance(facts, bytes) else body(facts), status, headers, "application/json")


def refusal_response(problem: Exception) -> Response:
    """Return an error as an answer: of an unexpected one only the type is told."""
    if isinstance(problem, RefusedError):
        return answer(problem.facts, problem.status)
    status = next((status for kind, status in _STATUSES if isinstance(problem, kind)), 500)
    facts = refusal(problem)
    if isinstance(problem, Error):
        facts["code"] = problem.sqlstate
    return answer(facts, status)


async def fields(
    request: Request, kind: Literal["request", "sign in"] = "request", **kinds: type
) -> dict[str, Any]:
    """Read an object of JSON with these fields alone; one that may be left out is None.

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
