"""The part of a report about states: tokens per second, and sequences in flight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcm_compiler.diagnostics import quote
from mcm_compiler.results.strictness import LOST_STATES
from mcm_compiler.text.units import (
    UNKNOWN,
    bytes_text,
    count_text,
    number_text,
    rate_text,
    seconds_text,
)

if TYPE_CHECKING:
    from mcm_compiler.artifact.manifest import Manifest
    from mcm_compiler.contracts.program import LoweredProgram, SimulationResult
    from mcm_compiler.contracts.target import Target
    from mcm_compiler.report.records.sections import StateFacts
    from mcm_compiler.results.size_rows import PromptRow

STATE_SECTION = "states"
"""Key of the report; missing where no state stays on a chip."""

SIZE_TITLE = "Batches and contexts on this placement"

SIZE_HEADS = (
    "batch",
    "context",
    "tokens/s for all",
    "time per token",
    "sequences that fit",
    "within limits",
    "status",
)


def lost_states(report: Mapping[str, Any]) -> list[str]:
    """Warnings of states that cross the host's link."""
    return [
        row["message"]
        for row in report.get("diagnostics") or ()
        if row["code"] in LOST_STATES and row["severity"] == "warning"
    ]


def state_facts(
    manifest: Manifest,
    program: LoweredProgram,
    simulation: SimulationResult | None,
    target: Target,
    bound_s: float | None,
    limits: Mapping[str, float] | None = None,
) -> StateFacts | None:
    """Facts of states; None where none stays on a chip.

    Args:
        manifest: has the states with their chips, the ends of the source model and the pipelines.
        program: of one pipeline.
        simulation: of it, or None.
        target: the package.
        bound_s: proven for the seconds between inferences of the package; None without a bound.
        limits: of the option `serve`.
    """
    held = manifest.states.held
    if not held:
        return None
    # A build that has all in its cache shows figures without any library of models.
    from mcm_compiler.contracts.replication import Replication
    from mcm_compiler.placements import side_by_side
    from mcm_compiler.placements.steps_of_decoders import most_in_flight, step_of

    inputs, outputs = (
        {entry.name: entry for entry in entries} for entries in (manifest.inputs, manifest.outputs)
    )
    wholes = dict.fromkeys(state.whole for state in held)
    states = {name for state in wholes for name in (state.past, state.present)}
    others = [entry for entry in manifest.inputs if entry.name not in states]
    step = step_of(
        ((inputs[s.past].shape, outputs[s.present].shape) for s in wholes),
        ((entry.dtype, entry.shape) for entry in others),
    )
    tokens, batch = step.tokens, step.batch
    side = Replication(manifest.replicas, manifest.chips_each)
    facts: StateFacts = {
        "held": [{"past": s.past, "present": s.present, "chip": s.chip} for s in held],
        "chips": [
            {
                "chip": chip.chip,
                "sequence_bytes": chip.state_bytes,
                "held_bytes": sum(b.size_bytes for b in chip.buffers if b.kind == "state"),
            }
            for chip in program.chips
            if any(b.kind == "state" for b in chip.buffers)
        ],
        "sequences": max(program.sequences, 1),
        "needed_sequences": None,
        "fitting_sequences": max(side_by_side.fitting_sequences(program, target), 1),
        "pipelines": side.replicas,
        "tokens_per_step": tokens,
        "batch": batch,
        "context": step.context,
        "limits": dict(limits or {}),
        "limited_by": None,
        "tpot_s": None,
        "ttft_s": None,
        "users": None,
        "sizes": [],
        "tokens_per_s": None,
        "tokens_per_s_alone": None,
        "package_sequences": _in_package(program, target),
        "most_tokens_per_s": None,
    }
    if simulation is not None:
        free = side_by_side.independent(target, program, side)
        facts["needed_sequences"] = side_by_side.needed_sequences(free.latency_s, free.period_s)
        waits = step.waits_s(facts["sequences"] * simulation.period_s)
        facts["tpot_s"], facts["ttft_s"] = waits["tpot"], waits["ttft"]
        kept = most_in_flight(step.limit_s(limits), free.period_s)
        fit = facts["fitting_sequences"]
        facts["users"] = int(min(fit, kept)) * side.replicas * batch
        if facts["sequences"] >= facts["needed_sequences"]:
            facts["limited_by"] = "work"
        else:
            facts["limited_by"] = "memory" if facts["sequences"] >= fit else "latency"
        facts["tokens_per_s"] = tokens * batch * side.replicas / simulation.period_s
        facts["tokens_per_s_alone"] = tokens / simulation.latency_s
        served = facts["package_sequences"] / simulation.latency_s
        served = min(served, 1.0 / bound_s) if bound_s else served
        facts["most_tokens_per_s"] = tokens * batch * served
    return facts


def throughput_text(report: Mapping[str, Any]) -> str:
    """Inferences per second, or tokens where inferences of a sequence wait for each other."""
    facts = report.get(STATE_SECTION)
    if facts is None or facts["tokens_per_s"] is None:
        return rate_text(report["throughput_per_s"])
    return f"{number_text(facts['tokens_per_s'])} tokens/s"


