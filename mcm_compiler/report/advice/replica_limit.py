"""Limit on the number of replicas, in words, from the report's data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mcm_compiler.text.units import bytes_text, count_text, seconds_text

TOO_LITTLE_MEMORY = frozenset({"MCM-P004", "MCM-P005"})
"""Codes that rule a number of replicas out because one does not fit its chips' SRAM."""

_SHARED = {
    "host_transfers": "for what enters from the host and leaves to it",
    "streamed_weights": "for the weights that come from off-package memory",
}
"""Items that a proof of a bound counts, where all pipelines share it."""


_BOUND = {
    "pins": "pins bind ops to chips of the package",
    "assignment": "the assignment binds ops to chips of the package",
    "forbidden_chips": "chips are left out, so that shares are not alike",
}
"""Options that leave no choice of another number, and why."""


def limit_sentence(report: Mapping[str, Any]) -> str | None:
    """Why there are not more pipelines; None where the report does not say, or one chip is all."""
    replication = report.get("replication")  # reports of the first release lack it
    if replication is None or report["target"]["chips"] <= 1:
        return None
    chosen = replication["replicas"]
    asked = (report.get("options") or {}).get("replicas") is not None
    if asked or not replication.get("considered"):
        return _asked(report, chosen)
    larger = [one for one in replication["considered"] if one["replicas"] > chosen]
    if not larger:
        chips, each = count_text(report["chips_used"], "chip"), replication["chips_each"]
        if each == 1:
            return f"no more than {chosen}: each has 1 chip, and all {chips} are taken"
        return f"no more than {chosen}: the package has no larger number of shares that are alike"
    following = min(larger, key=lambda one: one["replicas"])
    each = count_text(following["chips_each"], "chip")
    head = f"no more than {chosen}: {following['replicas']} with {each} each"
    return f"{head} {_against(report, replication, following)}"


def _against(
    report: Mapping[str, Any], replication: Mapping[str, Any], other: Mapping[str, Any]
) -> str:
    """Reason against a larger number; the words follow that number."""
    code = other.get("ruled_out")
    if code:
        return _ruled_out(report, other, code)
    reached_s, bound_s = report["analytic_period_s"], other.get("lower_bound_s")
    if reached_s is not None and bound_s is not None and bound_s >= reached_s:
        proof = other.get("bound_proof")
        by = f" {_SHARED[proof]} alone" if proof in _SHARED else f" (proof {proof})"
        by = by if proof else ""
        return (
            f"cannot be faster: no less than {seconds_text(bound_s)} an inference{by}, where "
            f"{seconds_text(reached_s)} are reached under the same cost model"
        )
    own = next(
        (o for o in replication["considered"] if o["replicas"] == replication["replicas"]), None
    )
    for key, where in (
        ("simulated_period_s", "on the simulator"),
        ("analytic_period_s", "under the cost model"),
    ):
        theirs, ours = other.get(key), own.get(key) if own else None
        if theirs is not None and ours is not None:
            text = (
                f"came to {seconds_text(theirs)} an inference in a first look {where}, "
                f"{replication['replicas']} to {seconds_text(ours)}"
            )
            little = ", which is too little gain for one more copy of all weights"
            return text + (little if theirs < ours else "")
    if replication.get("round", 1) > 1:
        return "may be faster, but no faster round was found for them"
    return "may be faster, but no partition was found that fits the SRAM"


def _ruled_out(report: Mapping[str, Any], other: Mapping[str, Any], code: str) -> str:
    sram: list[int] = report["target"]["sram_bytes"]
    room = sum(sram[: other["chips_each"]])
    weights = math.fsum(chip["weight_bytes"] or 0 for chip in report["chips"])
    if code in TOO_LITTLE_MEMORY:
        return (
            f"cannot hold the model (proof {code}): each pipeline would have {bytes_text(room)} of "
            f"SRAM, and the weights take {bytes_text(int(weights))} as placed"
        )
    return f"cannot run the model (proof {code})"


def _asked(report: Mapping[str, Any], chosen: int) -> str | None:
    """Why no other number was looked at."""
    options = report.get("options")  # reports of the first release lack it
    if options is None:
        return None
    if options.get("replicas") is not None:
        return f"{chosen}, as asked for; no other number was looked at"
    for option, why in _BOUND.items():
        if options.get(option):
            return f"{chosen}, because {why}"
    if chosen > 1:
        return f"{chosen}, as the plan of the passes has it"
    return "1, because the chips of the package are not alike to the host and each other"


def shares_text(pipelines: int, each: int, place: str = "chip") -> str:
    """Such as `2 pipelines of up to 18 chips`."""
    return f"{count_text(pipelines, 'pipeline')} of up to {count_text(each, place)}"
