"""The noise of a test depends on its name alone; forks, commands and what tests share have their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from dpsql import login
from dpsql.kernel.noise import SimulationEntropy, SystemEntropy
from tests.commands import Commands
from tests.support.noise_of_tests import noise_of, seed_noise


@pytest.fixture(autouse=True)
def _after_the_test() -> Iterator[None]:
    yield
    seed_noise("")


def drawn() -> list[str]:
    words = [*SystemEntropy().words(3).tolist(), *SimulationEntropy().words(1).tolist()]
    return [*map(str, words), str(login.draw_number(64)), login.draw_key(11).hex(), login.draw_text(9)]


def test_a_name_gives_the_same_noise_again() -> None:
    found = []
    for name in ("a", "b", "a"):
        seed_noise(name)
        found.append(drawn())
    assert found[0] == found[2]
    assert not set(found[0]) & set(found[1])
    assert not set(found[0]) & set(drawn())


def test_what_is_shared_changes_no_noise_of_a_test() -> None:
    seed_noise("a")
    whole = [drawn(), drawn()]
    seed_noise("a")
    found = [drawn()]
    with noise_of("shared"):
        shared = drawn()
    found.append(drawn())
    assert found == whole
    seed_noise("b")
    with noise_of("shared"):
        assert drawn() == shared


def test_without_a_name_bits_are_fresh() -> None:
    """Two lists share a value with probability below 2^-60."""
    seed_noise("")
    with noise_of("shared"):
        first = drawn()
    with noise_of("shared"):
        assert not set(first) & set(drawn())


def of_fork() -> str:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, repr(drawn()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with open(read, "rb") as made:
        return made.read().decode()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forks_draw_other_noise_and_the_same_in_every_run() -> None:
    found = []
    for _ in range(2):
        seed_noise("a")
        found.append([of_fork(), of_fork(), repr(drawn())])
    assert found[0] == found[1]
    assert len(set(found[0])) == 3


@pytest.mark.longer
def test_commands_draw_other_noise_and_the_same_in_every_run() -> None:
    code = "from dpsql.kernel.noise import SystemEntropy; print(SystemEntropy().words(3).tolist())"
    environment = {**os.environ, "PYTEST_CURRENT_TEST": "none::such (call)"}
    found = []
    for _ in range(2):
        made = Commands()
        asked = [*made.command, "python", code]
        found.append([subprocess.check_output(asked, env=environment, text=True) for _ in range(2)])
        made.close()
    assert found[0] == found[1]
    assert found[0][0] != found[0][1]
