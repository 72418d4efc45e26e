from __future__ import annotations

import numpy as np
import pytest

from dpsql.estimates.noise_draws import NoiseSample
from dpsql.estimates.noise_laws import Law, NoiseDraw
from dpsql.estimates.noise_terms import TermWeights, errors

LAWS = [Law("laplace"), Law("gaussian", shared=0.25), Law("box", 30, 4), Law("cube", 30)]
KEY, OTHER = (0, 0, 0), (0, 0, 1)
DRAWS = 20_000


@pytest.mark.parametrize("law", LAWS, ids=lambda law: str(law.kind))
def test_a_sample_has_the_law_of_draws_of_each_value_alone(law: Law) -> None:
    one, other = NoiseDraw(law, 2.0, 0.0), NoiseDraw(law, 5.0, 0.0)
    drawn = NoiseSample().errors({KEY: (one, 1.0), OTHER: (other, -0.5)}, DRAWS)
    (alone,) = errors(TermWeights((one, other), np.array([[1.0, -0.5]])), DRAWS)
    levels = (0.025, 0.25, 0.5, 0.75, 0.975)
    assert np.quantile(drawn, levels) == pytest.approx(np.quantile(alone, levels), abs=0.06 * alone.std())


@pytest.mark.parametrize("law", LAWS, ids=lambda law: str(law.kind))
def test_values_of_one_sample_have_the_noises_of_their_numbers_in_common(law: Law) -> None:
    source, sample = NoiseDraw(law, 3.0, 0.0), NoiseSample()
    first = sample.errors({KEY: (source, 1.0)}, DRAWS)
    second = sample.errors({OTHER: (source, 1.0)}, DRAWS)
    both = sample.errors({OTHER: (source, 2.0), KEY: (source, -1.0)}, DRAWS)
    assert both == pytest.approx(2 * second - first)
    apart = np.corrcoef(first, second)[0, 1]
    expected = np.corrcoef(*errors(TermWeights((source,) * 2, np.eye(2)), DRAWS))[0, 1]
    assert apart == pytest.approx(expected, abs=0.03)
