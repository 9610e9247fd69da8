"""Check whether a certificate is about the folder it is in."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, cast

import numpy as np

from mcm_compiler.artifact import layout
from mcm_compiler.certificate.bound_check import not_re_proved
from mcm_compiler.certificate.claims import Certificate, ClaimScope
from mcm_compiler.certificate.joined import JoinedModel, differs, join
from mcm_compiler.certificate.stored_problem import LATER_LIMITS
from mcm_compiler.checking import groups_check, lowered_figures
from mcm_compiler.checking.entry.gate import OpenedFolder
from mcm_compiler.components.capabilities import batch_evaluation_of
from mcm_compiler.contracts.evaluation import BatchEvaluator, ResultKind
from mcm_compiler.contracts.partition import Floats, Ints, LearnedGain, PartitionProblem
from mcm_compiler.contracts.proofs import LowersPlacements, PricesEnergy, ProblemModel
from mcm_compiler.contracts.replication import COPIED_FOR, CopiedFor, PipelineCount
from mcm_compiler.contracts.target import PackageLimits, Target, machine_of
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.equivalence.round_classes import ends_of
from mcm_compiler.graph.states import STATES, States
from mcm_compiler.machines.machine import same_machine
from mcm_compiler.machines.machine_builder import equal_shares
from mcm_compiler.registry import PROBLEM_MODELS
from mcm_compiler.text.units import count_text, seconds_text

CLAIMED_FIGURES = ("analytic_period_s", "lower_bound_s", "bound_argument", "gap", "analytic_gap")
"""Figures of the report that a certificate stands for."""


def check_certificate(folder: OpenedFolder, certificate: Certificate) -> str:
    """Derives problem and period again from the chips' models and compares.

    Returns:
        A summary.

    Raises:
        CompileError: MCM-V070 for the first field that differs, MCM-U003 for a model of problems
            that is not installed.
    """
    manifest, target = folder.manifest, folder.target
    model = cast("ProblemModel", PROBLEM_MODELS.get(certificate.problem_model))
    _check_scope(folder, certificate)
    source = ends_of(folder.source, manifest.round)
    joined = join(folder.chips, manifest.run_wires, source, certificate)
    pairs = tuple(pair for chip in folder.chips for pair in chip.states)
    if pairs:
        STATES.set(joined.model, States(pairs, manifest.states.reserved))
    for one in groups_check.known_passes(manifest.pipeline) or ():
        one.state_choices(joined.model)
    copied_for = COPIED_FOR.find(joined.model) or CopiedFor()
    COPIED_FOR.set(joined.model, copied_for._replace(classes=manifest.round))
    pins = certificate.pins
    with PROBLEM_MODELS.at_work(certificate.problem_model):
        derived = model.problem(joined.model, target, manifest.routing, joined.plan, pins)
        if certificate.problem.energy is not None and isinstance(model, PricesEnergy):
            derived = model.with_energy(derived, joined.model, target, joined.plan)
    if certificate.schema_version == 1:
        # Periods of that release count no copies: its analytic model leaves them out.
        derived = dataclasses.replace(derived, copies=None)
    limits = target.limits.first(certificate.scope.devices_each, certificate.scope.pipelines)
    stated = _limits_of_version(certificate, limits)
    _compare(certificate.problem, dataclasses.replace(derived, limits=stated))
    _check_placement(certificate, joined)
    with PROBLEM_MODELS.at_work(certificate.problem_model):
        period_s = float(model.period_s(certificate.problem, certificate.placement))
    if not math.isclose(period_s, certificate.period_s, rel_tol=MARGIN):
        raise differs(
            f"its placement takes {period_s!r} s, it says {certificate.period_s!r} s", "placement"
        )
    if certificate.cost_model != (name := target.cost_model().name):
        raise differs(
            f"its cost model is {quote(certificate.cost_model)}, that of the target {quote(name)}",
            "cost_model",
        )
    groups = {group.name: group.nodes for group in joined.plan.groups}
    groups_check.check_groups(joined.model, groups, manifest.pipeline, target)
    with PROBLEM_MODELS.at_work(certificate.problem_model, model):
        check_other_placements(certificate, derived, joined, target, model)
    units = count_text(certificate.problem.num_units, "op group")
    per = "a replica" if manifest.round == 1 else f"a round of {manifest.round} inferences"
    matched = f"matches the chip models ({units}), {seconds_text(period_s)} {per} (analytic)"
    machine, compared = machine_of(target), ""
    if layout.PROGRAM in manifest.files:
        own = dataclasses.replace(certificate.problem, limits=limits)
        today = dataclasses.replace(certificate, problem=own)
        compared = lowered_figures.check_lowered(folder.program, machine, today)
    return f"{matched}; {compared} as lowered" if compared else matched


def not_simulated_again(certificate: Certificate) -> Diagnostic | None:
    """MCM-V072 for simulated seconds of version 1: the simulator of its release gave others."""
    learned = certificate.learned is not None and certificate.learned.simulated
    simulated = learned or any(one.simulated_s is not None for one in certificate.considered)
    if certificate.schema_version > 1 or not simulated:
        return None
    return not_re_proved(
        "an earlier release wrote the certificate, with another simulator",
        "what is simulated of other placements",
        hint="re-run `mcmc compile` to have them simulated by this release",
        at="considered and learned in certificate.json",
    )


def refuse_unproven(report: Mapping[str, Any]) -> str:
    """Where a folder has no certificate, its report may claim nothing.

    Raises:
        CompileError: MCM-A020 if it does.
    """
    claimed = [name for name in CLAIMED_FIGURES if report.get(name) is not None]
    if claimed:
        raise CompileError.of(
            "MCM-A020",
            f"there is no certificate, and the report has a {claimed[0]}",
            at=layout.CERTIFICATE,
        )
    return "nothing was placed, and nothing is claimed"


def _check_scope(folder: OpenedFolder, certificate: Certificate) -> None:
    scope, manifest = certificate.scope, folder.manifest
    have = folder.target.limits.num_chips
    each = manifest.chips_each or have
    wanted = {"pipelines": manifest.replicas, "devices_each": each, "round": manifest.round}
    for name, number in wanted.items():
        if getattr(scope, name) != number:
            said = getattr(scope, name)
            raise differs(f"scope.{name} is {said}, the manifest has {number}", "scope")
    if scope.devices > have or scope.devices // scope.pipelines != each:
        raise differs(
            f"{scope.pipelines} pipelines of {each} chips are no equal shares of {scope.devices} "
            f"of {have}",
            "scope",
        )
    if certificate.problem.num_chips != each:
        found = certificate.problem.num_chips
        raise differs(f"its problem has {found} devices, each pipeline {each}", "machine.devices")


def _compare(said: PartitionProblem, derived: PartitionProblem) -> None:
    """Compares all fields of two problems; the units of both stand in one order."""
    fields = [field.name for field in dataclasses.fields(PartitionProblem)]
    # Names first, so that what is missing is told before what that changes.
    fields.sort(key=lambda name: (name != "members", not name.endswith("names")))
    for field in fields:
        ours, theirs = getattr(derived, field), getattr(said, field)
        if isinstance(ours, PackageLimits):
            _compare_limits(theirs, ours)
        elif field in _WHOLE:
            alike, fault, place = _WHOLE[field]
            missing = theirs is None or ours is None
            if theirs is not ours and (missing or not alike(theirs, ours)):
                raise differs(fault, place)
        elif isinstance(ours, np.ndarray):
            if not np.array_equal(ours, theirs):
                raise differs(*_first_difference(field, ours, theirs, derived))
        elif ours != theirs:
            row = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), 0)
            if isinstance(ours, str):
                raise differs(f"{field} is {quote(theirs)}, not {quote(ours)}", field)
            raise differs(
                f"{field} has {len(theirs)} entries, the models give {len(ours)}; number {row} is "
                f"the first to differ",
                field,
            )


def _limits_of_version(certificate: Certificate, limits: PackageLimits) -> PackageLimits:
    """The limits that a certificate has to state about a share of the target.

    The release that wrote version 1 has no delays of single links or of channels to the host, and
    none at all in the limits of a machine. What it proved without them holds: periods do not
    depend on delays, and a latency only grows with them. The latency of a placement is derived
    with all delays in the check of its program.

    Raises:
        CompileError: MCM-V070 where the release did not know something that shortens latencies.
    """
    if certificate.schema_version > 1:
        return limits
    known = dict(LATER_LIMITS)
    if not certificate.problem.on_ring:
        known["hop_latency_s"] = 0.0
    said = certificate.problem.limits
    omitted = {field: v for field, v in known.items() if getattr(said, field) == v}
    if limits.cut_through and "cut_through" in omitted and certificate.figures is not None:
        raise differs(
            "the release that wrote it has longer latencies on links that cut through", "objective"
        )
    return dataclasses.replace(limits, **omitted)


def _compare_limits(said: PackageLimits, derived: PackageLimits) -> None:
    for field in dataclasses.fields(PackageLimits):
        ours, theirs = getattr(derived, field.name), getattr(said, field.name)
        if ours != theirs:
            raise differs(f"{field.name} is {theirs}, the target has {ours}", "machine")


def _same_arrays(one: Any, other: Any) -> bool:
    """True if two records have the same numbers; any prices prove what they prove."""
    names = [field.name for field in dataclasses.fields(one) if field.name != "price"]
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


_WHOLE: dict[str, tuple[Callable[[Any, Any], bool], str, str]] = {
    "given_machine": (same_machine, "its machine is not that of the target", "machine"),
    "energy": (
        _same_arrays,
        "its energies are not those of the models on the target",
        "unit.energy_j",
    ),
    "kinds": (
        _same_arrays,
        "its times on kinds of chips are not those of the models on the target",
        "kind.unit_s",
    ),
    "copies": (
        _same_arrays,
        "its copies of views are not those of the models on the target",
        "view.copy_s",
    ),
    "deviation_s": (
        np.array_equal,
        "its errors of times are not those that the cost model of the target states",
        "unit.deviation_s",
    ),
}
"""Records that differ as a whole: what compares two, the fault, and where it is in the file."""


def _first_difference(
    field: str, ours: Any, theirs: Any, derived: PartitionProblem
) -> tuple[str, str]:
    if ours.shape != theirs.shape:
        return f"{field} has {theirs.size} entries, the models give {ours.size}", field
    row = int(np.flatnonzero(ours != theirs)[0])
    tensors = derived.tensor_names
    known = {"tensor": tensors, "relay": tensors, "weight": derived.weight_names}
    names = known.get(field.split("_", maxsplit=1)[0], derived.names)
    place = f" of {quote(names[row])}" if len(names) == ours.size else f"[{row}]"
    return f"{field}{place} is {theirs[row]}, the models give {ours[row]}", field


def _check_placement(certificate: Certificate, joined: JoinedModel) -> None:
    problem = certificate.problem
    clonable = problem.clonable.tolist()
    for unit, device in enumerate(certificate.placement.tolist()):
        for name in problem.members[unit]:
            found = joined.devices.get(name, ())
            if not found or found[0] != device or (len(found) > 1 and not clonable[unit]):
                raise differs(
                    f"{quote(name)} is on {', '.join(map(str, found)) or 'no chip'}, its placement "
                    f"says {device}",
                    "placement.device",
                )


MARGIN = 1e-9
"""Relative tolerance of sums that are taken in another order."""


def check_other_placements(
    certificate: Certificate,
    problem: PartitionProblem,
    joined: JoinedModel,
    target: Target,
    model: ProblemModel,
) -> None:
    """Derives the seconds of each placement that was looked at, and what learning added.

    Args:
        certificate: of the folder; its problem holds.
        problem: of one pipeline on all devices of the package.
        joined: the model that it follows from.
        target: the package.
        model: says what a placement costs.

    Raises:
        CompileError: MCM-V070 for the first figure that differs.
    """
    work = _Work(problem, joined, target, model)
    shares = [(one.replicas, one.chips_each) for one in certificate.considered]
    if shares and shares != equal_shares(certificate.scope.devices, certificate.problem.machine):
        raise differs(
            f"it lists {len(shares)} numbers of pipelines, and not all equal shares of "
            f"{certificate.scope.devices} devices once, fewest pipelines first",
            "considered",
        )
    # `not_simulated_again` has the rest.
    again = certificate.schema_version > 1
    for index, one in enumerate(certificate.considered):
        work.check_count(
            f"considered[{index}]", one if again else dataclasses.replace(one, simulated_s=None)
        )
    if certificate.learned is not None and (again or not certificate.learned.simulated):
        work.check_learned(certificate.learned, certificate.scope)


@dataclasses.dataclass(frozen=True, eq=False)
class _Work:
    problem: PartitionProblem
    joined: JoinedModel
    target: Target
    model: ProblemModel

    @cached_property
    def _simulator(self) -> BatchEvaluator | None:
        """The simulator of the package for many placements, where the target has one."""
        evaluation, joined = batch_evaluation_of(self.target), self.joined
        if evaluation is None:
            return None
        return evaluation.batch_evaluator(joined.model, self.problem, joined.plan.group_names)

    def _on(self, devices: int, pipelines: int) -> PartitionProblem:
        """The problem of one replica, on its share of the package."""
        limits = self.target.limits.first(devices, pipelines)
        return dataclasses.replace(self.problem, limits=limits)

    def _periods(
        self, placements: Ints, place: str, pipelines: int, share: PartitionProblem
    ) -> Floats:
        """Seconds between inferences of each of N pipelines on shares of the package, `[R]`.

        Infinite where a placement does not run.
        """
        made, joined = self._simulator, self.joined
        if made is None and isinstance(self.model, LowersPlacements):
            asked = joined.model, share, self.target, joined.plan, pipelines
            made = self.model.lowering_evaluator(*asked)
        if made is None:
            raise differs("the target simulates no placements, and some were", place)
        found = made.evaluate(placements)
        runs = found.kind == ResultKind.RUNS
        return np.where(runs, found.periods_of(pipelines), np.inf)

    def check_count(self, place: str, one: PipelineCount) -> None:
        """Check the claims about one number of replicas."""
        problem = self._on(one.chips_each, one.replicas)
        if one.ruled_out:
            found = self.model.refusal(problem)
            if found != one.ruled_out or one.bound or one.partitions is not None:
                raise differs(
                    f"{one.ruled_out} is said to rule it out, {found or 'nothing'} does", place
                )
            return
        if one.partitions is None:
            if one.analytic_s is not None or one.simulated_s is not None:
                raise differs("it has seconds, and no placement", place)
            return
        seconds = self.model.period_s(problem, one.partitions[0]) / one.replicas
        if one.analytic_s is None or not math.isclose(seconds, one.analytic_s, rel_tol=MARGIN):
            raise differs(f"its placement takes {seconds!r} s, it says {one.analytic_s!r}", place)
        if one.simulated_s is not None:
            periods = self._periods(one.partitions, place, one.replicas, problem)
            seconds = float(periods.min()) / one.replicas
            if not math.isclose(seconds, one.simulated_s, rel_tol=MARGIN):
                raise differs(
                    f"its placements take {seconds!r} s simulated, it says {one.simulated_s!r}",
                    place,
                )

    def check_learned(self, gain: LearnedGain, scope: ClaimScope) -> None:
        """The share of throughput that learned search is said to have added."""
        problem = self._on(scope.devices_each, scope.pipelines)
        rows = [gain.classical, *([] if gain.learned is None else [gain.learned])]
        if gain.simulated:
            asked = np.stack(rows), "learned", scope.pipelines, problem
            without_s, *learned_s = self._periods(*asked).tolist()
        else:
            without_s, *learned_s = (self.model.period_s(problem, row) for row in rows)
        if not math.isfinite(without_s):
            raise differs("its placement without learning does not run", "learned")
        share = max(without_s / next(iter(learned_s), math.inf) - 1.0, 0.0)
        if not math.isclose(share, gain.share, rel_tol=MARGIN, abs_tol=MARGIN):
            raise differs(f"its placements give {share!r}, it says {gain.share!r}", "learned.share")
