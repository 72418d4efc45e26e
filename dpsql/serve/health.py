"""A small HTTP server for the owner's tools: `/health`, `/ready` and `/metrics`, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus

Page = Callable[[], Awaitable[tuple[int, str]]]
"""Makes the page of a path: its status and its text."""

CONNECTIONS = 3
"""How many requests are read at the same time."""
_LONGEST = 8192
_SECONDS = 10.0


class Health:
    """Answers one HTTP request on each connection, and closes it."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._open = 0

    def protocol(self) -> asyncio.StreamReaderProtocol:
        """Return the protocol of one connection."""
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=_LONGEST), self.serve)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the request of one connection and close it."""
        if self._open >= CONNECTIONS:
            writer.transport.abort()
            return
        self._open += 1
        try:
            async with asyncio.timeout(_SECONDS):
                writer.write(_response(*await self._answer(reader)))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            self._open -= 1

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[int, str, bool]:
        request = await _read(reader)
        if request is None:
            return 400, "", False
        method, path = request
        head = method == "HEAD"
        if method not in ("GET", "HEAD"):
            return 405, "", head
        page = self._pages.get(path)
        if page is None:
            return 404, "", head
        status, text = await page()
        return status, text, head


async def _read(reader: asyncio.StreamReader) -> tuple[str, str] | None:
    """Return the method and the path of a request; None if it is malformed. Its headers mean nothing here."""
    size = 0
    first = b""
    with suppress(ValueError, asyncio.LimitOverrunError):
        while True:
            line = await reader.readuntil(b"\n")
            first = first or line
            size += len(line)
            if size > _LONGEST:
                return None
            if line in (b"\r\n", b"\n"):
                break
        method, target, version = first.decode("ascii").split()
        if version in ("HTTP/1.0", "HTTP/1.1"):
            return method, target.partition("?")[0]
    return None


def _response(status: int, text: str, head: bool) -> bytes:
    phrase = HTTPStatus(status).phrase
    body = (text or f"{phrase}\n").encode()
    lines = (
        f"HTTP/1.1 {status} {phrase}",
        "Content-Type: text/plain; version=0.0.4; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii") + (b"" if head else body)
