"""Profiles of a folder: one place for weights and states, and memory for all of them together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx_ir as ir

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.manifest import read_manifest
from mcm_compiler.artifact.profiles import ProfileFolder
from mcm_compiler.checking.entry.gate import OpenedFolder
from mcm_compiler.contracts.program import Buffer
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.report.state_section import STATE_SECTION, prompt_row, takes_prompt
from mcm_compiler.text.units import bytes_text, count_text

_Weights = Mapping[int, Mapping[str, ir.TensorProtocol]]
"""Weights by chip and name."""


def check_profiles(first: OpenedFolder) -> str:
    """Checks that all profiles have weights and states where the first has them, and memory.

    What is of any profile stays on its chip while another one runs.

    Args:
        first: a folder whose files are checked, as that of its first profile.

    Returns:
        A summary.

    Raises:
        CompileError: MCM-P087 for weights, states or pipelines that are elsewhere, MCM-P088 for
            chips whose memory is too small.
    """
    name, *others = first.manifest.profiles
    opened = {name: first}
    for other in others:
        path = ProfileFolder.of(first.path, other)
        opened[other] = OpenedFolder(path, read_manifest(path))
    weights = {name: _weights(one) for name, one in opened.items()}
    CompileError.raise_any(
        Diagnostic("MCM-P087", what, at=f"profile {quote(other)}{place}")
        for other in others
        for place, what in _elsewhere(first, opened[other], weights[name], weights[other])
    )
    _check_prompts(opened)
    return f"{count_text(len(opened), 'profile')}, {_check_memory(opened, weights)}"


def _check_prompts(opened: Mapping[str, OpenedFolder]) -> None:
    reports = {name: one.report for name, one in opened.items()}
    prompt = prompt_row(reports)
    for name, report in reports.items():
        expected = prompt if takes_prompt(report, prompt) else None
        if (report.get(STATE_SECTION) or {}).get("prompt") != expected:
            what = "'states.prompt' is not what the reports of all profiles give"
            raise CompileError.of("MCM-V073", what, at=f"profile {quote(name)}")


def _elsewhere(
    first: OpenedFolder, other: OpenedFolder, there: _Weights, here: _Weights
) -> Iterator[tuple[str, str]]:
    expected, found = first.manifest, other.manifest
    if (found.replicas, found.chips_each) != (expected.replicas, expected.chips_each):
        pipelines = count_text(found.replicas, "pipeline")
        yield "", f"it has {pipelines} in place of {expected.replicas}"
    chips = {state.past: state.chip for state in expected.states.held}
    for state in found.states.held:
        if chips.get(state.past, state.chip) != state.chip:
            what = f"its state {quote(state.past)} is on chip {chips[state.past]} in the first"
            yield f", chip {state.chip}", what
    stored = other.source.graph.initializers
    for chip, tensors in here.items():
        known = {_place(tensor) for tensor in there.get(chip, {}).values()}
        for name, tensor in tensors.items():
            large = isinstance(tensor, ir.ExternalTensor)
            if large and name in stored and _place(tensor) not in known:
                what = f"it needs {quote(name)} of {bytes_text(tensor.nbytes)}"
                yield f", chip {chip}", f"{what}, which the first profile does not have there"


def _check_memory(opened: Mapping[str, OpenedFolder], weights: Mapping[str, _Weights]) -> str:
    """Checks the sum over profiles: what is of one of them, and what the others keep.

    Raises:
        CompileError: MCM-P088.
    """
    lowered = {n: one for n, one in opened.items() if layout.PROGRAM in one.manifest.files}
    kept: dict[int, dict[object, int]] = {}
    states: dict[int, int] = {}
    needs: list[tuple[str, int, int, int]] = []
    for name, one in lowered.items():
        for chip in one.program.chips:
            tensors = weights[name].get(chip.chip, {})
            of_chip = kept.setdefault(chip.chip, {})
            for buffer in (b for b in chip.buffers if b.kind == "weight"):
                key = buffer.name, _place(tensors.get(buffer.name))
                of_chip[key] = max(of_chip.get(key, 0), buffer.size_bytes)
            own = _bytes_of(chip.buffers, "state")
            states[chip.chip] = max(states.get(chip.chip, 0), own)
            own += _bytes_of(chip.buffers, "weight")
            needs.append((name, chip.chip, chip.high_water_bytes, own))
    faults: list[Diagnostic] = []
    most = 0
    for name, chip, high_water, own in needs:
        more = sum(kept[chip].values()) + states[chip] - own
        sram = opened[name].target.limits.sram_bytes[chip]
        most = max(most, high_water + more)
        if high_water + more > sram:
            message = (
                f"chip {chip} needs {bytes_text(high_water + more)} of {bytes_text(sram)}: "
                f"{bytes_text(high_water)} for this profile, and {bytes_text(more)} that the "
                "others keep there"
            )
            faults.append(Diagnostic("MCM-P088", message, at=f"profile {quote(name)}"))
    CompileError.raise_any(faults)
    return f"at most {bytes_text(most)} on a chip"


def _weights(opened: OpenedFolder) -> _Weights:
    return {
        chip.chip: {
            name: value.const_value
            for name, value in chip.model.graph.initializers.items()
            if value.const_value is not None
        }
        for chip in opened.chips
    }


def _place(tensor: ir.TensorProtocol | None) -> object:
    if isinstance(tensor, ir.ExternalTensor):
        return tensor.location, tensor.offset, tensor.length
    return None if tensor is None else tensor.tobytes()


def _bytes_of(buffers: tuple[Buffer, ...], kind: str) -> int:
    return sum(buffer.size_bytes for buffer in buffers if buffer.kind == kind)
