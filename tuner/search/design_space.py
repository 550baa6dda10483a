"""Design spaces of one task, in a child: MetaSchedule's rules make them, candidates close their decisions.

A ladder of rule sets is climbed down until one gives spaces: MetaSchedule's rules for the CPU, then the default
schedules (untuned; outer loops in parallel), which are said to be defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tuner.search.candidates import Candidate, Decision
from tuner.search.default_schedules import default_traces
from tuner.tvm_api import IRModule, Schedule, Trace, ms, tvm

SPACE_SEED = 1  # spaces must be the same, in the same order, in every worker of a run
PARALLEL_JOBS_PER_CORE = (1, 4, 16, 64)
VECTORIZE_EXTENTS = (64, 32, 16)
NO_ANNOTATION = 0  # the instruction is left out: a tiny kernel loses more to starting threads than it gains


class IllegalCandidate(Exception):
    """The decisions give no schedule: an instruction or a postprocessor refused them."""


@dataclass(frozen=True, slots=True)
class _OpenKnob:
    """A knob and the instruction it belongs to. `values` is set for annotations, whose value is rewritten.

    The value NO_ANNOTATION drops the annotation.
    """

    index: int
    kind: str
    limit: int
    values: tuple[int, ...] | None = None


class DesignSpace:
    """All skeletons of one task. `level` is "rules" or "default"; `notes` say why a level was left.

    Asking for "default" skips the rules, as the loop does when none of their candidates came to anything.
    """

    def __init__(self, mod: IRModule, target: dict[str, Any], level: str = "rules") -> None:
        self.mod = mod
        self.target = tvm.target.Target(target)
        self.notes: list[str] = []
        self.level = level
        generator = ms.space_generator.PostOrderApply(sch_rules="llvm", postprocs="llvm", mutator_probs="llvm")
        self._context = ms.TuneContext(
            mod=mod,
            target=self.target,
            space_generator=generator,
            search_strategy="replay-trace",
            rand_state=SPACE_SEED,
            num_threads=1,
        )
        self._postprocs = list(generator.postprocs)
        self._extractor = ms.feature_extractor.PerStoreFeature()
        self._skeletons = self._generate() if level == "rules" else default_traces(mod)
        cores = int(self.target.attrs["num-cores"])
        self._knobs = [_open_knobs(trace, cores) for trace in self._skeletons]

    def knobs(self) -> list[list[dict[str, Any]]]:
        """Per skeleton, its knobs in order, as plain data (tuner/search/candidates.py)."""
        return [[{"kind": k.kind, "limit": k.limit} for k in knobs] for knobs in self._knobs]

    def replay(self, candidate: Candidate) -> tuple[Schedule, tuple[Decision, ...]]:
        """The candidate's schedule, postprocessed, and its decisions with none left open.

        Raises:
            IllegalCandidate: an instruction or a postprocessor refused the decisions.
        """
        skeleton, knobs = self._skeletons[candidate.space], self._knobs[candidate.space]
        trace, open_at = _close(skeleton, knobs, candidate)
        schedule = Schedule(self.mod, seed=candidate.seed, debug_mask="none", error_render_level="none")
        try:
            trace.apply_to_schedule(schedule, remove_postproc=True)
            decisions = _read_decisions(schedule.trace, knobs, open_at)
            if self.level == "rules":
                schedule.enter_postproc()
                for postproc in self._postprocs:
                    if not postproc.apply(schedule):
                        raise IllegalCandidate(f"{_short(postproc)} refused the schedule")
        except (tvm.s_tir.ScheduleError, RuntimeError, ValueError, TypeError, IndexError) as error:
            raise IllegalCandidate(last_line(error)) from error
        return schedule, decisions

    def features(self, schedules: list[Schedule]) -> list[Any]:
        """float32 [n_stores, 164] per schedule: MetaSchedule's per-store features."""
        candidates = [ms.MeasureCandidate(schedule, []) for schedule in schedules]
        return [array.numpy() for array in self._extractor.extract_from(self._context, candidates)]

    def _generate(self) -> list[Trace]:
        try:
            traces = [schedule.trace for schedule in self._context.generate_design_space()]
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            self.notes.append(f"MetaSchedule's rules found no design space: {last_line(error)}")
            return self._fall_back()
        if not any(self._is_usable(trace) for trace in traces):
            self.notes.append(
                "MetaSchedule's rules give no legal schedule for this workload (opaque or irregular blocks)"
            )
            return self._fall_back()
        return traces

    def _is_usable(self, trace: Trace, attempts: int = 3) -> bool:
        """Whether random decisions of this skeleton can give a schedule at all."""
        for seed in range(1, attempts + 1):
            schedule = Schedule(self.mod, seed=seed, debug_mask="none", error_render_level="none")
            try:
                Trace(trace.insts, {}).apply_to_schedule(schedule, remove_postproc=True)
                schedule.enter_postproc()
                if all(postproc.apply(schedule) for postproc in self._postprocs):
                    return True
            except (tvm.s_tir.ScheduleError, RuntimeError, ValueError, TypeError, IndexError):
                continue
        return False

    def _fall_back(self) -> list[Trace]:
        self.level = "default"
        return default_traces(self.mod)


