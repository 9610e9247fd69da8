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

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import QueueOrder
from mcm_compiler.diagnostics import CompileError, quote
from mcm_models.cards import read_with_card, save_with_card
from mcm_passes.families.box.learning.planning import Plan, Progress, begin
from mcm_passes.families.box.search.annealing import Judge

STATE_NAME = "planner.safetensors"


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


def step_digest(problem: StepProblem, box: Box, order: QueueOrder) -> str:
    """SHA-256 of all that decides what a placement scores, and which ones are allowed."""
    digest = hashlib.sha256(order.encode())
    for described in (problem, box):
        for field in dataclasses.fields(described):
            value = getattr(described, field.name)
            if isinstance(value, np.ndarray):
                head, data = f"{value.dtype.str} {value.shape}", value.tobytes()
            else:
                head, data = "", json.dumps(value).encode()
            digest.update(f"\n{field.name} {head} {len(data)}\n".encode() + data)
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
        import jax

        leaves = jax.tree.leaves((progress.params, progress.optimizer))
        arrays = {f"learned/{n:03}": np.asarray(leaf) for n, leaf in enumerate(leaves)}
        arrays["best"] = judge.best
        arrays["curve"] = np.array(progress.curve, np.float64).reshape(-1, 5)
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
        save_with_card(self.file, arrays, json.dumps(numbers, sort_keys=True), lasting=True)

    def load(self, plan: Plan, judge: Judge) -> Progress | None:
        """What an earlier process left, or None where there is nothing yet.

        Raises:
            CompileError: MCM-D063 for a state of another box, graph or recipe, MCM-D064 for a
                damaged one.
        """
        import jax

        if not self.file.exists():
            return None
        fresh = begin(plan)
        leaves, shape = jax.tree.flatten((fresh.params, fresh.optimizer))
        try:
            numbers, arrays = read_with_card(self.file, _Numbers)
            self._check(plan, numbers)
            found = [arrays[f"learned/{n:03}"] for n in range(len(leaves))]
            if any(one.shape != other.shape for one, other in zip(found, leaves, strict=True)):
                raise ValueError("its arrays have other shapes")
            best: Ints = arrays["best"]
            if best.shape != (plan.problem.num_ops,) or best.dtype.kind != "i":
                raise ValueError("its best placement is none of this model")
            curve = [tuple(row) for row in arrays["curve"].tolist()]
        except (OSError, ValueError, KeyError) as error:
            raise CompileError.of(
                "MCM-D064",
                f"the state of the planner is damaged: {quote(str(error))}",
                at=quote(str(self.file)),
            ) from error
        judge.evaluations, judge.best_score = numbers.evaluations, numbers.best_score
        judge.best, judge.history = best, list(numbers.history)
        judge.any_fits = numbers.any_fits
        params, optimizer = jax.tree.unflatten(shape, [jax.numpy.asarray(one) for one in found])
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

    def _check(self, plan: Plan, numbers: _Numbers) -> None:
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
