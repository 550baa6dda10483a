"""The learned model: starts as the prior, moves towards the data, keeps workloads apart, survives its files."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tuner.cost_model import CostModel, MachineModel, PriorModel, RankerConfig, model_file, pairwise_accuracy, spearman
from tuner.cost_model.features import N_COLUMNS, column
from tuner.cost_model.pooling import N_POOLED, POOLED_VERSION, pool
from tuner.errors import StorageError

Rows = npt.NDArray[np.float64]


def candidates(seed: int, n: int) -> list[Rows]:
    """One or two stores each; plausible enough for the prior to have an opinion."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        rows = np.zeros((int(rng.integers(1, 3)), N_COLUMNS))
        rows[:, column("float_add_sub")] = rng.uniform(17, 18, rows.shape[0])
        rows[:, column("outer_prod")] = rows[:, column("float_add_sub")]
        rows[:, column("buffer0.bytes")] = rows[:, column("outer_prod")] + 2
        rows[:, column("vectorize.num")] = 1.0
        rows[:, column("vectorize.len")] = np.log2(1.0 + 2.0 ** rng.integers(0, 6, rows.shape[0]))
        rows[:, column("auto_unroll_max_step")] = rng.choice([0.0, 4.0, 9.0])
        made.append(rows)
    return made


def truth(features: list[Rows]) -> list[float]:
    """A machine that the prior gets wrong: long vectors hurt."""
    return [float(sum(2.0 ** (r[column("float_add_sub")] + r[column("vectorize.len")]) for r in f)) for f in features]


def test_before_the_first_measurement_it_is_the_prior() -> None:
    machine = MachineModel(n_cores=4)
    batch = candidates(0, 20)
    np.testing.assert_allclose(CostModel(machine).predict(batch), PriorModel(machine).predict(batch))


def test_it_learns_what_the_prior_gets_wrong() -> None:
    model, held_out = CostModel(seed=1), candidates(99, 60)
    before = pairwise_accuracy(model.predict(held_out), truth(held_out))
    for step in range(5):
        batch = candidates(step, 32)
        told = model.update("w", batch, truth(batch))
    after = pairwise_accuracy(model.predict(held_out), truth(held_out))
    assert before < 0.7
    assert after > 0.85
    assert told["n_total"] == model.n_records == 160
    assert 0.0 <= told["pairwise_accuracy"] <= 1.0


def test_a_little_data_moves_it_a_little() -> None:
    held_out, few, many = candidates(99, 60), candidates(1, 3), candidates(2, 200)
    prior = -PriorModel().predict(held_out)
    model = CostModel()
    agreement = [spearman(model.predict(held_out), np.exp(prior))]
    for batch in (few, many):
        model.update("w", batch, truth(batch))
        agreement.append(spearman(model.predict(held_out), np.exp(prior)))
    assert agreement[0] == pytest.approx(1.0)
    assert agreement[1] > 0.8
    assert agreement[2] < 0.5


def test_the_unit_of_a_workload_does_not_matter() -> None:
    batch, held_out = candidates(1, 40), candidates(2, 20)
    plain, scaled = CostModel(), CostModel()
    plain.update("w", batch, truth(batch))
    scaled.update("w", batch, [1024.0 * t for t in truth(batch)])
    np.testing.assert_array_equal(plain.predict(held_out), scaled.predict(held_out))


def test_workloads_are_ranked_apart() -> None:
    """A second workload, whose candidates all have bad long vectors and nearly its best score, teaches nothing."""
    batch, held_out = candidates(1, 60), candidates(2, 60)
    long_vectors = [rows for rows in candidates(5, 300) if rows[:, column("vectorize.len")].min() > 4.0]
    alone, both = CostModel(), CostModel()
    for model in (alone, both):
        model.update("w", batch, truth(batch))
    both.update("other", long_vectors, list(np.linspace(1.0, 1.01, len(long_vectors))))
    accuracy = [pairwise_accuracy(m.predict(held_out), truth(held_out)) for m in (alone, both)]
    assert len(long_vectors) > 20
    assert accuracy[1] > accuracy[0] - 0.05


