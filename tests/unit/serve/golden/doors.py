"""What the server's doors answer to fixed dialogues, with noise from a fixed stream: recorded and compared.

`python -m tests.unit.serve.golden.doors` records again, after a change that is meant. Before it, look at
what the test says: a client may depend on each byte.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from mcp import Client
from mcp_types import TextContent

from dpsql import __version__
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.kernel.counts import Counts
from dpsql.login.scram import Verifier
from dpsql.noise import SeededEntropy
from dpsql.policy import Address, HttpConfig, ServeConfig
from dpsql.release import from_arrow
from dpsql.serve.catalog.catalog import PgCatalog
from dpsql.serve.mcp.tools import Tools, make_server
from dpsql.serve.page import http_app
from dpsql.serve.service import Service
from dpsql.serve.statement_service import Confirmations, SpendingRule
from dpsql.serve.users import Account, User, Users
from tests.serve import frontend as f
from tests.serve.bench import Bench
from tests.serve.bench import run as on_bench
from tests.serve.catalog_cases import OIDS, Declared, statements
from tests.serve.catalog_cases import policy as catalog_policy
from tests.support.exact import exact_of, with_exact
from tests.unit.serve.golden import dialogues
from tests.unit.serve.page.conftest import Site

HERE = Path(__file__).parent
CATALOGUE = HERE.parents[2] / "sql" / "catalogue.sql"
POLICY = """
[budget]
epsilon = 100
delta = 1e-4
ledger = "ledger.sqlite"
[analysts."*"]
epsilon = 50
delta = 1e-4
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page = { values = ["home", "shop", "help"], complete = true }
hour = { from = 0, to = 23, complete = true }
[tables.visits.bounds]
spent = { from = 0, to = 100 }
[tables.kinds]
source = "kinds.parquet"
public = true
unique = [["i"]]
"""
PASSWORD = "correct horse"
_INSTANT = r"20\d\d-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?([+-]\d\d(:\d\d)?|Z)?"

_MASKS = {
    r"\b\d+-[0-9a-f]{16}\b": "(receipt)",
    r"(?<=release \d of )\d+ [A-Z][a-z]{2}": "(day)",
    r"(compiled_sql)\\x00.*": r"\1 (SQL)",
    r'("compiled_sql": )"(\\.|[^"])*"': r"\1(SQL)",
}


def _rows() -> tuple[pa.Table, pa.Table]:
    """Return the private table and a public one with a column of each type."""
    pages = ["home", "shop", "help"]
    visits = pa.table(
        {
            "user_id": [i // 3 for i in range(3000)],
            "page": [pages[i * i % 7 % 3] for i in range(3000)],
            "hour": [i * 11 % 24 for i in range(3000)],
            "spent": [float(i * 37 % 101) for i in range(3000)],
        }
    )
    day = datetime.date(2020, 2, 29)
    moment = datetime.datetime(2020, 2, 29, 12, 34, 56, 789)
    kinds = pa.table(
        {
            "i": pa.array([1, 2, 3], pa.int64()),
            "small": pa.array([-1, None, 32767], pa.int16()),
            "middle": pa.array([7, -(2**31), None], pa.int32()),
            "x": pa.array([0.1, -1e300, None], pa.float64()),
            "y": pa.array([1.5, float("inf"), float("nan")], pa.float32()),
            "d": pa.array([Decimal("1.50"), Decimal("-99.99"), None], pa.decimal128(9, 2)),
            "b": pa.array([True, False, None]),
            "s": pa.array(['a, "b"\n\tc', "", None]),
            "raw": pa.array([b"\x00\xff", b"", None], pa.binary()),
            "day": pa.array([day, datetime.date(1, 1, 1), None], pa.date32()),
            "clock": pa.array([datetime.time(1, 2, 3), datetime.time(23, 59, 59, 999_999), None]),
            "moment": pa.array([moment, datetime.datetime(1999, 12, 31), None], pa.timestamp("us")),
            "zoned": pa.array([moment, datetime.datetime(1970, 1, 1), None], pa.timestamp("us", "UTC")),
        }
    )
    return visits, kinds


def _made_users() -> tuple[Users, str]:
    """Return the users, and the token of one."""
    verifier = Verifier.of(PASSWORD, b"0123456789abcdef")
    agent, _, token = Account(User("agent", "agent")).with_token(None, None)
    accounts = {"alice": Account(User("alice", "alice"), verifier), "agent": agent}
    return Users(accounts, b"s" * 32), token


USERS, TOKEN = _made_users()


@contextmanager
def opened(**options: Any) -> Iterator[tuple[Service, Callable[[int], None]]]:
    """Serve the tables; what is yielded beside the service lets the noise begin anew, with a seed."""
    places = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("dpsql.kernel.noise") and hasattr(module, "SystemEntropy")
    ]
    true = [vars(module)["SystemEntropy"] for module in places]
    streams = [SeededEntropy(0)]

    def begin(seed: int) -> None:
        streams[0] = SeededEntropy(seed)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for table, rows in zip(("visits", "kinds"), _rows(), strict=True):
            pq.write_table(rows, folder / f"{table}.parquet")
        (folder / "shop.toml").write_text(POLICY)
        config = ServeConfig(name="shop", http=HttpConfig(Address("127.0.0.1", 8080)))
        service = Service(config, folder / "shop.toml", USERS, **options)
        for module in places:
            vars(module)["SystemEntropy"] = lambda: streams[0]
        counting = DuckDBEngine.count
        DuckDBEngine.count = lambda *given: _sorted(counting(*given))  # type: ignore[method-assign]
        try:
            yield service, begin
        finally:
            DuckDBEngine.count = counting  # type: ignore[method-assign]
            for module, kept in zip(places, true, strict=True):
                vars(module)["SystemEntropy"] = kept
            service.close()


def _sorted(counts: Counts) -> Counts:
    """Return counts in the order of their keys, so that each group has the same noise every time."""
    own = exact_of(counts)
    if not own.keys.num_columns:
        return counts
    order = pc.sort_indices(own.keys, [(name, "ascending") for name in own.keys.column_names]).to_numpy()
    places = {name: place[order] for name, place in own.places.items()}
    return with_exact(counts, keys=own.keys.take(order), n=tuple(n[order] for n in own.n), places=places)


# -- PostgreSQL's protocol


def _message(tag: bytes, body: bytes) -> str:
    """Return a message as a line of text; without what is random, or the time."""
    if tag == b"K":
        body = b"(number and key)"
    elif tag == b"R" and int.from_bytes(body[:4]) in (11, 12):
        body = body[:4] + b"(proof)"
    shown = repr(body)[2:-1]
    return f"{tag.decode()} {_plain(shown)}"


def _plain(shown: str) -> str:
    """Return a text without this moment, this version, receipts, and the SQL that counts."""
    for pattern, instead in _MASKS.items():
        shown = re.sub(pattern, instead, shown)
    return re.sub(_INSTANT, _moment, shown).replace(__version__, "(version)")


def _moment(found: re.Match[str]) -> str:
    """Mask a time of this recording, and no other."""
    at = datetime.datetime.fromisoformat(found[0])
    at = at.replace(tzinfo=at.tzinfo or datetime.UTC)
    return "(now)" if abs(datetime.datetime.now(datetime.UTC) - at) < datetime.timedelta(days=2) else found[0]


def _lines(messages: Sequence[f.Message]) -> list[str]:
    """Return messages as lines; Arrow as the rows and what is written beside them."""
    copied = b"".join(body for tag, body in messages if tag == b"d")
    if not copied.startswith(b"\xff\xff\xff\xff"):
        return [_message(*each) for each in messages]
    rows, release = from_arrow(copied)
    columns = [
        f"{field.name} {field.type} {_plain(repr(rows.column(place).to_pylist()))}"
        for place, field in enumerate(rows.schema)
    ]
    said = "none" if release is None else f"{release.selection} {release.mechanism} {release.confidence}"
    begin = [tag for tag, _ in messages].index(b"d")
    others = [each for each in messages[begin:] if each[0] != b"d"]
    inside = [*(f"d {each}" for each in columns), f"d release: {said}"]
    return [*_lines(messages[:begin]), *inside, *_lines(others)]


def postgres() -> dict[str, list[str]]:
    """Return the answers of PostgreSQL's protocol, by what was asked."""

    async def asked(bench: Bench) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        bench.context.service = service
        service.gate.users = USERS
        for name, startup in dialogues.LOGINS.items():
            frontend = await bench.connect()
            found[f"login: {name}"] = _lines(await _log_in(frontend, startup))
        alice = await bench.log_in()
        for seed, (name, sent) in enumerate(dialogues.POSTGRES.items()):
            begin(seed)
            await alice.send(*sent)
            found[name] = _lines([each for _ in range(_ends(sent)) for each in await alice.until()])
        return found

    with opened() as (service, begin):
        return on_bench(asked)


