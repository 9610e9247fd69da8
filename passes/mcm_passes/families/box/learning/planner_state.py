"""State of a planner on disk, from which a later process continues to the same result."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import QueueOrder
from mcm_compiler.diagnostics import CompileError, quote
from mcm_models import training_run
from mcm_passes.families.box.learning.planning import Plan, Progress, begin
from mcm_passes.families.box.search.annealing import Judge

STATE_NAME = "planner.safetensors"

_STATES = training_run.TrainingKind(
    ("MCM-D063", "MCM-D064"), ("", "the state of the planner is damaged")
)


class _Numbers(Struct, frozen=True):
    """What the state says of itself, and all of it that is no array."""

    devices: int
    groups: int
    ops: int
    step: str
    seed: int
    settings: dict[str, Any]
    update: int
    average: float
    evaluations: int
    best_score: float
    history: list[tuple[int, float]]
    any_fits: bool


_OF_BOX = (
    "kinds",
    "devices",
    "kind_of",
    "memory_bytes",
    "copy_bytes_per_s",
    "copy_latency_s",
    "host",
)
"""Numbers of a box that states of earlier releases have the hash of, in their order."""


def step_digest(problem: StepProblem, box: Box, order: QueueOrder) -> str:
    """SHA-256 of all that decides what a placement scores, and which ones are allowed."""
    digest = hashlib.sha256(order.encode())
    names = [field.name for field in dataclasses.fields(problem)]
    parts = [(name, getattr(problem, name)) for name in names]
    parts += [(name, getattr(box, name)) for name in _OF_BOX]
    for name, value in parts:
        if isinstance(value, np.ndarray):
            head, data = f"{value.dtype.str} {value.shape}", value.tobytes()
        else:
            head, data = "", json.dumps(value).encode()
        digest.update(f"\n{name} {head} {len(data)}\n".encode() + data)
    return digest.hexdigest()


@dataclass(frozen=True)
class StateFolder:
    """Where a planner leaves its state.

    Attributes:
        path: folder.
        kind: of planner; another one does not go on from its state.
        step: `step_digest` of what is placed; scores and placements of another step say nothing.
    """

    path: Path
    kind: str
    step: str

    @property
    def file(self) -> Path:
        """The only file."""
        return self.path / STATE_NAME

    def save(self, plan: Plan, judge: Judge, progress: Progress) -> None:
        """Writes all of it at once: a reader sees the state before or this one.

        Raises:
            CompileError: MCM-A003 and others where it cannot be written.
        """
        numbers = {
            **self._asked(plan),
            "update": progress.update,
            "average": progress.average,
            "evaluations": judge.evaluations,
            "best_score": judge.best_score,
            "history": judge.history,
            "any_fits": judge.any_fits,
        }
        self.path.mkdir(parents=True, exist_ok=True)
        curve = np.array(progress.curve, np.float64).reshape(-1, 5)
        learned = training_run.leaves_of((progress.params, progress.optimizer), digits=3)
        parts = {"learned/": learned, "best": {"": judge.best}, "curve": {"": curve}}
        training_run.save_state(self.file, numbers, parts)

    def load(self, plan: Plan, judge: Judge) -> Progress | None:
        """What an earlier process left, or None where there is nothing yet.

        Raises:
            CompileError: MCM-D063 for a state of another box, graph or recipe, MCM-D064 for a
                damaged one.
        """
        if not self.file.exists():
            return None
        fresh = begin(plan)
        learned = (fresh.params, fresh.optimizer)
        like: dict[str, training_run.Arrays | None] = {
            "learned/": training_run.leaves_of(learned, digits=3),
            "best": {"": np.empty(plan.problem.num_ops, np.int32)},
            "curve": None,
        }
        numbers, parts = _STATES.load(self.file, _Numbers, like, lambda n: self._check(plan, n))
        if not parts["curve"]:
            raise _STATES.refusal("it has no curve", self.file)
        judge.evaluations, judge.best_score = numbers.evaluations, numbers.best_score
        judge.best, judge.history = parts["best"][""], list(numbers.history)
        judge.any_fits = numbers.any_fits
        params, optimizer = training_run.with_leaves(learned, parts["learned/"], digits=3)
        curve = [tuple(row) for row in parts["curve"][""].tolist()]
        return Progress(params, optimizer, numbers.update, numbers.average, curve)

    def _asked(self, plan: Plan) -> dict[str, Any]:
        settings = dataclasses.asdict(plan.settings)
        # JSON has no infinity.
        settings = {name: str(value) for name, value in settings.items()}
        return {
            "devices": plan.layout.devices,
            "groups": plan.layout.groups,
            "ops": plan.problem.num_ops,
            "step": self.step,
            "seed": plan.seed,
            "settings": {**settings, "kind": self.kind, "hidden": str(plan.layout.hidden)},
        }

    def _check(self, plan: Plan, numbers: _Numbers) -> str:
        """No fault of the file; a state of something else is refused.

        Raises:
            CompileError: MCM-D063.
        """
        for name, asked in self._asked(plan).items():
            found = getattr(numbers, name)
            if found != asked:
                words = f"{found} {name}, not {asked}"
                if name == "settings":
                    words = "other settings"
                elif name == "step":
                    words = "another model, box or order, or of other pins, times or sizes"
                elif name == "seed":
                    words = f"seed {found}, not {asked}"
                raise CompileError.of(
                    "MCM-D063", f"the state of the planner is of {words}", at=quote(str(self.file))
                )
        return ""
