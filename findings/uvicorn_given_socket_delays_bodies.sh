#!/usr/bin/env bash
# uvicorn 0.54.0 on Linux, Python 3.11 or later: connections to a socket that it is given, made by Python's own
# socket.create_server(), keep Nagle's delay; those to a host and a port that it is told do not.
#
# A guess: TCP_NODELAY is on in either case, as asyncio's documents say of TCP connections since Python 3.6.
# Seen: 0 for the given socket, whose protocol number is 0 instead of that of TCP, so that asyncio takes it for
# another kind; 1 for the port. The body of an answer may then wait about 40 ms for the acknowledgement of its head.
# Fails if that changes. Needs Linux, Python 3.11 or later and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder/lib" uvicorn==0.54.0 2>/dev/null
PYTHONPATH="$folder/lib" python3 - <<'END' | tee "$folder/seen.txt"
import asyncio
import socket

import uvicorn
import uvicorn.protocols.http.h11_impl

seen = []


async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Protocol(uvicorn.protocols.http.h11_impl.H11Protocol):
    def connection_made(self, transport):
        taken = transport.get_extra_info("socket")
        seen.append(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        super().connection_made(transport)


async def ask(sockets, port):
    config = uvicorn.Config(app, port=port, http=Protocol, lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=sockets))
    while not server.started:
        await asyncio.sleep(0.01)
    used = server.servers[0].sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection("127.0.0.1", used)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    await asyncio.sleep(0.2)
    writer.close()
    server.should_exit = True
    await task


async def main():
    await ask([socket.create_server(("127.0.0.1", 0))], 0)
    await ask(None, 0)


asyncio.run(main())
print("given", bool(seen[0]), "port", bool(seen[1]))
END
grep -qx 'given False port True' "$folder/seen.txt"
