"""`Guard`: refuses requests that another site sends from somebody's browser, and adds headers to answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from dpsql.serve.limits import MOST_QUERY_STRING
from dpsql.serve.page.requests import body

if TYPE_CHECKING:
    from starlette.routing import Route

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

MARK = b"x-dpsql"
"""A header that a page of another site cannot send without being asked for permission, which nobody gives."""
_POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_SAFE = ("GET", "HEAD")
_PORTS = {"http": "80", "https": "443"}


class Guard:
    """An ASGI application around another one; `hosts` are the accepted values of the header Host."""

    def __init__(
        self,
        application: Application,
        routes: Sequence[Route],
        hosts: Iterable[str],
        origins: Iterable[str] = (),
        page: str = "/",
    ) -> None:
        self._application = application
        self.routes = tuple(routes)
        """The routes of the application."""
        self._page = page
        self._hosts = {host.lower() for host in hosts}
        self._origins = {origin.lower() for origin in origins}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                given = {name for name, _ in message["headers"]}
                more = [pair for pair in HEADERS if pair[0] not in given]
                if b"cache-control" not in given:
                    more.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        refused = self._find_refusal(scope)
        if refused is not None:
            await _answer(sent, *refused)
            return
        try:
            await self._application(scope, receive, sent)
        except Exception as problem:  # noqa: BLE001  its text may hold private values
            if not begun:
                what = f"internal error ({type(problem).__name__}): this is a bug of dpsql"
                await _answer(sent, 500, what, "report it to the owner of the data")

    def _find_refusal(self, scope: Message) -> tuple[int, str, str] | None:
        """Return how a request is refused; None if it is not."""
        if len(scope.get("query_string", b"")) > MOST_QUERY_STRING:
            return (
                414,
                f"what stands behind ? has more than {MOST_QUERY_STRING:,} bytes",
                "shorten the address",
            )
        headers = _headers_of(scope)
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or not self._is_known(hosts[0].lower(), scope["scheme"]):
            hint = "use the address that the server was started with, or name this one in allowed_hosts"
            return 421, "this server has another name", hint
        if any(len(headers.get(name, [])) > 1 for name in (b"origin", b"authorization", b"cookie", MARK)):
            return 400, "a header is given twice", "send it once"
        origin = headers.get(b"origin", [None])[0]
        own = f"{scope['scheme']}://{hosts[0]}".lower()
        if origin is not None and origin.lower() != own and origin.lower() not in self._origins:
            return 403, "another site sent this request", "open the page itself"
        site = headers.get(b"sec-fetch-site", ["none"])[0]
        if site not in ("same-origin", "none") and not self._follows_link(scope, headers):
            return 403, "another site sent this request", "open the page itself"
        return None

    def _follows_link(self, scope: Message, headers: dict[bytes, list[str]]) -> bool:
        """Whether somebody follows a link to the page, which shows nothing by itself."""
        navigates = headers.get(b"sec-fetch-mode") == ["navigate"]
        return navigates and scope["method"] in _SAFE and scope["path"] == self._page

    def _is_known(self, host: str, scheme: str) -> bool:
        return host in self._hosts or f"{host}:{_PORTS.get(scheme, '')}" in self._hosts


def _headers_of(scope: Message) -> dict[bytes, list[str]]:
    found: dict[bytes, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.lower(), []).append(value.decode("latin-1"))
    return found


async def _answer(send: Send, status: int, refused: str, hint: str) -> None:
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body({"refused": refused, "hint": hint})})
