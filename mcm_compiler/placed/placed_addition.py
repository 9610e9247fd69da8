"""The addition of placement: boxes, which models are placed in, and the folders of placements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcm_compiler.additions import Addition, OtherFolder, OtherTargets
from mcm_compiler.components.cost_files import COST_TABLE, cost_model_texts
from mcm_compiler.text.units import bytes_text, count_text, seconds_text

if TYPE_CHECKING:
    from mcm_compiler.components.cost_choice import ReadFile
    from mcm_compiler.contracts.boxes.box import BoxTarget
    from mcm_compiler.text.toml_description import TomlDescription


def _numbers(target: BoxTarget) -> tuple[dict[str, Any], list[str]]:
    box = target.box
    kinds = [box.kinds[kind] for kind in box.kind_of.tolist()]
    memory: list[int] = box.memory_bytes.tolist()
    counts = Counter(zip(kinds, memory, strict=True)).items()
    host = box.devices[box.host]
    facts = {"devices": list(box.devices), "kinds": kinds, "memory_bytes": memory, "host": host}
    words = [f"{n} x {kind} with {bytes_text(size)} usable" for (kind, size), n in counts]
    return {"box": facts}, words


def _described(target: BoxTarget, description: TomlDescription, read: ReadFile) -> BoxTarget:
    """The box with the cost models that its description names for kinds of devices."""
    from mcm_compiler.placed.device_costs import TakesDeviceCosts, with_device_costs

    if not isinstance(target, TakesDeviceCosts):
        return target
    known, texts = target.cost_choices, cost_model_texts(description)
    new = {kind: text for kind, text in texts.items() if kind not in known}
    return with_device_costs(target, new, read, lambda kind: description.place((COST_TABLE, kind)))


def _check_of(folder: Path, model: str | None) -> Callable[..., Any]:
    from mcm_compiler.placed.folder_check import check_placement_folder
    from mcm_compiler.placed.placing import step_of_model

    step = None if model is None else partial(step_of_model, model)
    return partial(check_placement_folder, folder, step_of=step)


def _opened(folder: Path, checked: bool) -> OtherFolder:
    from mcm_compiler.placed.folder_reading import read_placement_folder
    from mcm_compiler.placed.placed_page import shown_placement
    from mcm_compiler.placed.placement_checks import ReadPlacement, checked_placement

    if checked:
        return shown_placement(checked_placement(folder))
    return shown_placement(ReadPlacement(read_placement_folder(folder)))


def _side(folder: Path) -> Any:
    from mcm_compiler.placed.placement_side import read_box

    return read_box(folder)


def _simulated(folder: Path, trace: Path | None) -> tuple[Any, list[str], list[list[str]]]:
    """One step, and the chain of ops that its time is made of.

    Raises:
        CompileError: as `open_placement` and `check_placement`.
    """
    from mcm_compiler.placed import step_trace
    from mcm_compiler.placed.folder_reading import open_placement
    from mcm_compiler.placed.placement_checks import ReadPlacement, check_placement
    from mcm_compiler.processes.staging import whole_file

    read = ReadPlacement(open_placement(folder, further=True))
    check_placement(read)
    box, problem = read.opened.target.box, read.problem
    if trace is not None:
        step_trace.refuse_large_step(read.trace)
        with whole_file(trace) as unfinished, unfinished.open("xb") as file:
            step_trace.write_step_trace(problem, box, read.trace, file)
    data = step_trace.step_data(problem, box, read.trace)
    copies = count_text(len(read.trace.copy_value), "copy", "copies")
    ops = count_text(len(read.trace.critical_ops), "op")
    sentences = [
        f"a step takes {seconds_text(data['seconds'])}, with {copies}",
        f"its time is that of a chain of {ops}; the longest of them:",
    ]
    return data, sentences, step_trace.chain_rows(problem, box, read.trace)


PLACEMENT = Addition(
    other=OtherTargets(
        words="a host with CPUs and GPUs",
        code="MCM-D001",
        verb="place",
        doing="place the model's ops in it",
        numbers=_numbers,
        described=_described,
        check_of=_check_of,
        opened=_opened,
        side=_side,
        simulated=_simulated,
    )
)
"""The component."""