def _open_knobs(trace: Trace, cores: int) -> list[_OpenKnob]:
    knobs = []
    for index, inst in enumerate(trace.insts):
        name = inst.kind.name
        if name == "SamplePerfectTile":
            knobs.append(_OpenKnob(index, "tile", int(inst.attrs[1])))
        elif name == "SampleCategorical":
            knobs.append(_OpenKnob(index, "choice", len(inst.attrs[0])))
        elif name == "SampleComputeLocation":
            knobs.append(_OpenKnob(index, "location", 0))
        elif name == "Annotate" and str(inst.attrs[0]) == "meta_schedule.parallel":
            values = (*(cores * jobs for jobs in PARALLEL_JOBS_PER_CORE), NO_ANNOTATION)
            knobs.append(_OpenKnob(index, "choice", len(values), values))
        elif name == "Annotate" and str(inst.attrs[0]) == "meta_schedule.vectorize":
            knobs.append(_OpenKnob(index, "choice", len(VECTORIZE_EXTENTS), VECTORIZE_EXTENTS))
    return knobs


def _close(skeleton: Trace, knobs: list[_OpenKnob], candidate: Candidate) -> tuple[Trace, tuple[Decision, ...]]:
    """The skeleton with the candidate's decisions; open annotations are drawn here, the rest by the schedule's seed."""
    insts = list(skeleton.insts)
    fixed = {}
    closed: list[Decision] = list(candidate.decisions)
    for position, (knob, decision) in enumerate(zip(knobs, candidate.decisions, strict=True)):
        inst = insts[knob.index]
        if knob.values is not None:
            # A cheap hash of the seed: the draw must repeat in every process.
            choice = decision if isinstance(decision, int) else (candidate.seed // (7 + position)) % knob.limit
            closed[position] = choice
            insts[knob.index] = _annotated(inst, knob.values[choice])
        elif decision is not None:
            fixed[inst] = list(decision) if isinstance(decision, tuple) else decision
    return Trace([inst for inst in insts if inst is not None], fixed), tuple(closed)


def _annotated(inst: Any, value: int) -> Any:
    """The annotating instruction with another value; None for NO_ANNOTATION."""
    if value == NO_ANNOTATION:
        return None
    return tvm.s_tir.schedule.Instruction(inst.kind, [inst.inputs[0], value], inst.attrs, inst.outputs)


def _read_decisions(trace: Trace, knobs: list[_OpenKnob], closed: tuple[Decision, ...]) -> tuple[Decision, ...]:
    """What the schedule really took: open decisions drawn, impossible ones moved to legal ones."""
    taken = iter([(inst, trace.decisions[inst]) for inst in trace.insts if inst in trace.decisions])
    decisions: list[Decision] = []
    for knob, decision in zip(knobs, closed, strict=True):
        if knob.values is not None:
            decisions.append(decision)
            continue
        value = next(taken)[1]
        decisions.append(tuple(int(v) for v in value) if knob.kind == "tile" else int(value))
    return tuple(decisions)


def _short(node: object) -> str:
    return str(node).rsplit(".", maxsplit=1)[-1]


def last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__