def _ends(sent: Sequence[bytes]) -> int:
    """Return how many times the server is ready again."""
    return sum(each[:1] in (b"Q", b"S") for each in sent)


async def _log_in(frontend: f.Frontend, startup: bytes) -> list[f.Message]:
    """Log in as alice does, and note what the server sends."""
    noted: list[f.Message] = []
    true = frontend.receive

    async def receive() -> f.Message:
        noted.append(await true())
        return noted[-1]

    frontend.receive = receive  # type: ignore[method-assign]
    try:
        await frontend.send(startup)
        await frontend.prove(PASSWORD)
    except f.RefusedError:
        pass
    return noted


def catalogue() -> dict[str, list[str]]:
    """Return the answers to what tools ask of the catalogue: as a simple query, and by a binary portal."""

    async def asked(bench: Bench) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        bench.context.service = service
        service.gate.users = USERS
        alice = await bench.log_in()
        for each in statements(CATALOGUE):
            found[f"{each.number} {each.origin}"] = _lines(await alice.ask(f.query(each.text)))
            portal = (f.parse(each.text), f.describe(b"S"), f.bind(columns=(1,)), f.execute(), f.SYNC)
            found[f"{each.number} {each.origin}, binary"] = _lines(await alice.ask(*portal))
        return {name: _shortened(lines) for name, lines in found.items()}

    made = PgCatalog(catalog_policy(), Declared(), "shop", oids=OIDS)
    with opened(catalog=lambda *_: made) as (service, _):
        return on_bench(asked)


