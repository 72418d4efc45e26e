"""`[serve]`, `[mcp]` and `[groups]` of a policy: what is read, and that every mistake names its key."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

import dpsql
from dpsql.errors import PolicyError
from dpsql.kernel.loss import Charge
from dpsql.policy import Address, GroupPolicy, HttpConfig, McpConfig, Policy, ServeConfig, load

Write = Callable[[str], Path]
BASE = """
[budget]
epsilon = 5
[tables.pages]
source = "pages.csv"
public = true
columns = { page = "VARCHAR" }
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    (tmp_path / "pages.csv").write_text("page\nhome\n")

    def to_file(text: str) -> Path:
        path = tmp_path / "shop.toml"
        path.write_text(BASE + text, encoding="utf-8")
        return path

    return to_file


def read(path: Path) -> Policy:
    return load(path)


def test_every_key_of_serve(write: Write) -> None:
    path = write("""
[serve]
listen = ["0.0.0.0:5433", "[::1]:6000", "/run/dpsql/.s.PGSQL.5433"]
name = "store"
users = "people.toml"
certificate = "/etc/ssl/shop.pem"
key = "shop.key"
clientcert = "ca.pem"
max_connections = 50
max_running = 4
queue = 20
queue_per_analyst = 5
statement_timeout = 60
max_rows = 1000
max_bytes = 1_000_000
max_statement = 4096
memory_share = 0.5
time_steps = true
metrics = "localhost:9187"
metrics_analysts = true
[mcp]
listen = "127.0.0.1:8433"
ask_person_above = 0.7
allowed_hosts = ["ask.example.org"]
allowed_origins = ["https://ask.example.org"]
[http]
listen = "0.0.0.0:8443"
owner = "[::1]:8081"
allowed_hosts = ["page.example.org"]
allowed_origins = ["https://page.example.org"]
""")
    folder = path.parent.resolve()
    assert read(path).serve == ServeConfig(
        name="store",
        listen=(
            Address("0.0.0.0", 5433),
            Address("::1", 6000),
            Address("", 5433, Path("/run/dpsql/.s.PGSQL.5433")),
        ),
        users=folder / "people.toml",
        certificate=Path("/etc/ssl/shop.pem"),
        key=folder / "shop.key",
        clientcert=folder / "ca.pem",
        max_connections=50,
        max_running=4,
        queue=20,
        queue_per_analyst=5,
        statement_timeout=60,
        max_rows=1000,
        max_bytes=1_000_000,
        max_statement=4096,
        memory_share=Fraction(1, 2),
        time_steps=True,
        metrics=Address("localhost", 9187),
        metrics_analysts=True,
        mcp=McpConfig(
            Address("127.0.0.1", 8433),
            Fraction(7, 10),
            ("ask.example.org",),
            ("https://ask.example.org",),
        ),
        http=HttpConfig(
            Address("0.0.0.0", 8443),
            Address("::1", 8081),
            ("page.example.org",),
            ("https://page.example.org",),
        ),
    )


def test_an_empty_section_has_defaults(write: Write) -> None:
    serve = read(write("[serve]")).serve
    assert serve is not None
    assert (serve.name, serve.listen) == ("shop", (Address("127.0.0.1", 5433),))
    assert serve.users == write("").parent.resolve() / "dpsql-users.toml"
    assert (serve.memory_share, serve.mcp.listen, serve.metrics) == (Fraction(3, 5), None, None)


