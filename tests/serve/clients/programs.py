"""Programs and a driver of Java, unmodified: psql, pgjdbc, isql, pgcli."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.serve.clients.cookbook import Answered, Rows
from tests.serve.clients.drivers import WHO, odbc
from tests.serve.clients.questions import LARGE, LONG, PARAMETERS, WRONG
from tests.serve.clients.shop import PASSWORD, Shop
from tests.serve.clients.subject import Cancelled, Login, NotOffered, Refusal, Subject, conninfo
from tests.serve.clients.watching import tls_of, when_running

NULL = "\\N"
JARS = Path("/usr/share/java")


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without what would decide for a client."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return kept | {"PGPASSWORD": PASSWORD, "LC_ALL": "C.UTF-8", **more}


def run(
    command: Sequence[str],
    more: Mapping[str, str] | None = None,
    *,
    stdin: str = "",
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        input=stdin,
        cwd=folder,
        env=environment(**(more or {})),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def watched(
    shop: Shop, command: Sequence[str], stop: Callable[[subprocess.Popen[str]], object], **more: str
) -> tuple[str, str]:
    """Run a program, and do something to it once its statement runs; return what it wrote.

    Its standard input stays open meanwhile: the end of it could be taken for a word to stop.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=error,
            text=True,
            env=environment(**more),
        ) as process:
            try:
                with when_running(shop, lambda: stop(process)):
                    process.wait(timeout=300)
            finally:
                process.kill()  # without effect on one that has ended
        out.seek(0)
        error.seek(0)
        return out.read(), error.read()


def shown_place(text: str) -> int:
    """Return the position in WRONG that libpq's message shows by a line and a caret, from 1."""
    shown, caret = re.findall(r"(?m)^(LINE \d+: .*)\n( *)\^", text)[0]
    number, _ = shown.removeprefix("LINE ").split(": ", 1)
    before = WRONG.split("\n")[: int(number) - 1]
    return sum(len(line) + 1 for line in before) + len(caret) - (shown.index(": ") + 2) + 1


def read_tsv(text: str) -> list[Answered]:
    r"""Read answers in lines of tab-separated texts: `columns`, then `row`; `\N` is NULL."""
    found: list[Answered] = []
    for line in text.splitlines():
        kind, *values = line.split("\t")
        if kind == "columns":
            found.append(Answered(tuple(values), []))
        elif kind == "row":
            if not found:
                found.append(Answered((), []))
            found[-1].rows.append(tuple(map(_unescaped, values)))
    return found


def _unescaped(text: str) -> str | None:
    if text == NULL:
        return None
    return re.sub(r"\\(.)", lambda m: {"t": "\t", "n": "\n", "r": "\r"}.get(m[1], m[1]), text)


def read_csv(text: str) -> list[Answered]:
    """Read answers in CSV, each behind a line `-- answer`."""
    found = []
    for part in re.split(r"(?m)^-- answer\n", text)[1:]:
        names, *rows = csv.reader(io.StringIO(part))
        found.append(
            Answered(tuple(names), [tuple(None if v == NULL else v for v in row) for row in rows if row])
        )
    return found


class Psql(Subject):
    name = "psql"

    def missing(self) -> str | None:
        return None if shutil.which("psql") else "not installed: psql"

    def psql(self, shop: Shop, script: str, *options: str) -> subprocess.CompletedProcess[str]:
        return run(["psql", "-X", "-q", *options, conninfo(shop)], stdin=script)

    def asked(self, shop: Shop, *texts: str) -> list[Answered]:
        script = "".join(f"\\echo -- answer\n{text}\n;\n" for text in texts)
        done = self.psql(shop, script, "--csv", "-P", f"null={NULL}", "-v", "ON_ERROR_STOP=1")
        assert done.returncode == 0, done.stderr
        return read_csv(done.stdout)

    def login(self, shop: Shop) -> Login:
        ((number, user),) = self.asked(shop, WHO)[0].rows
        return Login(str(user), tls_of(shop, int(str(number))), bound=True)

    def cookbook(self, shop: Shop, statements: Sequence[str]) -> list[Answered]:
        return self.asked(shop, *statements)

    def parameters(self, shop: Shop) -> list[Rows]:
        raise NotOffered("psql 15 has no \\bind")

    def large(self, shop: Shop) -> int:
        (answer,) = self.asked(shop, f"\\set FETCH_COUNT 1000\n{LARGE}")
        return len(answer.rows)

    def refused(self, shop: Shop) -> Refusal:
        done = self.psql(shop, f"{WRONG};", "-v", "VERBOSITY=verbose")
        state, text = done.stderr.splitlines()[0].removeprefix("ERROR:  ").split(": ", 1)
        return Refusal(text, state, shown_place(done.stderr))

    def cancelled(self, shop: Shop) -> Cancelled:
        command = ["psql", "-X", "-At", "-c", LONG, conninfo(shop, "bob")]
        _, error = watched(shop, command, lambda process: process.send_signal(signal.SIGINT))
        return Cancelled(error, None)  # psql ends then, unless a person types

    def browsed(self, shop: Shop) -> dict[str, list[str]]:
        tables = self.psql(shop, "\\dt", "-At").stdout.splitlines()
        found: dict[str, list[str]] = {line.split("|")[1]: [] for line in tables}
        columns = self.psql(shop, "\\d visits", "-At").stdout.splitlines()
        found["visits"] = [line.split("|")[0] for line in columns]
        return found


