"""Check whether what a certificate says of an objective holds: value, latency and bounds."""

from __future__ import annotations

from mcm_compiler.certificate import bound_check
from mcm_compiler.certificate.claims import Certificate
from mcm_compiler.contracts.objectives import LIMIT_SLACK, ObjectiveFigures, ShareBound
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.proofs import KnowsValues
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.machines.machine_builder import equal_shares
from mcm_compiler.registry import OBJECTIVE_PROOFS, PROBLEM_MODELS, PROOF_CHECKERS


def check_objective(
    certificate: Certificate, figures: ObjectiveFigures, limits: PackageLimits
) -> tuple[str, Diagnostic | None]:
    """Derives the value of an objective again, and proves its bound.

    Args:
        certificate: problem, placement and period of which hold.
        figures: of it.
        limits: of the package.

    Returns:
        A summary, and MCM-V072 where something could not be re-proved.

    Raises:
        CompileError: MCM-V075 for a figure that is another, or a bound that does not hold.
    """
    _check_figures(certificate, figures, limits)
    _check_rows(certificate, figures, limits)
    missing = [
        reason for row in figures.proven if (reason := _unshown(certificate, figures, row, limits))
    ]
    if not missing:
        return f"the bound on {figures.objective} re-proved", None
    what = f"the bound on {figures.objective}"
    warning = bound_check.not_re_proved(missing[0], what, at="objective in certificate.json")
    return warning.message, warning


def _check_figures(
    certificate: Certificate, figures: ObjectiveFigures, limits: PackageLimits
) -> None:
    """Value and latency once more from the placement."""
    objective, scope = figures.objective, certificate.scope
    model = PROBLEM_MODELS.get(certificate.problem_model)
    problem, placement = certificate.problem, certificate.placement
    if not isinstance(model, KnowsValues):
        name = quote(certificate.problem_model)
        raise _wrong(f"the problem model {name} computes no values of objectives")
    own = bound_check.on_share(problem, limits, scope.pipelines, scope.devices_each)
    with PROBLEM_MODELS.at_work(certificate.problem_model):
        latency_s = model.latency_s(problem, placement)
        today_s = model.latency_s(own, placement)
    most_s = objective.max_latency_s
    if most_s is not None and (today_s is None or today_s > most_s * (1.0 + LIMIT_SLACK)):
        raise _wrong(f"its placement answers after {today_s!r} s, not within {most_s!r} s")
    if latency_s != figures.latency_s:
        raise _wrong(
            f"its placement answers after {latency_s!r} s, it says {figures.latency_s!r} s"
        )
    if objective.kind == "chips":
        rate = objective.throughput_per_s or 0.0
        value = float(scope.pipelines * (int(placement.max(initial=-1)) + 1))
        most_s = scope.pipelines / rate * (1.0 + LIMIT_SLACK)
        if certificate.period_s > most_s:
            raise _wrong(
                f"its pipelines come to {scope.pipelines / certificate.period_s!r} inferences/s, "
                f"and {rate!r} were to be reached"
            )
    else:
        with PROBLEM_MODELS.at_work(certificate.problem_model):
            value = model.objective_value(problem, placement, objective)
        if objective.aim == "max-latency":
            value /= scope.pipelines
    # Earlier releases took the sum of energies in another order.
    slack = 1e-12 * value if objective.kind == "energy" else 0.0
    if not abs(value - figures.value) <= slack:
        raise _wrong(f"its placement has the value {value!r}, it says {figures.value!r}")


