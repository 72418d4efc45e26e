"""Sources of random bits."""

import numpy as np
import pytest

from dpsql.kernel.noise import Entropy, SimulationEntropy, SystemEntropy
from dpsql.noise import SeededEntropy

pytestmark = pytest.mark.fresh_noise


def test_a_seed_gives_one_stream_however_it_is_cut() -> None:
    whole = SeededEntropy(7).words(20_000)
    source = SeededEntropy(7)
    cut = np.concatenate([source.words(n) for n in (0, 1, 2, 8190, 8192, 3615)])
    assert whole.dtype == cut.dtype == np.uint64
    assert np.array_equal(whole, cut)


def test_seeds_differ() -> None:
    assert not np.array_equal(SeededEntropy(1).words(4), SeededEntropy(2).words(4))


@pytest.mark.parametrize("source", [SystemEntropy(), SimulationEntropy()])
@pytest.mark.parametrize("n", [0, 1, 5, 100_000])
def test_as_many_words_as_asked(source: Entropy, n: int) -> None:
    words = source.words(n)
    assert words.shape == (n,)
    assert words.dtype == np.uint64


@pytest.mark.parametrize("make", [SystemEntropy, SimulationEntropy])
def test_nothing_is_repeated(make: type[SimulationEntropy | SystemEntropy]) -> None:
    """Two blocks share a word with probability below 1e-13."""
    source = make()
    drawn = [source.words(1000), source.words(1000), make().words(1000)]
    assert len(np.unique(np.concatenate(drawn))) == 3000


def test_the_system_keeps_no_words_that_a_fork_could_repeat() -> None:
    assert not vars(SystemEntropy())
    source = SystemEntropy()
    source.words(3)
    assert not vars(source)
