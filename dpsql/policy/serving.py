"""What a policy says about the server: `[serve]`, `[mcp]` and `[http]`, with their checks and readers."""

from __future__ import annotations

from dataclasses import field
from fractions import Fraction
from pathlib import Path

from dpsql.kernel.loss import exact
from dpsql.lazy_dataclass import dataclass
from dpsql.policy.names import EXAMPLES, Address, key_path, wrong
from dpsql.policy.policy_keys import KEYS
from dpsql.policy.toml_values import Section

USERS = "dpsql-users.toml"
_METRICS = "serve.metrics"
"""The key of an address that needs no certificate: numbers alone are told there."""
_BOUNDS = {
    "max_connections": (4, 10_000),
    "max_running": (1, 256),
    "queue": (1, 10_000),
    "queue_per_analyst": (1, 10_000),
    "statement_timeout": (1, 86_400),
    "max_rows": (1, 100_000_000),
    "max_bytes": (1 << 16, 1 << 34),
    "max_statement": (1 << 10, 1 << 20),
}
"""The smallest and the largest value of each limit. A message of the wire has at most 1 MiB."""


@dataclass(frozen=True, slots=True)
class McpConfig:
    """`[mcp]`: how programs that speak the Model Context Protocol are served."""

    listen: Address | None = None
    """Where the server answers HTTP requests; None: nowhere."""
    ask_person_above: Fraction | None = None
    """The price above which a person is asked, if the program can ask one; None: never."""
    allowed_hosts: tuple[str, ...] = ()
    """Values of the header Host that are accepted beside those of the address."""
    allowed_origins: tuple[str, ...] = ()
    """Values of the header Origin that are accepted; without any, a request must have none."""

    def __post_init__(self) -> None:
        if self.listen is not None and self.listen.socket is not None:
            raise wrong("mcp.listen", "a Unix socket is not served by HTTP", 'write "127.0.0.1:8433"')
        if self.ask_person_above is None:
            return
        try:
            object.__setattr__(self, "ask_person_above", exact(self.ask_person_above))
        except ValueError as problem:
            raise wrong("mcp.ask_person_above", str(problem)) from None
        if self.ask_person_above < 0:
            raise wrong("mcp.ask_person_above", "must be at least 0")

    @property
    def addresses(self) -> tuple[tuple[str, Address], ...]:
        """The addresses that the MCP server listens on, each with the key that sets it."""
        return () if self.listen is None else (("mcp.listen", self.listen),)


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """`[http]`: where people are served with pages, and programs with JSON."""

    listen: Address | None = None
    """Where analysts are served; None: nowhere."""
    owner: Address | None = None
    """Where the owner's page is served, on this machine alone; None: nowhere."""
    allowed_hosts: tuple[str, ...] = ()
    """Values of the header Host that are accepted beside those of the address."""
    allowed_origins: tuple[str, ...] = ()
    """Values of the header Origin that are accepted beside that of the page itself."""

    def __post_init__(self) -> None:
        for name, address in (("listen", self.listen), ("owner", self.owner)):
            if address is not None and address.socket is not None:
                raise wrong(f"http.{name}", "a Unix socket is not served by HTTP", 'write "127.0.0.1:8080"')
        if self.owner is not None and not self.owner.local:
            raise wrong(
                "http.owner",
                f"{self.owner} is reached from other machines",
                'the page of the owner is for this machine alone: write "127.0.0.1:8081"',
            )

    @property
    def addresses(self) -> tuple[tuple[str, Address], ...]:
        """The addresses that the HTTP server listens on, each with the key that sets it."""
        given = (("http.listen", self.listen), ("http.owner", self.owner))
        return tuple((key, address) for key, address in given if address is not None)