def test_one_candidate_alone_and_repeats_are_harmless() -> None:
    model, batch = CostModel(), candidates(1, 8)
    assert model.update("w", batch[:1], [1.0])["n_trees"] == 0
    assert model.update("w", batch, truth(batch))["n_duplicate"] == 1
    told = model.update("w", batch, truth(batch))
    assert (told["n_used"], told["n_duplicate"], told["n_total"]) == (8, 8, 8)


def test_trees_are_added_between_refits_and_a_refit_starts_afresh() -> None:
    model = CostModel(config=RankerConfig(refit_trees=10, warm_trees=3, refit_growth=0.5))
    trees = []
    for step, n in enumerate([40, 10, 9, 1, 10]):
        batch = candidates(step, n)
        trees.append(model.update("w", batch, truth(batch))["n_trees"])
    assert trees == [10, 13, 16, 10, 13]


def test_pooling_together_and_alone_agree_and_only_the_order_of_rows_in_time_counts() -> None:
    batch = [*candidates(1, 5), np.zeros((0, N_COLUMNS))]
    pooled, log_prior = pool(batch, MachineModel())
    assert pooled.shape == (6, N_POOLED)
    for i, rows in enumerate(batch):
        one, one_prior = pool([rows], MachineModel())
        np.testing.assert_allclose(one[0], pooled[i], rtol=1e-6)
        assert one_prior[0] == pytest.approx(log_prior[i])
        np.testing.assert_allclose(pool([rows[::-1]], MachineModel())[0][0], pooled[i], rtol=1e-6)
    assert not pooled[5].any()


def test_a_file_whose_parts_do_not_fit_is_refused(tmp_path: Path) -> None:
    model = CostModel()
    batch = candidates(1, 20)
    model.update("w", batch, truth(batch))
    model.save(tmp_path / "good")
    header, arrays = model_file.read(tmp_path / "good", "xgboost", POOLED_VERSION)
    spoiled = {
        "machine": ({**header, "machine": {"n_cores": 0}}, arrays),
        "groups": ({**header, "groups": []}, arrays),
        "latencies": (header, {**arrays, "latency_s": -arrays["latency_s"]}),
        "missing": (header, {k: v for k, v in arrays.items() if k != "sizes"}),
    }
    for name, (spoiled_header, spoiled_arrays) in spoiled.items():
        model_file.write(tmp_path / name, "xgboost", POOLED_VERSION, spoiled_header, spoiled_arrays)
        with pytest.raises(StorageError, match="damaged"):
            CostModel().load(tmp_path / name)
    with np.load(tmp_path / "good") as stored:
        everything = {name: stored[name] for name in stored.files}
    everything["booster"][everything["booster"].size // 2] ^= 1  # xgboost itself would end the process
    with (tmp_path / "changed trees").open("wb") as file:
        np.savez(file, **everything)
    with pytest.raises(StorageError, match="damaged"):
        CostModel().load(tmp_path / "changed trees")
    model_file.write(tmp_path / "old", "xgboost", "per-store/tvm-0.1", header, arrays)
    with pytest.raises(StorageError, match=r"per-store/tvm-0\.1"):
        CostModel().load(tmp_path / "old")


def test_a_full_disk_is_one_clear_error_and_keeps_the_old_file(tmp_path: Path) -> None:
    """The limit on file size stands in for a full disk: the write fails in the same place, half way."""
    CostModel().save(tmp_path / "model")
    before = (tmp_path / "model").read_bytes()
    script = f"""
        import resource
        from pathlib import Path
        from tuner.cost_model import CostModel
        from tuner.errors import StorageError
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        try:
            CostModel().save(Path({str(tmp_path / "model")!r}))
        except StorageError as error:
            print(error)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("can't save the cost model to")
    assert ran.stdout.count("\n") == 1
    assert (tmp_path / "model").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError):
        CostModel(n_threads=0)
    for wrong in ({"refit_trees": 0}, {"eta": 0.0}, {"refit_growth": -0.1}):
        with pytest.raises(ValueError):
            RankerConfig(**wrong)
