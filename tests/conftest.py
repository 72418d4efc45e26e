"""What holds for all tests."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from tests.commands import Commands
from tests.support import noise_of_tests, shared_schemas

collect_ignore = (
    [] if find_spec("psycopg") else ["serve/catalog_oracle.py", "unit/serve/make_postgres_bytes.py"]
)
collect_ignore_glob = ["comparison/systems/*.py"]
"""Scripts that need a client of PostgreSQL or another system: pytest looks for examples in all others."""

_ROOM = 4 << 30
"""Free bytes in memory from which on the files of tests are there; all of them take a tenth of it."""


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C interrupt."""
    _interruptible()
    _fewer_examples(config)
    config.add_cleanup(_state_elsewhere())
    config.add_cleanup(_files_in_memory())


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no examples in files of tests that have none: that takes longer than to read them."""
    found = yield
    if len(found) and ">>> " not in file_path.read_text("utf-8"):
        return [each for each in found if not isinstance(each, DoctestModule)]
    return found


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without looking for garbage: nearly all that is made then stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow all but every n-th case of a test that is `sampled(n)`, before slow ones are left out.

    With `rest="longer"` they are longer instead. A case that is slow already is not counted. Where n has no
    divisor in common with the numbers of values of the parameters, each value is met.
    """
    counted = Counter[str]()
    for item in items:
        marker = item.get_closest_marker("sampled")
        if marker is not None and item.get_closest_marker("slow") is None:
            test = item.nodeid.partition("[")[0]
            if counted[test] % marker.args[0]:
                item.add_marker(marker.kwargs.get("rest", "slow"))
            counted[test] += 1


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking through the tests and all modules again and again.

    Also at the end, where pytest collects what the tests left: each look through all modules takes a second.
    """
    noise_of_tests.take_over()
    shared_schemas.take_over()
    _files_stay_new()
    gc.freeze()
    gc.set_threshold(10_000, 50, 50)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the test draw the same noise in every run; laws of outputs are tested with fresh bits."""
    fresh = item.get_closest_marker("fresh_noise") or "statistical" in item.path.parts
    noise_of_tests.seed_noise("" if fresh else item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Let what several tests share draw the same noise, whichever of them is the first one."""
    if fixturedef.scope == "function":
        return (yield)
    with noise_of_tests.noise_of(
        f"{request.node.nodeid} {fixturedef.argname} {getattr(request, 'param_index', 0)}"
    ):
        return (yield)


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """The process whose forks run `dpsql`."""
    made = Commands()
    yield made
    made.close()


def _files_stay_new() -> None:
    """Let files that a test wrote be new all the time, and not for the first two seconds alone.

    Of new files nothing is kept between statements: whether it is would depend on the load. Tests of what is
    kept set the time themselves.
    """
    from dpsql.release import reuse

    reuse._SETTLED_SECONDS = 3600.0


def _interruptible() -> None:
    """Let Ctrl-C interrupt, here and in child processes, also where a shell runs the tests in the background.

    Such a shell ignores the signal for all that it starts; the tests of interrupts would wait for minutes.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _fewer_examples(config: pytest.Config) -> None:
    """Let hypothesis try 25 examples where a test names no number, with the profile `whole` 1,000.

    Every day they are the same ones, however long each takes; with `whole` they are new ones.
    """
    settings.register_profile("daily", max_examples=25, derandomize=True, deadline=None)
    settings.register_profile("whole", max_examples=1_000, deadline=None)
    if config.getoption("--hypothesis-profile", None) is None:
        settings.load_profile("daily")


def _state_elsewhere() -> Callable[[], None]:
    """Keep the marks of the tests' ledgers out of the user's home, also in child processes.

    They are in memory where there is a folder for that: the marks of thousands of ledgers are not waited for.
    """
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="dpsql-tests-state-", dir=memory if memory.is_dir() else None)
    os.environ["XDG_STATE_HOME"] = folder
    return functools.partial(shutil.rmtree, folder, ignore_errors=True)


def _files_in_memory() -> Callable[[], None]:
    """Put the folders of `tmp_path` in memory where there is room: thousands of ledgers are synced.

    Temporary files lie there, too: each session looks for what ended processes left among them, and
    on some machines `/tmp` has thousands of other files.

    xdist's workers inherit the environment, and with it the folder. `PYTEST_DEBUG_TEMPROOT`, which is
    pytest's own variable, keeps them where it says, also after the tests.
    """
    memory = Path("/dev/shm")
    if "PYTEST_DEBUG_TEMPROOT" in os.environ or not memory.is_dir() or shutil.disk_usage(memory).free < _ROOM:
        return lambda: None
    folder = tempfile.mkdtemp(prefix="dpsql-", dir=memory)
    Path(folder).chmod(0o711)  # another user, as whom some tests look at files, may pass through it
    before = os.environ.get("TMPDIR")
    os.environ["PYTEST_DEBUG_TEMPROOT"] = os.environ["TMPDIR"] = folder
    tempfile.tempdir = None

    def remove() -> None:
        os.environ.pop("PYTEST_DEBUG_TEMPROOT", None)
        os.environ.pop("TMPDIR", None)
        if before is not None:
            os.environ["TMPDIR"] = before
        tempfile.tempdir = None
        shutil.rmtree(folder, ignore_errors=True)

    return remove


def _keep_bytecode() -> None:
    """Where Python must not write bytecode beside the sources, write it to pytest's cache.

    Without it each of the many processes of the tests would compile all of dpsql anew, which takes as long as
    all that it does then. Environment variables are inherited by these processes and by xdist's workers.
    """
    if sys.dont_write_bytecode and sys.pycache_prefix is None:
        sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "d" / "bytecode")
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.dont_write_bytecode = False


_keep_bytecode()  # before the other files of this kind, which load dpsql