FRONTS = {"mcp": McpConfig, "http": HttpConfig}
"""The sections of the front ends beside PostgreSQL's protocol, and their classes; fields of `ServeConfig`."""


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """`[serve]`: where and how analysts are served. Raises `PolicyError`, naming the key."""

    name: str = "dpsql"
    """The name of the database that clients give."""
    listen: tuple[Address, ...] = (Address("127.0.0.1"),)
    users: Path = Path(USERS)
    """The file with the users, which the command `dpsql user` writes."""
    certificate: Path | None = None
    key: Path | None = None
    clientcert: Path | None = None
    """Certificates of authorities; every client must have a certificate of one, with his name, as well."""
    max_connections: int = 200
    max_running: int = 2
    """How many private statements run at the same time."""
    queue: int = 100
    queue_per_analyst: int = 10
    statement_timeout: int = 300
    """Seconds; a statement stopped after its charge counts as a failure."""
    max_rows: int = 100_000
    max_bytes: int = 64 << 20
    max_statement: int = 64 << 10
    """Bytes of a statement's text."""
    memory_share: Fraction = Fraction(3, 5)
    """The share of the machine's memory that the private engines together may take."""
    time_steps: bool = False
    """Whether replies that depend on private data are held until one of a few times."""
    metrics: Address | None = None
    metrics_analysts: bool = False
    """Whether the metrics tell what is left of each analyst's budget."""
    mcp: McpConfig = field(default_factory=McpConfig)
    http: HttpConfig = field(default_factory=HttpConfig)

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= 63 or not self.name.isprintable() or not self.name.isascii():
            raise wrong("serve.name", "the name of a database is 1 to 63 printable ASCII characters")
        if not self.listen:
            raise wrong("serve.listen", "lists no address", EXAMPLES)
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise wrong(key_path("serve", name), f"must be between {least} and {most}")
        try:
            object.__setattr__(self, "memory_share", exact(self.memory_share))
        except ValueError as problem:
            raise wrong("serve.memory_share", str(problem)) from None
        if not 0 < self.memory_share <= 1:
            raise wrong("serve.memory_share", "must be greater than 0 and at most 1", "0.6 is the default")
        self._check_certificate()

    def _check_certificate(self) -> None:
        if (self.certificate is None) != (self.key is None):
            missing = "certificate" if self.certificate is None else "key"
            raise wrong(f"serve.{missing}", "is missing", "certificate and key are named together")
        for key, address in self.addresses:
            if not address.local and self.certificate is None and key != _METRICS:
                raise wrong(
                    key,
                    f"{address} is reached from other machines, and no certificate is named",
                    'write certificate = "FILE" and key = "FILE" in [serve]',
                )

    @property
    def fronts(self) -> dict[str, McpConfig | HttpConfig]:
        """The front ends beside PostgreSQL's protocol, by their sections."""
        return {section: getattr(self, section) for section in FRONTS}

    @property
    def addresses(self) -> tuple[tuple[str, Address], ...]:
        """All addresses at which the server listens, each with its key."""
        metrics = () if self.metrics is None else ((_METRICS, self.metrics),)
        own = (("serve.listen", address) for address in self.listen)
        return (*own, *metrics, *(pair for front in self.fronts.values() for pair in front.addresses))


def read_serving(top: Section, file: Path) -> ServeConfig | None:
    """Return what the policy says about the server; None if it has no `[serve]`."""
    if "serve" not in top:
        for name in FRONTS:
            if name in top:
                raise wrong(name, "is served by the server alone", "write [serve] as well; it may be empty")
        return None
    found = Section(top.raw("serve"), ("serve",), KEYS["[serve]"]).values(file.parent)
    found.setdefault("users", file.parent / USERS)
    found.setdefault("name", default_name(file))
    for name, config in FRONTS.items():
        found[name] = config(**Section(top.get(name, dict, {}), (name,), KEYS[f"[{name}]"]).values())
    return ServeConfig(**found)


def default_name(file: Path) -> str:
    """Return the database's name if the policy gives none: the printable ASCII of its file's name."""
    stem = "".join(c for c in file.stem if c.isascii() and c.isprintable())[:63]
    return stem or "dpsql"
