"""Did a model become slower, by how much, and why: two sets of figures compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcm_compiler.ci.figures import Figures
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.results.op_times import OpTime
from mcm_compiler.text.units import bytes_text, count_text, percent_text, rate_text, seconds_text

REGRESSION_CODE = "MCM-U031"

RISE_CODE = "MCM-U033"

LISTED_OPS = 3
"""Ops that took longer, of which the reasons name this many."""

NOTEWORTHY = 0.05
"""Share of the change of the period from which the change of one op is a reason."""

SEARCH_OPTIONS = frozenset({"partitioner", "seed", "samples", "budget_s"})
"""Options that decide what is found, and not what can be."""

UNKNOWN = "the reports do not show why"


@dataclass(frozen=True)
class Comparison:
    """A throughput next to that of the baseline.

    Attributes:
        baseline_per_s: inferences per second before.
        throughput_per_s: inferences per second now.
        allowed: largest share by which it may fall.
        reasons: what differs, the likeliest cause first; empty where the throughput is the same.
    """

    baseline_per_s: float
    throughput_per_s: float
    allowed: float
    reasons: tuple[str, ...]

    @property
    def change(self) -> float:
        """Relative change: -0.1 for a tenth less."""
        return self.throughput_per_s / self.baseline_per_s - 1.0

    @property
    def regressed(self) -> bool:
        """True if the throughput fell by more than is allowed."""
        return self.throughput_per_s < self.baseline_per_s * (1.0 - self.allowed)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "baseline_throughput_per_s": self.baseline_per_s,
            "throughput_per_s": self.throughput_per_s,
            "change": self.change,
            "max_regression": self.allowed,
            "regressed": self.regressed,
            "reasons": list(self.reasons),
        }

    def diagnostics(self, at: str) -> tuple[Diagnostic, ...]:
        """The diagnostics: an error and its further reasons, a note, or nothing.

        Args:
            at: the model and its baseline.
        """
        change = percent_text(abs(self.change))
        span = f"from {rate_text(self.baseline_per_s)} to {rate_text(self.throughput_per_s)}"
        if not self.regressed:
            if self.change <= 0:
                return ()
            text = f"throughput rose by {change}, {span}: {self.reasons[0]}"
            return (Diagnostic(RISE_CODE, text, at=at),)
        error = Diagnostic(
            REGRESSION_CODE,
            f"throughput fell by {change}, {span}, where {percent_text(self.allowed)} is allowed: "
            f"{self.reasons[0]}",
            at=at,
        )
        notes = (Diagnostic("MCM-U032", reason) for reason in self.reasons[1:])
        return (error, *notes)


def change_text(comparison: Comparison) -> str:
    """The relative change, such as `-1.2 %`."""
    return f"{100 * comparison.change:+.1f} %"


def compare(old: Figures, new: Figures, allowed: float) -> Comparison:
    """Compares the throughput, and explains a difference.

    Args:
        old: of the baseline.
        new: of this compile.
        allowed: largest share by which the throughput may fall, 0 to 1.
    """
    reasons: tuple[str, ...] = ()
    if new.throughput_per_s != old.throughput_per_s:
        reasons = explain(old, new) or (UNKNOWN,)
    return Comparison(old.throughput_per_s, new.throughput_per_s, allowed, reasons)


def explain(old: Figures, new: Figures) -> tuple[str, ...]:
    """Explain differences, one sentence each: the likeliest causes first, effects last.

    Where the model changed, its ops and its bound explain more than any option. A bound that is
    above the old period rules the search out as the cause, and so its options.
    """
    changed_model = old.model.sha256 != new.model.sha256
    of_ops = (*_op_reasons(old, new), *_model_reasons(old, new))
    ruled_out = _bound_above(old, new)
    first = (*of_ops, *ruled_out) if changed_model else ()
    reasons = (
        *_target_reasons(old, new),
        *first,
        *_option_reasons(old, new, search=False),
        *ruled_out,
        *_option_reasons(old, new, search=True),
        *of_ops,
        *_chip_reasons(old, new),
        *_bound_reasons(old, new),
        *_load_reasons(old, new),
        *_mapping_reasons("", old.versions, new.versions),
    )
    return tuple(dict.fromkeys(reasons))


def _target_reasons(old: Figures, new: Figures) -> list[str]:
    if (old.target, old.target_sha256) == (new.target, new.target_sha256):
        return []
    if old.target != new.target:
        return [f"the target is {quote(new.target)}, {quote(old.target)} before"]
    return [f"the description of the target {quote(new.target)} changed"]


def _option_reasons(old: Figures, new: Figures, search: bool) -> list[str]:
    """Changed options; one that only a report of the other release has says nothing.

    Args:
        old: of the baseline.
        new: of this compile.
        search: those of the search alone, or all others.
    """
    shared = old.options.keys() & new.options.keys()
    both = shared & SEARCH_OPTIONS if search else shared - SEARCH_OPTIONS
    before, now = (
        {name: value for name, value in f.options.items() if name in both} for f in (old, new)
    )
    return _mapping_reasons("option ", before, now)


def _mapping_reasons(kind: str, old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return [
        f"{kind}{name} is {quote(new.get(name, 'none'))}, {quote(old.get(name, 'none'))} before"
        for name in {**new, **old}
        if new.get(name) != old.get(name)
    ]


def _op_reasons(old: Figures, new: Figures) -> list[str]:
    """Ops whose time changed with the period, the largest change first."""
    difference_s = new.period_s - old.period_s
    sign = 1.0 if difference_s >= 0 else -1.0
    changes: list[tuple[float, OpTime, OpTime | None]] = []
    gone: list[tuple[float, OpTime]] = []  # what made it faster by not being there
    for name, now in new.ops.items():
        before = old.ops.get(name)
        if before is None and not (old.all_ops and new.all_ops):
            continue
        change_s = sign * (now.seconds - (before.seconds if before else 0.0))
        if change_s > 0 and change_s >= NOTEWORTHY * abs(difference_s):
            changes.append((change_s, now, before))
    changes.sort(key=lambda change: (-change[0], change[1].name))
    if sign < 0 and old.all_ops and new.all_ops:
        gone = [(op.seconds, op) for name, op in old.ops.items() if name not in new.ops]
        gone = [row for row in gone if row[0] >= NOTEWORTHY * abs(difference_s)]
        gone.sort(key=lambda row: (-row[0], row[1].name))
    return [
        *(_op_sentence(now, before) for _, now, before in changes[:LISTED_OPS]),
        *(_gone_sentence(op) for _, op in gone[: LISTED_OPS - len(changes[:LISTED_OPS])]),
    ]


def _op_sentence(now: OpTime, before: OpTime | None) -> str:
    verb = "takes" if now.label or now.ops == 1 else "take"
    text = f"{op_phrase(now)} on chip {now.chip} {verb} {seconds_text(now.seconds)}"
    if before is None:
        return f"{text}, and there was no op of that name before"
    return f"{text}, {seconds_text(before.seconds)} before"


def _gone_sentence(op: OpTime) -> str:
    verb = "is" if op.label or op.ops == 1 else "are"
    return f"{op_phrase(op)} {verb} gone, {seconds_text(op.seconds)} on chip {op.chip} before"


def op_phrase(op: OpTime) -> str:
    """A kernel by its dominant op and layer, or else by its name."""
    if op.label:
        return op.label
    return quote(op.name) if op.ops == 1 else f"{op.ops} fused ops up to {quote(op.name)}"


def _model_reasons(old: Figures, new: Figures) -> list[str]:
    if old.model.sha256 == new.model.sha256:
        return []
    if (old.model.ops, old.model.weight_bytes) == (new.model.ops, new.model.weight_bytes):
        return ["the model's file changed, with as many ops and bytes of weights as before"]
    now, before = (
        f"{count_text(f.model.ops, 'op')} and {bytes_text(f.model.weight_bytes)} of weights"
        for f in (new, old)
    )
    return [f"the model changed: it has {now}, {before} before"]


def _chip_reasons(old: Figures, new: Figures) -> list[str]:
    reasons: list[str] = []
    if old.pipelines != new.pipelines:
        reasons.append(f"replicas: {new.pipelines}, {old.pipelines} before")
    if old.chips_used == new.chips_used:
        return reasons
    now, before = (
        "an unknown number" if n is None else str(n) for n in (new.chips_used, old.chips_used)
    )
    return [*reasons, f"{new.words[0]}s in use: {now}, {before} before"]


def _bound_above(old: Figures, new: Figures) -> list[str]:
    """That the old period is out of reach, where it is."""
    if new.lower_bound_s is None or new.lower_bound_s <= old.period_s:
        return []
    return [
        f"no partition can be as fast as before: the lower bound on the period is "
        f"{seconds_text(new.lower_bound_s)}{_by(new)}, and the period was "
        f"{seconds_text(old.period_s)}"
    ]


def _bound_reasons(old: Figures, new: Figures) -> list[str]:
    reasons = _bound_above(old, new)
    known = None not in (old.lower_bound_s, new.lower_bound_s)
    if not reasons and known and old.lower_bound_s != new.lower_bound_s:
        other = new.bound_proof != old.bound_proof
        now, before = (
            f"{seconds_text(f.lower_bound_s)}{_by(f) if other else ''}" for f in (new, old)
        )
        reasons.append(f"the lower bound on the period is {now}, {before} before")
    if old.gap is not None and new.gap is not None and abs(new.gap - old.gap) >= 0.001:
        reasons.append(
            f"the simulated period is {percent_text(new.gap)} above the lower bound, "
            f"{percent_text(old.gap)} before"
        )
    return reasons


def _by(figures: Figures) -> str:
    """The kind of argument of the bound."""
    return f" (proof {figures.bound_proof})" if figures.bound_proof else ""


def _load_reasons(old: Figures, new: Figures) -> list[str]:
    reasons: list[str] = []
    worst_now = (new.bottleneck, new.bottleneck_busy_s)
    worst_before = (old.bottleneck, old.bottleneck_busy_s)
    if worst_now != worst_before and None not in (new.bottleneck, old.bottleneck):
        reasons.append(
            f"the bottleneck is {new.bottleneck} with {seconds_text(new.bottleneck_busy_s)}, "
            f"{old.bottleneck} with {seconds_text(old.bottleneck_busy_s)} before"
        )
    if seconds_text(old.chip_busy_s) != seconds_text(new.chip_busy_s):
        reasons.append(
            f"all {new.words[0]}s together work {seconds_text(new.chip_busy_s)} per "
            f"{new.words[1]}, {seconds_text(old.chip_busy_s)} before"
        )
    if old.link_bytes != new.link_bytes:
        reasons.append(
            f"all links together carry {bytes_text(new.link_bytes)} per inference, "
            f"{bytes_text(old.link_bytes)} before"
        )
    reasons += [
        f"{name}: {now}, {old.added.get(name, 0)} before"
        for name, now in new.added.items()
        if now != old.added.get(name, 0)
    ]
    return reasons
