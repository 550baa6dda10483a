"""One contract for every cost model: random, prior only, and the trained one."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tuner.cost_model import CostModel, Model, PriorModel, RandomModel
from tuner.cost_model.features import N_COLUMNS
from tuner.errors import StorageError

MAKERS: dict[str, Callable[[], Model]] = {
    "random": lambda: RandomModel(seed=7),
    "prior": lambda: PriorModel(),
    "xgboost": lambda: CostModel(seed=7, n_threads=1),
}


@pytest.fixture(params=sorted(MAKERS))
def make(request: pytest.FixtureRequest) -> Callable[[], Model]:
    return MAKERS[request.param]


def batch(seed: int, n: int = 12) -> list[npt.NDArray[np.float32]]:
    """Candidates of one to three stores; large in `float_mul` means slow."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.0, 20.0, (int(rng.integers(1, 4)), N_COLUMNS)).astype(np.float32) for _ in range(n)]


def latencies(features: list[npt.NDArray[np.float32]]) -> list[float | None]:
    return [1e-4 * float(2.0 ** (f[:, 2].max() / 4.0)) for f in features]


def test_scores_are_finite_float64_one_per_candidate(make: Callable[[], Model]) -> None:
    model = make()
    for _ in range(2):
        scores = model.predict(batch(1))
        assert scores.dtype == np.float64
        assert scores.shape == (12,)
        assert np.isfinite(scores).all()
        model.update("w", batch(2), latencies(batch(2)))


def test_no_candidates_no_scores(make: Callable[[], Model]) -> None:
    model = make()
    assert model.predict([]).shape == (0,)
    assert model.update("w", [], [])["n_used"] == 0
    model.update("w", batch(2), latencies(batch(2)))
    assert model.predict([]).shape == (0,)


def test_extreme_rows_still_get_finite_scores(make: Callable[[], Model]) -> None:
    model = make()
    model.update("w", batch(2), latencies(batch(2)))
    odd = [
        np.zeros((0, N_COLUMNS)),
        np.zeros((1, N_COLUMNS)),
        np.full((2, N_COLUMNS), np.nan),
        np.full((1, N_COLUMNS), np.inf),
        np.full((1, N_COLUMNS), -1e30),
        np.full((1, N_COLUMNS), 1e30),
    ]
    assert np.isfinite(model.predict(odd)).all()
    assert model.update("w", odd, [1e-3] * len(odd))["n_used"] == len(odd)
    assert np.isfinite(model.predict(odd)).all()


def test_another_layout_is_refused_and_changes_nothing(make: Callable[[], Model]) -> None:
    model, twin = make(), make()
    for wrong in (np.ones((2, N_COLUMNS - 1)), np.ones(N_COLUMNS)):
        with pytest.raises(ValueError, match="164"):
            model.predict([wrong])
        with pytest.raises(ValueError, match="164"):
            model.update("w", [wrong], [1e-3])
    with pytest.raises(ValueError, match="one latency per candidate"):
        model.update("w", batch(1), [1e-3])
    np.testing.assert_array_equal(model.predict(batch(3)), twin.predict(batch(3)))


def test_bad_latencies_are_counted_and_leave_the_model_as_it_was(make: Callable[[], Model]) -> None:
    model, twin = make(), make()
    for one in (model, twin):
        one.update("w", batch(2), latencies(batch(2)))
    bad = [None, math.nan, math.inf, -math.inf, 0.0, -1.0]
    for group in ("w", "other"):
        told = model.update(group, batch(4, len(bad)), bad)
        assert (told["n_used"], told["n_skipped"], told["n_total"]) == (0, len(bad), 12)
    np.testing.assert_array_equal(model.predict(batch(3)), twin.predict(batch(3)))


def test_same_seed_and_calls_same_scores(make: Callable[[], Model]) -> None:
    one, other = make(), make()
    for step, n in enumerate([12, 12, 2, 2, 12]):
        one.update("w", batch(step, n), latencies(batch(step, n)))
        if step == 2:
            third = make()  # what else runs in the process must not matter
            third.update("w", batch(7), latencies(batch(7)))
        other.update("w", batch(step, n), latencies(batch(step, n)))
        np.testing.assert_array_equal(one.predict(batch(99)), other.predict(batch(99)))


@pytest.mark.parametrize("n_updates", [0, 1, 3])
def test_a_saved_model_goes_on_where_it_was(make: Callable[[], Model], n_updates: int, tmp_path: Path) -> None:
    model, loaded = make(), make()
    for step in range(n_updates):
        model.update("w", batch(step), latencies(batch(step)))
    model.save(tmp_path / "model")
    loaded.update("other", batch(50), latencies(batch(50)))  # must be forgotten
    loaded.load(tmp_path / "model")
    np.testing.assert_array_equal(model.predict(batch(9)), loaded.predict(batch(9)))
    few = batch(8, n=3)  # too few for a refit: the trees themselves must have come back
    told = [m.update("w", few, latencies(few)) for m in (model, loaded)]
    assert told[0]["n_total"] == told[1]["n_total"] == 12 * n_updates + 3
    np.testing.assert_array_equal(model.predict(batch(9)), loaded.predict(batch(9)))
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_file_that_is_no_model_is_refused_and_changes_nothing(make: Callable[[], Model], tmp_path: Path) -> None:
    model, twin = make(), make()
    good = tmp_path / "good"
    model.save(good)
    content = good.read_bytes()
    damaged = {
        "empty": b"",
        "text": b"not a model\n",
        "cut": content[: len(content) // 2],
        "pickle": b"\x80\x04N.",
        "flipped": content[:60] + bytes([content[60] ^ 0xFF]) + content[61:],
    }
    for name, data in damaged.items():
        (tmp_path / name).write_bytes(data)
    np.savez(tmp_path / "foreign.npz", a=np.ones(3))
    np.save(tmp_path / "array.npy", np.ones(3))
    np.savez(tmp_path / "pickled.npz", header=np.array([{}], dtype=object))
    for name in (*damaged, "foreign.npz", "array.npy", "pickled.npz", "missing", "."):
        with pytest.raises(StorageError) as raised:
            model.load(tmp_path / name)
        assert "\n" not in str(raised.value)
    np.testing.assert_array_equal(model.predict(batch(3)), twin.predict(batch(3)))


def test_another_kind_of_model_is_refused(make: Callable[[], Model], tmp_path: Path) -> None:
    kinds = {name: maker() for name, maker in MAKERS.items()}
    for name, model in kinds.items():
        model.save(tmp_path / name)
    refused = 0
    for name in kinds:
        try:
            make().load(tmp_path / name)
        except StorageError as error:
            assert "another cost model" in str(error)
            refused += 1
    assert refused == len(kinds) - 1


def test_saving_where_it_is_impossible_is_one_clear_error(make: Callable[[], Model], tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="can't save"):
        make().save(tmp_path / "missing" / "model")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="can't save"):
        make().save(tmp_path / "folder")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]
