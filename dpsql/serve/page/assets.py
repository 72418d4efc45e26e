"""The files of the pages, read once: what is asked for is looked up by its whole path."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

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


@cache
def _file(name: str) -> tuple[bytes, str]:
    data = (FOLDER / name).read_bytes()
    return data, f'"{hashlib.sha256(data).hexdigest()[:24]}"'


def routes(files: Iterable[tuple[str, str]]) -> list[Route]:
    """Return the routes of files: pairs of a path and the file's name."""
    return [_route(path, name) for path, name in files]


def _route(path: str, name: str) -> Route:
    async def file(request: Request) -> Response:
        data, tag = _file(name)
        headers = {"cache-control": "no-cache", "etag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, headers=headers, media_type=_TYPES[Path(name).suffix])

    return Route(path, file, methods=["GET"])
