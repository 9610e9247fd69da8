"""Whether the states of an output folder are what one step can hand to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import onnx_ir as ir

from mcm_compiler.artifact.manifest import FolderStates, Manifest
from mcm_compiler.contracts.target import HOST
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.states import misfit


def check_states(
    manifest: Manifest,
    starts: Mapping[int, Mapping[str, ir.Value]],
    ends: Mapping[int, Mapping[str, ir.Value]],
) -> list[Diagnostic]:
    """MCM-A014 for states that are on no chip, on several, or cross the host's link as well.

    Args:
        manifest: lists the states.
        starts: outputs of each chip's model by name.
        ends: its inputs.
    """
    held = manifest.states.held
    pasts = Counter(state.past for state in held)
    presents = Counter(state.present for state in held)
    entering = {wire.tensor for wire in manifest.wires if wire.source == HOST}
    leaving = {wire.tensor for wire in manifest.wires if HOST in wire.destinations}
    model_inputs = {entry.name for entry in manifest.inputs}
    model_outputs = {entry.name for entry in manifest.outputs}
    faults: list[Diagnostic] = []
    for state in held:
        past = ends.get(state.chip, {}).get(state.past)
        present = starts.get(state.chip, {}).get(state.present)
        if past is None or present is None:
            lost = state.past if past is None else state.present
            faults.append(_fault(state.past, state.chip, f"the chip has no {quote(lost)}"))
        elif state.past not in model_inputs or state.present not in model_outputs:
            faults.append(_fault(state.past, state.chip, "it is none of the model's"))
        elif pasts[state.past] > 1 or presents[state.present] > 1:
            faults.append(_fault(state.past, state.chip, "it is held twice"))
        elif any(state.past in values for chip, values in ends.items() if chip != state.chip):
            faults.append(_fault(state.past, state.chip, "another chip takes it as well"))
        elif state.past in entering or state.present in leaving:
            faults.append(_fault(state.past, state.chip, "it crosses the host's link as well"))
        elif (why := misfit(past, present)) is not None:
            faults.append(_fault(state.past, state.chip, why))
    if not held and manifest.states != FolderStates():
        faults.append(
            Diagnostic(
                "MCM-A014",
                f"there are {manifest.states.sequences} sequences in flight, with room for "
                f"{manifest.states.reserved}, and no state",
                at="states in manifest.json",
                hint="the folder was changed; compile again",
            )
        )
    return faults


def _fault(past: str, chip: int, why: str) -> Diagnostic:
    return Diagnostic(
        "MCM-A014",
        f"the state {quote(past)} does not stay on chip {chip}: {why}",
        at=f"chip {chip}",
        hint="the folder was changed; compile again",
    )
