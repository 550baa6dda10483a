"""Predicts which candidates are fast. Runs in the main process, without TVM: features come in as plain arrays."""

from tuner.cost_model.baselines import PriorModel, RandomModel
from tuner.cost_model.metrics import (
    kendall,
    pairwise_accuracy,
    peak_at,
    ranking_metrics,
    regret_at,
    spearman,
)
from tuner.cost_model.prior import MachineModel
from tuner.cost_model.protocol import Model
from tuner.cost_model.ranker import CostModel, RankerConfig

__all__ = [
    "CostModel",
    "MachineModel",
    "Model",
    "PriorModel",
    "RandomModel",
    "RankerConfig",
    "kendall",
    "pairwise_accuracy",
    "peak_at",
    "ranking_metrics",
    "regret_at",
    "spearman",
]
