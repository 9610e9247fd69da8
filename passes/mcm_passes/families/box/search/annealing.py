"""Simulated annealing over devices of units, and the scores of placements.

It shares no moves with the search on packages. There a move changes the loads of the affected chips
alone; here any unit may go to any device, and only a simulation shows the time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints, Longs
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator, StepResults
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.diagnostics import CompileError, quote
from mcm_passes.families.box.search.units import Fallbacks, Units

LONGEST_RUN = 8
"""Parts of a cluster that one move takes along, at most."""


@dataclass(frozen=True)
class Cooling:
    """How a walk cools down.

    Attributes:
        evaluations: of the walk, at most.
        hot: temperature at its begin, as a share of the score.
        cold: at its end; between them geometric.
    """

    evaluations: int
    hot: float = 0.01
    cold: float = 2e-4


def anneal(
    units: Units,
    start: Ints,
    ways: Fallbacks,
    speeds: Floats,
    judge: Judge,
    rng: np.random.Generator,
    cooling: Cooling,
) -> Ints:
    """Walks from a start; the evaluator remembers the best.

    Kirkpatrick, Gelatt and Vecchi 1983, *Optimization by Simulated Annealing*. Moves are our own:
    a unit, a run of parts of its cluster, or it and a neighbour go to another device, preferably
    one of a neighbour; or two units swap.

    Args:
        units: what moves.
        start: `[U]`, devices.
        ways: of ops that may not follow.
        speeds: `[D]`, how fast devices are; slow ones are proposed rarely.
        judge: of placements.
        rng: draws moves.
        cooling: see there.

    Returns:
        `[U]`, devices of the best placement of this walk.
    """
    devices = start.astype(np.int32)
    begin = judge.evaluations
    current = judge.score(ways.placement(devices[units.of_op]))
    best, best_devices = current, devices.copy()
    if not len(units.movable) or len(speeds) < 2:
        return best_devices
    moves = Moves(units, speeds, rng)
    while judge.may_ask and judge.evaluations - begin < cooling.evaluations:
        changed = moves.draw(devices)
        if changed is None:
            if moves.exhausted:
                break
            continue
        share = (judge.evaluations - begin) / cooling.evaluations
        heat = cooling.hot * (cooling.cold / cooling.hot) ** share
        worth = current * (1.0 - heat * np.log(max(rng.random(), 1e-12)))
        before = devices[changed[0]].copy()
        devices[changed[0]] = changed[1]
        score = judge.score(ways.placement(devices[units.of_op]), worth)
        if score <= worth:
            current = score
            if score < best:
                best, best_devices = score, devices.copy()
        else:
            devices[changed[0]] = before
    return best_devices


_MOST_IDLE = 1000
"""Moves in a row that would change nothing, after which there are none."""


class Moves:
    """Draws moves: which units get which devices.

    Args:
        units: what moves; one that may.
        speeds: `[D]`, how fast devices are; slow ones are proposed rarely.
        rng: draws.
    """

    def __init__(self, units: Units, speeds: Floats, rng: np.random.Generator) -> None:
        self._units, self._rng = units, rng
        self._chances = np.cumsum(speeds / speeds.sum())
        self._idle = 0
        graph = units.neighbours
        # Many small values are as telling as few large ones: roots of bytes are the chances.
        self._sums = np.concatenate([[0.0], np.cumsum(np.sqrt(graph.weight) + 1e-9)])

    @property
    def exhausted(self) -> bool:
        """True if no move seems to change anything."""
        return self._idle > _MOST_IDLE

    def draw(self, devices: Ints) -> tuple[Longs, Ints] | None:
        """Units and their new devices; None for a move that changes nothing or is not allowed."""
        units, rng = self._units, self._rng
        kind = rng.random()
        u = int(units.movable[rng.integers(len(units.movable))])
        moved = np.array([u], np.int64)
        if kind < 0.15:
            other = int(units.movable[rng.integers(len(units.movable))])
            moved = np.array([u, other], np.int64)
            wanted = devices[[other, u]]
        else:
            if kind < 0.5:
                moved = self._run(u, kind < 0.25)
            elif kind < 0.6:
                other = self._neighbour(u)
                if other >= 0 and devices[other] == devices[u]:
                    moved = np.array([u, other], np.int64)
            wanted = np.full(len(moved), self._device(u, devices), np.int32)
        fits = units.may[moved, wanted]
        moved, wanted = moved[fits], wanted[fits]
        if not len(moved) or (devices[moved] == wanted).all():
            self._idle += 1
            return None
        self._idle = 0
        return moved, wanted

    def _run(self, u: int, whole: bool) -> Longs:
        cluster = self._units.cluster
        low = int(np.searchsorted(cluster, cluster[u], "left"))
        high = int(np.searchsorted(cluster, cluster[u], "right"))
        if not whole:
            length = int(self._rng.integers(1, LONGEST_RUN + 1))
            low = max(low, u - int(self._rng.integers(length)))
            high = min(high, low + length)
        return np.arange(low, high)

    def _neighbour(self, u: int) -> int:
        graph = self._units.neighbours
        low, high = self._sums[graph.begin[u]], self._sums[graph.begin[u + 1]]
        if low == high:
            return -1
        at = int(np.searchsorted(self._sums, low + self._rng.random() * (high - low), "right")) - 1
        return int(graph.other[min(at, int(graph.begin[u + 1]) - 1)])

    def _device(self, u: int, devices: Ints) -> int:
        other = self._neighbour(u) if self._rng.random() < 0.4 else -1
        if other >= 0:
            return int(devices[other])
        drawn = int(np.searchsorted(self._chances, self._rng.random(), "right"))
        return min(drawn, len(self._chances) - 1)


SLACK = 0.01
"""How much worse than still acceptable a placement may look under the first conditions before the
others are not asked any more."""


@dataclass(eq=False)
class Judge:
    """Scores placements under one or several conditions.

    With several, the score is between a weighted geometric mean over all of them and the worst
    of them. In the mean a percent counts by the weight alone, although the same step may take half
    as long in another order of queues; the worst is found by times over references. Each
    simulation counts as an evaluation.

    Attributes:
        evaluators: of one problem, under different conditions.
        left: evaluations that may still be asked for.
        ends_at: of `time.perf_counter`, when nothing is asked any more.
        weights: `[conditions]` above 0, of scores; empty for equal ones.
        references: `[conditions]` above 0, scores that are equally good; empty where `worst` is 0.
        worst: share of the worst score over its reference, from 0, which is the mean alone, to 1;
            of logarithms.
        evaluations: asked for.
        best: `[N]`, the placement with the best score; empty before the first.
        best_score: infinite before the first.
        best_parts: `[conditions]`, its scores under each.
        history: evaluations and the best score by then, where it fell.
    """

    evaluators: Sequence[StepEvaluator]
    left: int
    ends_at: float = np.inf
    weights: Floats = field(default_factory=lambda: np.empty(0))
    references: Floats = field(default_factory=lambda: np.empty(0))
    worst: float = 0.0
    evaluations: int = 0
    best: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    best_score: float = np.inf
    best_parts: Floats = field(default_factory=lambda: np.empty(0))
    history: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])

    @property
    def may_ask(self) -> bool:
        """True if evaluations and time are left for one more placement."""
        return self.left >= len(self.evaluators) and time.perf_counter() < self.ends_at

    def score(self, placement: Ints, worth: float = np.inf) -> float:
        """The score of a placement `[N]`; infinite where it is given up early.

        Args:
            placement: see `StepEvaluator`.
            worth: scores above this interest nobody.
        """
        parts = np.full(len(self.evaluators), np.nan)
        order = self._most_telling_first()
        for k, condition in enumerate(order):
            evaluator = self.evaluators[condition]
            parts[condition] = float(evaluator.evaluate(placement[None]).score[0])
            self.left -= 1
            self.evaluations += 1
            if k + 1 < len(parts) and self._hopeless(parts, order[: k + 1], worth):
                return np.inf
        whole = self._whole(parts)
        self._keep(placement, whole, parts)
        return whole

    def results(self, placements: Ints) -> StepResults:
        """Results of a batch of placements `[K, N]` under the first conditions.

        Raises:
            CompileError: MCM-D060 for scores that are no positive numbers.
        """
        evaluator = self.evaluators[0]
        results = evaluator.evaluate(placements)
        scores = results.score
        wrong = int(len(scores) - (np.isfinite(scores) & (scores >= 0.0)).sum())
        if wrong:
            raise CompileError.of(
                "MCM-D060",
                f"{wrong} of {len(scores)} scores are no numbers from 0 up",
                at=f"evaluator {quote(evaluator.name)}",
            )
        for placement, score in zip(placements, scores.tolist(), strict=True):
            self.spend(1)
            self._keep(placement, score, np.array([score]))
        return results

    def _keep(self, placement: Ints, score: float, parts: Floats) -> None:
        """Remembers a placement that is better than all before."""
        if score < self.best_score:
            self.best, self.best_score, self.best_parts = placement.copy(), score, parts
            self.history.append((self.evaluations, score))

    def spend(self, evaluations: int) -> None:
        """Counts evaluations that others asked for."""
        self.left -= evaluations
        self.evaluations += evaluations

    def _most_telling_first(self) -> list[int]:
        """Conditions; where the worst counts, it is the first to be asked for."""
        if self.worst == 0.0 or not len(self.best_parts):
            return list(range(len(self.evaluators)))
        return np.argsort(-self.best_parts / self.references, kind="stable").tolist()

    def _hopeless(self, parts: Floats, known: list[int], worth: float) -> bool:
        if not len(self.best_parts):
            return False
        if self.worst > 0.0:
            # The others may turn out better than those of the best placement, but not by much.
            hoped = self.best_parts * (1.0 - SLACK)
            hoped[known] = parts[known]
            return self._whole(hoped) > worth
        # The best placement tells how scores under the first conditions compare with the mean.
        usual = self._mean(self.best_parts[: len(known)]) / max(self.best_score, 1e-300)
        return self._mean(parts[: len(known)]) > worth * usual * (1.0 + SLACK)

    def _whole(self, parts: Floats) -> float:
        """The score from those under all conditions."""
        mean = self._mean(parts)
        if self.worst == 0.0 or len(parts) == 1:
            return mean
        over = parts / self.references
        # Moved to where the mean is, so that it is a time like that.
        worst = float(over.max()) * self._mean(self.references)
        return mean ** (1.0 - self.worst) * worst**self.worst

    def _mean(self, parts: Floats) -> float:
        """Of the first scores; a step without work takes no time."""
        if len(parts) == 1:
            return float(parts[0])
        weights = self.weights[: len(parts)] if len(self.weights) else None
        logarithms = np.log(np.maximum(parts, 1e-300))
        return float(np.exp(np.average(logarithms, weights=weights)))

    def answer(self, method: str, *figures: tuple[str, float]) -> PlacerAnswer:
        """The best placement as a placer's answer."""
        return PlacerAnswer(self.best, method, self.evaluations, tuple(self.history), figures)


def judge_of(request: PlacerRequest, *evaluators: StepEvaluator) -> Judge:
    """Scores of placements within the limits of a request, from now on.

    Args:
        request: see there.
        evaluators: of its problem under several conditions; its own alone where there are none.
    """
    ends = np.inf if request.budget_s is None else time.perf_counter() + request.budget_s
    return Judge(evaluators or (request.evaluator,), request.evaluations, ends)
