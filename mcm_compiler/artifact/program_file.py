"""`program.json`: the lowered program of an output folder, read as untrusted input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.manifest import damaged, folder_record, read_json
from mcm_compiler.contracts.program import ChipProgram, LoweredProgram
from mcm_compiler.contracts.target import OFF_PACKAGE, ChipModel, Wire
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import placeable_nodes


def folder_program(folder: Path) -> LoweredProgram:
    """The lowered program of a folder.

    Raises:
        CompileError: MCM-A005 if the file is missing or damaged.
    """
    path = folder / layout.PROGRAM
    program = folder_record(path, read_json(path), LoweredProgram)
    for position, chip in enumerate(program.chips):
        last = max(len(chip.kernels) - 1, 0)
        for index, buffer in enumerate(chip.buffers):
            if not 0 <= buffer.first <= buffer.last <= last:
                place = f"chips[{position}].buffers[{index}]"
                raise damaged(
                    path,
                    f"{place} is taken from kernel {buffer.first} to kernel {buffer.last}, "
                    f"the chip's last is {last}",
                )
    return program


def check_program_of(
    program: LoweredProgram, chips: Sequence[ChipModel], wires: Sequence[Wire]
) -> None:
    """Checks that a program runs the ops of these models and sends the tensors of these wires.

    It does not lower the models again, so that times and addresses can still be wrong.

    Raises:
        CompileError: MCM-A013, one diagnostic per chip, or for the first transfers that differ.
    """
    programs = {chip.chip: chip for chip in program.chips}
    faults: list[Diagnostic] = []
    for chip in sorted({*programs, *(model.chip for model in chips)}):
        model = next((model for model in chips if model.chip == chip), None)
        fault = _chip_fault(programs.get(chip), model)
        if fault is not None:
            faults.append(_differs(fault, f"chip {chip}"))
    CompileError.raise_any(faults)
    wanted = Counter(
        (wire.tensor, chip) for wire in wires for chip in wire.destinations if chip != wire.source
    )
    planned = Counter(
        (t.tensor, t.destination) for t in program.transfers if t.source != OFF_PACKAGE
    )
    lost, added = wanted - planned, planned - wanted
    if differing := sorted(lost | added):
        tensor, chip = differing[0]
        where = f"chip {chip}" if chip >= 0 else "the host"
        problem = (
            "does not bring" if differing[0] in lost else "brings, against the manifest's wires,"
        )
        raise CompileError(_differs(f"it {problem} {quote(tensor)} to {where}", where))


def _chip_fault(program: ChipProgram | None, model: ChipModel | None) -> str | None:
    if program is None:
        return "it has nothing for the chip"
    if model is None:
        return "it has kernels for a chip without a model"
    planned = Counter(name for kernel in program.kernels for name in kernel.nodes)
    ops = Counter(node.name or "" for node in placeable_nodes(model.model.graph))
    if lost := sorted((ops - planned).keys()):
        return f"it does not run the op {quote(lost[0])} of the chip's model"
    if strange := sorted((planned - ops).keys()):
        return f"it runs the op {quote(strange[0])}, which the chip's model does not have"
    return None


def _differs(what: str, place: str) -> Diagnostic:
    return Diagnostic(
        "MCM-A013", f"{layout.PROGRAM} does not fit the chips' models: {what}", at=place
    )
