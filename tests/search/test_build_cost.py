"""The build-cost ranker on made-up features whose cost is known."""

import numpy as np

from tuner.search.build_cost import LEAST_BUILDS, CostAwareRanker


class Even:
    """A model to which all candidates look equally fast."""

    def predict(self, features):
        return np.zeros(len(features))


def candidate(size: float):
    return np.full((2, 164), size, dtype=np.float32)


def trained(count: int = 40) -> CostAwareRanker:
    ranker = CostAwareRanker(Even(), seed=0)
    sizes = np.random.default_rng(0).uniform(1, 10, count)
    ranker.observe_builds([candidate(s) for s in sizes], [0.05 * 2**s for s in sizes])
    return ranker


def test_of_two_that_look_equally_fast_the_cheaper_build_ranks_higher():
    cheap, dear = trained().predict([candidate(2.0), candidate(9.5)])
    assert cheap == 0.0  # below the median nothing is taken off
    assert dear < cheap


def test_the_penalty_is_bounded_so_that_a_clearly_faster_candidate_still_wins():
    (dear,) = trained().predict([candidate(1000.0)])
    assert dear >= -0.5


def test_until_enough_was_built_only_the_model_counts():
    assert trained(LEAST_BUILDS - 1).predict([candidate(9.5)]).tolist() == [0.0]
    assert CostAwareRanker(Even(), seed=0).predict([]).size == 0


def test_builds_that_failed_at_once_teach_nothing():
    ranker = CostAwareRanker(Even(), seed=0)
    ranker.observe_builds([candidate(1.0)] * 50, [0.0] * 50)
    assert ranker.predict([candidate(9.5)]).tolist() == [0.0]