def test_a_policy_with_serve_opens_locally_and_answers_the_same(write: Write) -> None:
    plain = read(write(""))
    path = write("[serve]\n[groups.team]\nmembers = ['a']\nepsilon = 1\n")
    assert plain.serve is None
    served = read(path)
    assert served.fingerprint(served.tables.values()) == plain.fingerprint(plain.tables.values())
    with dpsql.connect(path, analyst="a") as connection:
        assert connection.cursor().execute("SELECT page FROM pages").fetchall() == [("home",)]


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1:5433", True),
        ("127.8.9.10:1", True),
        ("[::1]:5433", True),
        ("localhost:0", True),
        ("/tmp/.s.PGSQL.5433", True),
        ("0.0.0.0:5433", False),
        ("[::]:5433", False),
        ("[::ffff:10.0.0.1]:5433", False),
        ("localhost.example.org:5433", False),
        ("127.0.0.1.example.org:5433", False),
        ("10.0.0.1:5433", False),
    ],
)
def test_which_addresses_need_a_certificate(address: str, local: bool) -> None:
    parsed = Address.parse(address, "k")
    assert (parsed.local, str(parsed)) == (local, address)
    if local:
        ServeConfig(listen=(parsed,))
    else:
        with pytest.raises(PolicyError, match="no certificate is named"):
            ServeConfig(listen=(parsed,))
    ServeConfig(listen=(parsed,), certificate=Path("c"), key=Path("k"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("serve = 1", "serve: expected a table"),
        ("[serve]\nlisten = '127.0.0.1:5433'", "serve.listen: expected a list"),
        ("[serve]\nlisten = []", "serve.listen: lists no address"),
        ("[serve]\nlisten = ['127.0.0.1']", "serve.listen: '127.0.0.1' is no address"),
        ("[serve]\nlisten = ['::1:5433']", "is no address"),
        ("[serve]\nlisten = ['[1::2::3]:5433']", "is no address"),
        ("[serve]\nlisten = ['localhost:65536']", "is no address"),
        ("[serve]\nlisten = ['local host:5433']", "is no address"),
        ("[serve]\nlisten = ['/run/dpsql.sock']", "is no path of a socket"),
        ("[serve]\nlisten = ['/" + "a" * 107 + "/.s.PGSQL.1']", "is no path of a socket"),
        ("[serve]\nlisten = [5433]", "expected a list of texts"),
        ("[serve]\nlisten = ['0.0.0.0:5433']", "serve.listen: 0.0.0.0:5433 is reached from other machines"),
        ("[serve]\ncertificate = 'c.pem'", "serve.key: is missing"),
        ("[serve]\nkey = 'c.key'", "serve.certificate: is missing"),
        ("[serve]\nusers = ''", "serve.users: expected the path"),
        ("[serve]\nname = ''", "serve.name: the name of a database"),
        ("[serve]\nname = 'é'", "serve.name: the name of a database"),
        ("[serve]\nmax_connections = 3", "serve.max_connections: must be between 4 and"),
        ("[serve]\nmax_running = 0", "serve.max_running: must be between"),
        ("[serve]\nstatement_timeout = true", "serve.statement_timeout: expected an integer"),
        ("[serve]\nmax_statement = 2000000", "serve.max_statement: must be between 1024 and 1048576"),
        ("[serve]\nmemory_share = 0", "serve.memory_share: must be greater than 0"),
        ("[serve]\nmemory_share = 1.5", "serve.memory_share: must be greater than 0 and at most 1"),
        ("[serve]\nmetrics = 9187", "serve.metrics: expected an address"),
        ("[serve]\npassword = 'x'", "serve.password: unknown key"),
        ("[serve]\nlog_statements = true", "serve.log_statements: unknown key"),
        ("[serve]\nlistens = []", "did you mean listen?"),
        ("[mcp]", "mcp: is served by the server alone"),
        ("[serve]\n[mcp]\nlisten = '0.0.0.0:80'", "mcp.listen: 0.0.0.0:80 is reached from other machines"),
        ("[serve]\n[mcp]\nlisten = '/tmp/.s.PGSQL.1'", "mcp.listen: a Unix socket is not served by HTTP"),
        ("[http]", "http: is served by the server alone"),
        ("[serve]\n[http]\nlisten = '0.0.0.0:80'", "http.listen: 0.0.0.0:80 is reached from other machines"),
        ("[serve]\n[http]\nlisten = '/tmp/.s.PGSQL.1'", "http.listen: a Unix socket is not served by HTTP"),
        (
            "[serve]\n[http]\nowner = '192.0.2.1:80'",
            "http.owner: 192.0.2.1:80 is reached from other",
        ),
        ("[serve]\n[http]\nowner = '/tmp/.s.PGSQL.1'", "http.owner: a Unix socket is not served by HTTP"),
        ("[serve]\n[http]\nport = 80", "http.port"),
        ("[serve]\n[mcp]\nask_person_above = -1", "mcp.ask_person_above: must be at least 0"),
        ("[serve]\n[mcp]\nask_person_above = 'x'", "mcp.ask_person_above: not a finite number"),
        ("[serve]\n[mcp]\nallowed_hosts = ['']", "mcp.allowed_hosts: expected a list of texts"),
        ("[groups.g]\nepsilon = 1", "groups.g.members: is required"),
        ("[groups.g]\nmembers = ['a']", "groups.g.epsilon: is required"),
        ("[groups.g]\nmembers = []\nepsilon = 1", "groups.g.members: lists no analyst"),
        ("[groups.g]\nmembers = ['a', 'a']\nepsilon = 1", "groups.g.members: 'a' is listed twice"),
        ("[groups.g]\nmembers = ['*']\nepsilon = 1", "groups.g.members: members are named one by one"),
        ("[groups.g]\nmembers = ['a']\nepsilon = 0", "groups.g.epsilon: must be greater than 0"),
        ("[groups.g]\nmembers = ['a']\nepsilon = 1\ndelta = 1", "groups.g.delta: must be at least 0"),
        (
            "[analysts.alice]\nepsilon = 1\n[groups.g]\nmembers = ['alicia']\nepsilon = 1",
            "groups.g.members: 'alicia' is no analyst",
        ),
    ],
)
def test_a_mistake_names_its_key(write: Write, text: str, problem: str) -> None:
    path = write("")
    path.write_text(text + "\n" + BASE if text.startswith("serve =") else BASE + text)
    with pytest.raises(PolicyError) as caught:
        read(path)
    assert problem in str(caught.value)


def test_groups_are_read_exactly(write: Write) -> None:
    policy = read(write("[groups.team-a]\nmembers = ['alice', 'agent7']\nepsilon = 0.7\ndelta = 1e-9\n"))
    group = policy.groups["team-a"]
    assert group == GroupPolicy("team-a", ("alice", "agent7"), Fraction(7, 10), Fraction(1, 10**9))
    assert group.charge == Charge(Fraction(7, 10), Fraction(1, 10**9))


def test_a_groups_cap_binds_in_a_session(write: Write) -> None:
    text = """
[tables.visits]
source = "visits.csv"
unit = "id"
columns = { id = "INTEGER" }
[groups.team]
members = ["alice", "agent7"]
epsilon = 1
"""
    path = write(text)
    (path.parent / "visits.csv").write_text("id\n" + "".join(f"{i}\n" for i in range(100)))
    ask = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {}) COUNT(DISTINCT id) AS n FROM visits"
    with dpsql.connect(path, analyst="alice") as connection:
        connection.cursor().execute(ask.format("0.75"))
    with dpsql.connect(path, analyst="agent7") as connection, connection.cursor() as cursor:
        with pytest.raises(dpsql.BudgetExceeded, match="of your group team is left"):
            cursor.execute(ask.format("0.5"))
        cursor.execute(ask.format("0.25"))