class Pgjdbc(Subject):
    name = "pgjdbc"

    def missing(self) -> str | None:
        if not shutil.which("java"):
            return "not installed: java"
        return None if (JARS / "postgresql.jar").exists() else "not installed: libpostgresql-jdbc-java"

    def command(self, shop: Shop, ability: str, folder: Path, *texts: str, user: str = "alice") -> list[str]:
        files = []
        for number, text in enumerate(texts):
            files.append(folder / f"{number}.sql")
            files[-1].write_text(text)
        names = ("postgresql", "scram-client", "scram-common", "saslprep", "stringprep")
        path = ":".join(str(JARS / f"{name}.jar") for name in names)
        url = f"jdbc:postgresql://localhost:{shop.wire}/shop"
        program = str(Path(__file__).with_name("Client.java"))
        return [
            *("java", "-XX:TieredStopAtLevel=1", "-cp", path, program),
            *(ability, url, user, str(shop.certificate), *map(str, files)),
        ]

    def asked(self, shop: Shop, ability: str, *texts: str) -> list[Answered]:
        with tempfile.TemporaryDirectory() as folder:
            done = run(self.command(shop, ability, Path(folder), *texts))
        assert done.returncode == 0, done.stderr
        return read_tsv(done.stdout)

    def login(self, shop: Shop) -> Login:
        ((number, user),) = self.asked(shop, "ask", WHO)[0].rows
        return Login(str(user), tls_of(shop, int(str(number))), bound=False)

    def cookbook(self, shop: Shop, statements: Sequence[str]) -> list[Answered]:
        return self.asked(shop, "ask", *statements)

    def parameters(self, shop: Shop) -> list[Rows]:
        texts = [re.sub(r"\$\d", "?", text) for text, _ in PARAMETERS]
        return [answer.rows for answer in self.asked(shop, "parameters", *texts)]

    def large(self, shop: Shop) -> int:
        return int(str(self.asked(shop, "large", LARGE)[0].rows[0][0]))

    def refused(self, shop: Shop) -> Refusal:
        ((text, state, position),) = self.asked(shop, "refused", WRONG)[0].rows
        return Refusal(str(text), str(state), int(str(position)))

    def cancelled(self, shop: Shop) -> Cancelled:
        def stop(process: subprocess.Popen[str]) -> None:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()

        with tempfile.TemporaryDirectory() as folder:
            out, error = watched(shop, self.command(shop, "cancelled", Path(folder), LONG, user="bob"), stop)
        answers = read_tsv(out)
        assert len(answers) == 2, error
        return Cancelled(str(answers[0].rows[0][0]), answers[1].rows[0][0])

    def browsed(self, shop: Shop) -> dict[str, list[str]]:
        tables, columns = self.asked(shop, "browsed")
        found: dict[str, list[str]] = {str(row[2]): [] for row in tables.rows}
        found["visits"] = [str(row[3]) for row in columns.rows]
        return found


class Isql(Subject):
    """isql of unixODBC on psqlODBC; one line is one statement, without parameters or cancelling."""

    name = "psqlODBC-isql"

    def missing(self) -> str | None:
        if not shutil.which("isql"):
            return "not installed: isql (unixodbc)"
        drivers = subprocess.run(["odbcinst", "-q", "-d"], capture_output=True, text=True, check=False).stdout
        return None if "PostgreSQL Unicode" in drivers else "not installed: odbc-postgresql"

    def isql(self, shop: Shop, *texts: str, options: Sequence[str] = ()) -> str:
        # With -k the name is a connection string; a tab separates columns, and their names come first.
        command = ["isql", odbc(shop, "alice"), "-k", "-b", "-v", "-d\t", "-c", "-L20000", *options]
        done = run(command, stdin="\n".join(texts) + "\n")
        return done.stdout + done.stderr

    def asked(self, shop: Shop, text: str) -> Answered:
        output = self.isql(shop, one_line(text))
        # Notices stand before the rows, and a line that there were some behind them.
        lines = [line for line in output.rstrip("\n").split("\n") if not re.match(r"\[\w+\]", line)]
        names, *rows = lines
        return Answered(
            tuple(name.strip() for name in names.split("\t") if name),
            [
                tuple(None if not value.strip() else value.strip() for value in row.split("\t"))
                for row in rows
            ],
        )

    def login(self, shop: Shop) -> Login:
        ((number, user, *_),) = self.asked(shop, WHO).rows
        return Login(str(user), tls_of(shop, int(str(number))), bound=True)

    def cookbook(self, shop: Shop, statements: Sequence[str]) -> list[Answered]:
        return [self.asked(shop, text) for text in statements]

    def parameters(self, shop: Shop) -> list[Rows]:
        raise NotOffered("isql has no parameters; see psqlODBC-pyodbc")

    def large(self, shop: Shop) -> int:
        return len(self.asked(shop, LARGE).rows)

    def refused(self, shop: Shop) -> Refusal:
        text = self.isql(shop, one_line(WRONG))
        state = re.search(r"\[(\w{5})\]", text)
        return Refusal(text, state[1] if state else None)

    def cancelled(self, shop: Shop) -> Cancelled:
        raise NotOffered("isql cannot cancel; see psqlODBC-pyodbc")

    def browsed(self, shop: Shop) -> dict[str, list[str]]:
        tables = [line.split("\t") for line in self.isql(shop, "help").splitlines()]
        found: dict[str, list[str]] = {row[2]: [] for row in tables if len(row) > 3 and row[1] == "public"}
        columns = [line.split("\t") for line in self.isql(shop, "help visits").splitlines()]
        found["visits"] = [row[3] for row in columns if len(row) > 3 and row[2] == "visits"]
        return found


