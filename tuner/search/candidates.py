"""Candidates as plain data: which design space, which decisions. No TVM: children replay them.

A design space is a trace with open decisions ("knobs", in the order of its instructions). A candidate closes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Decision = int | tuple[int, ...] | None
"""A tile's factors, an index, or None: the child draws it from the candidate's seed."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One open decision.

    kind "tile": a factorisation of a loop extent, innermost factor at most `limit` (SamplePerfectTile).
    kind "choice": an index below `limit` (SampleCategorical, or an annotation with that many values).
    kind "location": where a block is computed; the child moves an impossible index to the nearest legal one.
    """

    kind: str
    limit: int


@dataclass(frozen=True, slots=True)
class Space:
    """One skeleton of the task's design space."""

    knobs: tuple[Knob, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point of a design space. `seed` decides what `decisions` leaves open."""

    space: int
    decisions: tuple[Decision, ...]
    seed: int

    def to_wire(self) -> dict[str, Any]:
        return {"space": self.space, "decisions": list(self.decisions), "seed": self.seed}


@dataclass(frozen=True, slots=True, eq=False)
class Scheduled:
    """A candidate whose schedule exists: legal, all decisions closed, features extracted.

    `module_hash` is equal for candidates whose scheduled modules are equal, within one run only.
    `features` is float32 [n_stores, n_columns] (tuner/cost_model/features.py).
    """

    candidate: Candidate
    module_hash: int
    features: npt.NDArray[np.float32]


def spaces_from_wire(data: list[list[dict[str, Any]]]) -> tuple[Space, ...]:
    return tuple(Space(tuple(Knob(k["kind"], k["limit"]) for k in knobs)) for knobs in data)


def decisions_from_wire(values: list[Any]) -> tuple[Decision, ...]:
    return tuple(tuple(v) if isinstance(v, list | tuple) else v for v in values)