def _check_rows(certificate: Certificate, figures: ObjectiveFigures, limits: PackageLimits) -> None:
    """Return whether what is proven of numbers of pipelines makes the bound."""
    rows, scope, kind = figures.proven, certificate.scope, figures.objective.kind
    if figures.bound > figures.value:
        raise _wrong(f"nothing is said to be below {figures.bound!r}, and it is {figures.value!r}")
    counts = [row.replicas for row in rows]
    if kind == "chips":
        _check_chips(certificate, figures, limits)
        return
    if not rows or len(set(counts)) < len(counts):
        raise _wrong("it says nothing of what is proven, or twice the same")
    by = [row.replicas if kind == "period" else 1 for row in rows]
    least = min(row.value / count for row, count in zip(rows, by, strict=True))
    if min(least, figures.value) < figures.bound:
        raise _wrong(f"the proven bound is {least!r}, it says {figures.bound!r}")
    for row in rows:
        if row.replicas * row.chips_each > limits.num_chips:
            raise _wrong(f"{row.replicas} pipelines of {row.chips_each} are more than the package")
    alone, devices = [(row.replicas, row.chips_each) for row in rows], scope.devices
    if kind != "period" and alone != [(1, devices)] and alone != [_own(certificate)]:
        raise _wrong(f"what is proven is neither of one pipeline on {devices} devices nor its own")
    shares = list(equal_shares(devices, certificate.problem.machine))
    if kind == "period" and len(rows) > 1 and alone != shares:
        raise _wrong("it does not list all equal shares once, fewest pipelines first")
    if kind == "period" and len(rows) == 1 and alone != [_own(certificate)]:
        raise _wrong("what is proven is of other pipelines than its own")


def _own(certificate: Certificate) -> tuple[int, int]:
    return certificate.scope.pipelines, certificate.scope.devices_each


def _check_chips(
    certificate: Certificate, figures: ObjectiveFigures, limits: PackageLimits
) -> None:
    """Check that the ruled-out numbers are all that need fewer chips than the bound."""
    rate = figures.objective.throughput_per_s or 0.0
    fewer = int(figures.bound) - 1
    units = certificate.problem.clonable.tolist().count(False)
    each = {row.replicas: row.chips_each for row in figures.proven}
    wanted = {
        count: min(fewer // count, limits.num_chips // count, units)
        for count in range(1, limits.num_chips + 1)
    }
    wanted = {count: chips for count, chips in wanted.items() if chips > 0}
    own = {count: chips for count, chips in wanted.items() if count == certificate.scope.pipelines}
    if each not in (wanted, own):
        raise _wrong(f"it does not rule out all numbers of pipelines below {figures.bound:g} chips")
    for row in figures.proven:
        if row.value * rate < row.replicas:
            raise _wrong(
                f"{row.replicas} pipelines of {row.chips_each} are said to be ruled out, and may "
                f"come to {row.replicas / row.value!r} inferences/s"
            )


def _unshown(
    certificate: Certificate, figures: ObjectiveFigures, row: ShareBound, limits: PackageLimits
) -> str:
    """Why a row is not re-proved; empty where it is."""
    problem = bound_check.on_share(certificate.problem, limits, row.replicas, row.chips_each)
    if row.value <= 0.0:
        return ""
    where = bound_check.share_text(row.replicas, row.chips_each)
    shown, undecided = _verdict(problem, figures, row)
    if shown is not None and not shown:
        raise _wrong(
            f"the proof {quote(row.proof)} does not rule out that {where} come to less than "
            f"{row.value!r} each"
        )
    return "" if shown else f"for {where}, {undecided}"


def _verdict(
    problem: PartitionProblem, figures: ObjectiveFigures, row: ShareBound
) -> tuple[bool | None, str]:
    """Answer of a row's checker, and why it may be none."""
    objective = figures.objective
    value = row.value * (1.0 - bound_check.MARGIN)
    if objective.kind == "chips":
        assert objective.throughput_per_s is not None
        value = row.replicas / objective.throughput_per_s * (1.0 + LIMIT_SLACK / 2)
    elif (checker := bound_check.known_checker(OBJECTIVE_PROOFS, row.proof)) is not None:
        return checker.rules_out(problem, objective, value), checker.undecided
    periods = objective.aim in ("period", "max-latency")
    checker = bound_check.known_checker(PROOF_CHECKERS, row.proof) if periods else None
    if checker is None:
        return None, f"no checker for proofs of the kind {quote(row.proof)} is installed"
    # Where memory alone rules everything out, any period does.
    return checker.rules_out(problem, min(value, 1e6)), checker.undecided


def _wrong(what: str) -> CompileError:
    return CompileError.of(
        "MCM-V075",
        f"what is said of the objective does not hold: {what}",
        at="objective in certificate.json",
    )