def one_line(text: str) -> str:
    """Write a statement as one line, without its comments."""
    return " ".join(re.sub(r"(?m)--.*$", "", text).split())


class Pgcli(Subject):
    name = "pgcli"

    def missing(self) -> str | None:
        return None if self.program else "not installed: pgcli"

    @property
    def program(self) -> str | None:
        beside = Path(sys.executable).with_name("pgcli")
        return str(beside) if beside.exists() else shutil.which("pgcli")

    @contextmanager
    def command(
        self, shop: Shop, text: str, user: str = "alice"
    ) -> Iterator[tuple[list[str], dict[str, str]]]:
        """Return a command line and its environment; its folder is there in this block."""
        with tempfile.TemporaryDirectory() as home:
            settings = Path(home) / "pgclirc"
            settings.write_text(
                f"[main]\ntable_format = csv\nnull_string = '{NULL}'\ntiming = False\n"
                "use_local_timezone = False\nenable_pager = False\nverbose_errors = True\n"
                "on_error = STOP\nless_chatty = True\n[data_formats]\n"
            )
            command = [str(self.program), "--pgclirc", str(settings), *("--row-limit", "0"), "-c", text]
            # It prints notices among the rows.
            more = {"HOME": home, "PGOPTIONS": "-c client_min_messages=error"}
            yield [*command, conninfo(shop, user)], more

    def pgcli(self, shop: Shop, text: str) -> str:
        with self.command(shop, text) as (command, more):
            done = run(command, more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def asked(self, shop: Shop, text: str) -> Answered:
        names, *rows = csv.reader(io.StringIO(self.pgcli(shop, text)))
        values = [row for row in rows if len(row) == len(names) and not re.fullmatch(r"SELECT \d+", row[0])]
        return Answered(tuple(names), [tuple(None if v == NULL else v for v in row) for row in values])

    def login(self, shop: Shop) -> Login:
        ((number, user),) = self.asked(shop, WHO).rows
        return Login(str(user), tls_of(shop, int(str(number))), bound=True)

    def cookbook(self, shop: Shop, statements: Sequence[str]) -> list[Answered]:
        return [self.asked(shop, text) for text in statements]

    def large(self, shop: Shop) -> int:
        return len(self.asked(shop, LARGE).rows)

    def parameters(self, shop: Shop) -> list[Rows]:
        raise NotOffered("pgcli has no parameters")

    def cancelled(self, shop: Shop) -> Cancelled:
        with self.command(shop, LONG, "bob") as (command, more):
            out, error = watched(shop, command, lambda process: process.send_signal(signal.SIGINT), **more)
        return Cancelled(out + error, None)  # it ends then, since it was started with -c

    def refused(self, shop: Shop) -> Refusal:
        with self.command(shop, WRONG) as (command, more):
            done = run(command, more)
        told = dict(re.findall(r"(?m)^([\w ()-]+): (.*)$", done.stdout + done.stderr))
        return Refusal(told["Message"], told["SQLSTATE code"], int(told["Position"]))

    def browsed(self, shop: Shop) -> dict[str, list[str]]:
        tables = csv.reader(io.StringIO(self.pgcli(shop, "\\dt")))
        found: dict[str, list[str]] = {row[1]: [] for row in tables if row[0] == "public"}
        found["visits"] = [row[0] for row in csv.reader(io.StringIO(self.pgcli(shop, "\\d visits")))][1:]
        return found


PROGRAMS: tuple[Subject, ...] = (Psql(), Pgjdbc(), Isql(), Pgcli())
