"""The portfolio: several placers in turn, each from the best placement so far."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from mcm_compiler.contracts.boxes import placers
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import PLACERS
from mcm_compiler.text import spec_text
from mcm_compiler.text.option_ranges import with_options
from mcm_passes.families.box.placers.local_search import LocalSearch, RobustScore


@dataclass(frozen=True)
class Portfolio(RobustScore):
    """Runs its members and keeps the best placement, under one score for all.

    Evaluations that are left are shared equally between the members still to come. Each member
    that searches starts from the best placement so far, and `local_search` without options of its
    own searches by the same score.

    Attributes:
        members: placers, in the order in which they run; at least 1.
    """

    name: ClassVar[str] = "portfolio"
    summary: ClassVar[str] = "several placers in turn, each from the best so far"
    searches: ClassVar[bool] = True

    members: tuple[str, ...] = ("single", "local_search")

    def place(self, request: placers.PlacerRequest) -> placers.PlacerAnswer:
        """Runs the members until the evaluations are spent.

        Raises:
            CompileError: MCM-D053 for members that are none; what members raise.
        """
        members = [self._member(text) for text in self.members]
        if not members:
            raise _no_member("the option names no placer")
        judge = self.judge(request)
        best, methods = request.start, [""]
        if best is not None:
            judge.score(best)
        for k, placer in enumerate(members):
            # What is kept back is for judging the answer.
            left = (judge.left - len(judge.evaluators)) // (len(members) - k)
            if len(judge.best) and (left < 1 or not judge.may_ask):
                break
            seconds = judge.ends_at - time.perf_counter()
            rest = dataclasses.replace(
                request,
                evaluations=max(left, 1),
                # A copy: what the judge keeps is nobody's to change.
                start=None if best is None else best.copy(),
                budget_s=max(seconds, 0.0) if np.isfinite(seconds) else None,
            )
            text = self.members[k]
            answer = placers.placer_answer(text, placer, rest)
            judge.spend(answer.evaluations)
            known = judge.best_score
            with PLACERS.at_work(spec_text.parse_one(text).name):
                better = judge.score(answer.device_of) < known
            if better:
                methods.append(f"{placer.name}: {answer.method}")
            best = judge.best
        return judge.answer(methods[-1] or "as given", ("conditions", float(len(judge.evaluators))))

    def _member(self, text: str) -> placers.Placer:
        spec = spec_text.parse_one(text)
        if spec.name == self.name:
            raise _no_member("the portfolio is no member of itself")
        if spec.name == LocalSearch.name and not spec.options:
            return cast("placers.Placer", with_options(LocalSearch(), self))
        return placers.placer_of(text)


def _no_member(message: str) -> CompileError:
    return CompileError.of("MCM-D053", message, at="placer portfolio, option members")
