"""Everything that is measured, the most wanted first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from partition_cases.cases import Cases, CaseSpec
from partition_cases.cells import (
    LEVEL,
    LONG_LEVEL,
    PORTFOLIO,
    STEADY,
    members,
    run_placement,
    run_strategy,
)
from partition_cases.isolation import Job, Record
from partition_cases.packages import LONG, STRICT
from partition_cases.tightness import find_tightness

from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.requests import Rule
from mcm_compiler.text import spec_text

TIGHTNESS_LIMIT_S = 1800.0
CELL_LIMIT_S = 600.0

RULES: tuple[Rule, ...] = ("none", "relay", "strict")


@dataclass(frozen=True, eq=False)
class Plan:
    """What is measured.

    Attributes:
        models: source of each model by its name.
        strategies: texts of the strategies.
        seeds: of those that draw random numbers; the first is that of all others.
        budget_s: wall time of the search with the evaluator in the loop; 0 to leave it out.
        placements: files of placement problems.
        cases: what was built last.
    """

    models: Mapping[str, str]
    strategies: Sequence[str]
    seeds: Sequence[int]
    budget_s: float
    placements: Sequence[Path]
    cases: Cases = field(default_factory=Cases)

    def tightness(self) -> list[Job]:
        """How tight packages may be; the cases follow from the answers."""
        return [
            Job(
                key=f"tightness {model}",
                head={"kind": "tightness", "model": model},
                limit_s=TIGHTNESS_LIMIT_S,
                work=partial(find_tightness, model, source),
            )
            for model, source in self.models.items()
        ]

    def specs(self, tightness: Mapping[str, Record]) -> list[CaseSpec]:
        """The cases: roomy, under the triangle rule where it is tried, tight.

        Args:
            tightness: records of `tightness`, by model.
        """
        specs: list[CaseSpec] = []
        for model, source in self.models.items():
            specs.append(CaseSpec(model, source, "roomy", "relay"))
            if model in STRICT:
                specs.append(CaseSpec(model, source, "roomy", "strict"))
            tight = tightness.get(model, {})
            packages: list[Any] = []
            for kind in ("tight", "tight36"):
                found = tight.get("most_chips" if kind == "tight" else "least_factor")
                if found is None or found["verdict"] != "fits" or found in packages:
                    continue
                packages.append(found)
                size = (found["chips"], found["sram_mib"])
                specs.append(CaseSpec(model, source, kind, "relay", *size))
        return specs

    def cells(self, specs: Sequence[CaseSpec]) -> list[Job]:
        """All else, the most wanted first.

        The first seed comes before the others, `tight36` after what the bars ask for, and of the
        other seeds the portfolio and its members come first.
        """
        first = [spec for spec in specs if spec.kind != "tight36"]
        others = [spec for spec in specs if spec.kind == "tight36"]
        jobs = [self._case_job(spec) for spec in specs]
        for part in (first, others):
            jobs += [job for spec in part for job in self._strategy_jobs(spec, self.seeds[:1])]
            jobs += [job for spec in part for job in self._long_jobs(spec)]
            if part is first:
                jobs += self._placement_jobs()
        more = [job for spec in specs for job in self._strategy_jobs(spec, self.seeds[1:])]
        raced = {PORTFOLIO, *members(PORTFOLIO)}
        return jobs + sorted(more, key=lambda job: job.head["strategy"] not in raced)

    def _case_job(self, spec: CaseSpec) -> Job:
        return Job(
            key=f"case {spec.key}",
            head=asdict(spec) | {"kind": "case", "case": spec.key, "package": spec.kind},
            limit_s=CELL_LIMIT_S,
            work=lambda: self.cases.get(spec).facts(),
            prepare=lambda: self.cases.get(spec),
        )

    def _strategy_jobs(self, spec: CaseSpec, seeds: Sequence[int]) -> Iterator[Job]:
        for seed in seeds:
            for text in self.strategies:
                if text not in STEADY or seed == self.seeds[0]:
                    yield self._job(spec, text, seed, LEVEL, None)

    def _long_jobs(self, spec: CaseSpec) -> Iterator[Job]:
        if self.budget_s and (spec.model, spec.kind) in LONG and spec.routing == "relay":
            text = load_level(LONG_LEVEL).strategy
            yield self._job(spec, text, self.seeds[0], LONG_LEVEL, self.budget_s)

    def _job(self, spec: CaseSpec, text: str, seed: int, level: int, budget_s: float | None) -> Job:
        limit = "" if budget_s is None else f" {budget_s:g} s"
        # The long search is the same cell, whatever its members are.
        name = text if level == LEVEL else spec_text.parse_one(text).name
        return Job(
            key=f"strategy {spec.key} -O{level}{limit} {name} {seed}",
            head={
                "kind": "strategy",
                "case": spec.key,
                "strategy": text,
                "seed": seed,
                "level": level,
                "budget_s": budget_s,
            },
            limit_s=CELL_LIMIT_S + 2.0 * (budget_s or 0.0),
            work=lambda: run_strategy(self.cases.get(spec), text, seed, level, budget_s),
            prepare=lambda: self.cases.get(spec),
        )

    def _placement_jobs(self) -> Iterator[Job]:
        for path in self.placements:
            for rule in RULES:
                for text in (None, *(self.strategies if rule == "none" else ())):
                    yield Job(
                        key=f"placement {path.stem} {rule} {text or 'own'} {self.seeds[0]}",
                        head={
                            "kind": "placement",
                            "input": path.stem,
                            "rule": rule,
                            "strategy": text,
                            "seed": self.seeds[0],
                        },
                        limit_s=CELL_LIMIT_S,
                        work=partial(run_placement, path, rule, text, self.seeds[0]),
                    )