def _shortened(lines: list[str]) -> list[str]:
    """Return lines without the rows, for which the hash of all of them stands."""
    rows = [line for line in lines if line.startswith("D ")]
    others = [line for line in lines if not line.startswith("D ")]
    digest = hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest()[:16]
    return [*others, f"{len(rows)} rows {digest}"]


# -- JSON over HTTP


def http() -> dict[str, Any]:
    """Return the answers to requests, by what was asked; a confirmation goes into the next request."""
    found: dict[str, Any] = {}
    with opened() as (service, begin), asyncio.Runner() as runner:
        events: list[tuple[str, dict[str, object]]] = []
        service.gate.users = USERS
        application = http_app(service, Address("127.0.0.1", 8080), HttpConfig(), lambda *event: None)
        site = Site(application, service, service.gate.throttle, events, runner, TOKEN, HERE)
        site.headers["authorization"] = f"Bearer {TOKEN}"
        confirm = None
        for seed, (name, (method, path, given, headers)) in enumerate(dialogues.HTTP.items()):
            begin(seed)
            sent = {**given, "confirm": confirm} if given and given.get("confirm") is ... else given
            reply = site(method, path, sent, headers)
            kind = reply.headers.get("content-type", "")
            facts = json.loads(reply.body) if "json" in kind and reply.body else _plain(_text(reply.body))
            confirm = facts.get("confirm", confirm) if isinstance(facts, dict) else confirm
            shown = {key: value for key, value in sorted(reply.headers.items()) if key != "content-length"}
            if "allow" in shown:  # its order is that of a set
                shown["allow"] = ", ".join(sorted(shown["allow"].split(", ")))
            found[name] = {"status": reply.status, "headers": shown, "body": _masked(facts)}
    usual = found["who"]["headers"]
    for each in found.values():
        has = each["headers"]
        each["headers"] = {key: has.get(key) for key in {**usual, **has} if usual.get(key) != has.get(key)}
    return {"usual headers": usual, **found}


def _text(body: bytes) -> str:
    """Return a file as text; of another one, its first bytes."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return repr(body[:4])


_RANDOM = ("confirm", "receipt", "key", "asked", "time")


def _masked(facts: Any) -> Any:
    """Return JSON without what is random, or the time; of a drawing, its hash."""
    if isinstance(facts, dict):
        if "drawing" in facts:
            drawn = hashlib.sha256(json.dumps(facts["drawing"]).encode()).hexdigest()[:16]
            return {**facts, "drawing": drawn}
        return {
            key: f"({key})" if key in _RANDOM and isinstance(value, str) else _masked(value)
            for key, value in facts.items()
        }
    if isinstance(facts, list):
        return [_masked(each) for each in facts]
    return _plain(facts) if isinstance(facts, str) else facts


# -- the Model Context Protocol


def mcp() -> dict[str, Any]:
    """Return what a program is told: tools, resources, the results of calls."""
    found: dict[str, Any] = {}

    async def asked() -> None:
        login = service.gate.by_token(TOKEN)
        assert login is not None
        rule = SpendingRule(Confirmations(b"c" * 32), Fraction(0))
        made = make_server(_returning(Tools(service.client_of(login, "mcp"), rule)))
        async with Client(made) as client:
            for kind, listed in (
                ("tools", (await client.list_tools()).tools),
                ("resources", (await client.list_resources()).resources),
            ):
                found[kind] = [each.model_dump(mode="json", exclude_none=True) for each in listed]
            confirm = None
            for seed, (name, (tool, given)) in enumerate(dialogues.MCP.items()):
                begin(seed)
                sent = {**given, "confirm": confirm} if given.get("confirm") is ... else given
                result = await client.call_tool(tool, sent)
                facts = result.structured_content
                confirm = facts.get("confirm", confirm)
                (content,) = result.content
                assert isinstance(content, TextContent)
                assert json.loads(content.text) == facts
                found[name] = {"error": result.is_error, "content": _masked(facts)}

    with opened() as (service, begin):
        anyio.run(asked)
    return found


def _returning(tools: Tools) -> Callable[[], Awaitable[Tools]]:
    async def found() -> Tools:
        return tools

    return found


DOORS: dict[str, Callable[[], dict[str, Any]]] = {
    "postgres": postgres,
    "catalogue": catalogue,
    "http": http,
    "mcp": mcp,
}


def file_of(door: str) -> Path:
    """Return where the answers of a door are kept."""
    return HERE / f"{door}.json"


def main() -> None:
    """Record all doors."""
    for door, answers in DOORS.items():
        text = json.dumps(answers(), indent=1, ensure_ascii=False)
        file_of(door).write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