def state_sentences(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Labels and texts for the tables of a report; none where no state stays on a chip."""
    facts = report.get(STATE_SECTION)
    if facts is None:
        return []
    from mcm_compiler.report.host_section import HOST_SECTION

    rows: list[tuple[str, str]] = []
    step = count_text(facts["tokens_per_step"], "token")
    if facts["tokens_per_s_alone"] is not None:
        alone = number_text(facts["tokens_per_s_alone"])
        each = f"{step} every {seconds_text(report['latency_s'])}"
        rows.append(("one sequence", f"{alone} tokens/s by itself, {each}"))
    flight = f"{count_text(facts['sequences'], 'sequence')} in flight"
    if facts["batch"] > 1:
        many = count_text(facts["sequences"], "batch", "batches")
        flight = f"{many} of {facts['batch']} sequences in flight"
    if facts["pipelines"] > 1:
        flight += f" in each of {facts['pipelines']} pipelines"
    needed = facts["needed_sequences"]
    if needed is not None:
        flight += f"; {needed} keep a pipeline busy, {facts['fitting_sequences']:,} would fit"
    rows.append(("sequences", flight))
    if (most := facts["most_tokens_per_s"]) is not None:
        limit, many = "", facts["package_sequences"]
        alone = facts["batch"] * facts["tokens_per_s_alone"]
        if many * alone <= most * (1.0 + 1e-9):
            many = count_text(many * facts["batch"], "sequence")
            limit = f": memory of the package for {many} at this latency"
        rows.append(("bound", f"at most {number_text(most)} tokens/s{limit}"))
    states = count_text(len(facts["held"]), "state")
    chips = count_text(len(facts["chips"]), "chip")
    most = bytes_text(max(row["sequence_bytes"] for row in facts["chips"]))
    whose = "a sequence" if facts["batch"] == 1 else "a batch"
    where = f"{states} on {chips}, up to {most} of {whose} on one"
    # An op that the host runs may read a past, which its round trip then carries.
    but = " but in round trips" if HOST_SECTION in report else ""
    rows.append(("states", f"{where}; none crosses a host link{but}"))
    return rows


_LIMITED_BY = {
    "work": "the work of the chips",
    "memory": "memory for caches",
    "latency": "the latency of a step: more sequences would wait too long",
}


def serving_claim(report: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """How many users a decoder serves, and what they wait for; None where that is unknown."""
    facts = report.get(STATE_SECTION) or {}
    if facts.get("users") is None:  # reports of earlier releases lack it
        return None
    limits = " and ".join(limit_texts(facts["limits"]))
    within = f"within {limits}" if limits else "that fit in memory"
    read = {"tokens": facts["context"], **facts, **facts.get("prompt", {})}
    prompt = f"{count_text(read['tokens'], 'token')}, read {read['tokens_per_step']} at a time"
    prompt += f" by profile {quote(read['profile'])}" if "profile" in read else ""
    return f"up to {count_text(facts['users'], 'user')} {within}", [
        f"with those in flight a token every {seconds_text(facts['tpot_s'])} for each",
        f"the first after {seconds_text(facts['ttft_s'])} (prompt of {prompt})",
        f"tokens/s are limited by {_LIMITED_BY[facts['limited_by']]}",
    ]


def prompt_row(reports: Mapping[str, Mapping[str, Any]]) -> PromptRow | None:
    """The profile that reads prompts, of reports by profile; None where none has states."""
    facts = {name: report.get(STATE_SECTION) or {} for name, report in reports.items()}
    tokens = {n: one["tokens_per_step"] for n, one in facts.items() if one.get("ttft_s")}
    if not tokens:
        return None
    name = max(tokens, key=tokens.__getitem__)
    most = facts[name]
    return {
        "profile": name,
        "tokens": most["context"],
        "tokens_per_step": most["tokens_per_step"],
        "ttft_s": most["ttft_s"],
    }


def takes_prompt(report: Mapping[str, Any], prompt: PromptRow | None) -> bool:
    """True for a profile that reads fewer tokens at a time than that of `prompt`."""
    facts = report.get(STATE_SECTION)
    return bool(facts and prompt and facts["tokens_per_step"] < prompt["tokens_per_step"])


def limit_texts(limits: Mapping[str, float]) -> list[str]:
    """Limits of the option `serve`, such as `tpot 50.0 ms`."""
    return [f"{name} {seconds_text(limit)}" for name, limit in sorted(limits.items())]


def state_rows(report: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Chips with the bytes of a sequence's states and of all that are in flight."""
    facts = report.get(STATE_SECTION)
    if facts is None:
        return []
    return [
        (str(row["chip"]), bytes_text(row["sequence_bytes"]), bytes_text(row["held_bytes"]))
        for row in facts["chips"]
    ]


def size_table(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Batches and contexts as texts in the order of `SIZE_HEADS`; empty where there are none."""
    rows = (report.get(STATE_SECTION) or {}).get("sizes", ())
    return [
        (
            f"{row['batch']:,}",
            f"{row['context']:,}",
            UNKNOWN if row["tokens_per_s"] is None else number_text(row["tokens_per_s"]),
            seconds_text(row["tpot_s"]),
            f"{row['fitting_sequences']:,}",
            "yes" if row["within_limits"] else "no",
            row["status"],
        )
        for row in rows
    ]


def _in_package(program: LoweredProgram, target: Target) -> int:
    """Sequences that the chips of a package have memory for, with one copy of the weights."""
    free = sum(target.limits.sram_bytes)
    if target.limits.stream_bytes_per_s == 0.0:
        buffers = (b for chip in program.chips for b in chip.buffers if b.kind == "weight")
        free -= sum(b.size_bytes for b in buffers)
    return max(free // max(sum(chip.state_bytes for chip in program.chips), 1), 1)
