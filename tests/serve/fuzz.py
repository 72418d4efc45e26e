"""Send mutated sessions to a server and check that it answers, ends and goes on.

`python -m tests.serve.fuzz --minutes 60` starts a server that answers from memory. `--port` names one that
runs, where `--user` and the password in `DPSQL_PASSWORD` log in. A case that fails is printed with its seed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import ssl
import struct
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.serve import frontend as f
from tests.serve.mutations import SESSIONS, STARTS, mutated, parts

LONGEST = 15.0
"""Seconds in which a server must have ended a connection that the client has ended."""
_BACKEND = b"RSKZTDCENIHdc123nstvAGV"

Connect = Callable[[], Awaitable[f.Frontend]]


class FuzzError(AssertionError):
    """What the server did is not allowed."""


async def case(seed: int, connect: Connect, user: str, password: str, context: ssl.SSLContext | None) -> None:
    """Run one case: a session that is mutated before or behind the login."""
    draw = random.Random(seed)
    client = await connect()
    try:
        if context is not None and draw.random() < 0.3:
            await client.start_tls(context)
        before = draw.random() < 0.35
        if not before:
            await client.log_in(user, password, version=draw.choice((3 << 16, 3 << 16 | 2)))
        messages = mutated(draw, draw.choice(STARTS if before else SESSIONS))
        sending = asyncio.ensure_future(_send(draw, client, b"".join(messages)))
        try:
            async with asyncio.timeout(LONGEST):
                received = await client.reader.read()
        except TimeoutError:
            raise FuzzError("the server has not ended the connection") from None
        except (ConnectionError, ssl.SSLError):
            received = b""
        finally:
            sending.cancel()
        check(received, after_login=not before)
    finally:
        client.writer.close()


async def _send(draw: random.Random, client: f.Frontend, data: bytes) -> None:
    try:
        for part in parts(draw, data):
            await client.send(part)
            await asyncio.sleep(0)
        await client.send(f.SYNC, f.TERMINATE)
        await asyncio.sleep(0)
        if client.writer.can_write_eof():
            client.writer.write_eof()
        else:
            client.writer.close()
    except (ConnectionError, ssl.SSLError):
        return  # the server has ended it


def check(received: bytes, *, after_login: bool) -> None:
    """Raise unless what the server sent is well formed and shows nothing of itself."""
    for word in (b"Traceback", b'File "', b"Asthma", b"python"):
        if word in received:
            raise FuzzError(f"the answer has {word!r}")
    if not after_login:
        received = received.lstrip(b"SN") if received[:1] in b"SN" else received
        if received[:1] in (b"\x15", b"\x16"):
            return  # TLS
    at = 0
    while at < len(received):
        if received[at : at + 1] not in _BACKEND or at + 5 > len(received):
            raise FuzzError(f"no message at {at}: {received[at : at + 20]!r}")
        length = struct.unpack_from("!i", received, at + 1)[0]
        if length < 4 or at + 1 + length > len(received):
            raise FuzzError(f"a message of a wrong length at {at}")
        if received[at : at + 1] == b"E":
            found = f.fields(received[at + 5 : at + 1 + length])
            if found["C"] == "XX000" and "secret" not in found["M"]:
                raise FuzzError(f"a bug: {found}")
        at += 1 + length


async def alive(connect: Connect, user: str, password: str) -> None:
    """Raise unless a new client can log in and ask."""
    client = await connect()
    async with asyncio.timeout(LONGEST):
        await client.log_in(user, password)
        tags = [tag for tag, _ in await client.ask(f.query("SHOW application_name"))]
    client.writer.close()
    if tags != [b"T", b"D", b"C", b"Z"]:
        raise FuzzError(f"the server does not answer any more: {tags}")


async def campaign(
    connect: Connect,
    user: str,
    password: str,
    context: ssl.SSLContext | None,
    minutes: float,
    seed: int,
    forget: Callable[[], None] = lambda: None,
) -> int:
    """Run cases for some minutes, four at a time; return how many. `forget` is called now and then."""
    end, count = time.monotonic() + 60 * minutes, 0
    while time.monotonic() < end:
        seeds = range(seed + count, seed + count + 4)
        outcomes = await asyncio.gather(
            *(case(one, connect, user, password, context) for one in seeds), return_exceptions=True
        )
        for one, outcome in zip(seeds, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                raise FuzzError(f"seed {one}: {outcome!r}") from outcome
        count += len(seeds)
        if count % 400 == 0:
            await alive(connect, user, password)
            forget()
            print(f"{count:,} cases, {_memory()}", flush=True)
    await alive(connect, user, password)
    return count


def _memory() -> str:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((line.replace("\t", " ") for line in lines if line.startswith("VmRSS")), "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int)
    parser.add_argument("--user", default="alice")
    parser.add_argument("--cafile", type=Path, help="the server's certificate; without it no TLS is begun")
    given = parser.parse_args()

    def run(port: int, password: str, cafile: Path | None, forget: Callable[[], None] = lambda: None) -> None:
        context = None if cafile is None else ssl.create_default_context(cafile=str(cafile))

        async def connect() -> f.Frontend:
            return f.Frontend(*await asyncio.open_connection(given.host, port))

        done = campaign(connect, given.user, password, context, given.minutes, given.seed, forget)
        print(f"{asyncio.run(done):,} cases from seed {given.seed}, no failure, {_memory()}")

    if given.port is not None:
        run(given.port, os.environ["DPSQL_PASSWORD"], given.cafile)
        return
    from tests.serve.listening import Listening

    with Listening(Path(tempfile.mkdtemp())) as server:
        run(server.port, server.password, server.certificate, server.forget)
        bugs = [fields for event, fields in server.bench.events if event == "bug"]
        if bugs:
            sys.exit(f"{len(bugs)} errors that are not dpsql's own, the first: {bugs[0]}")


if __name__ == "__main__":
    main()
