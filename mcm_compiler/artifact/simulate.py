"""Simulating a compiled folder from its files alone."""

from __future__ import annotations

from pathlib import Path

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.manifest import damaged, read_json, read_manifest
from mcm_compiler.program import LoweredProgram
from mcm_compiler.simulation import SimulationResult
from mcm_compiler.target import Target
from mcm_compiler.target_loading import target_from_text


def folder_target(folder: Path) -> Target:
    """The package that a folder was compiled for, from its `target.toml`.

    Raises:
        CompileError: MCM-A004 if `folder` is not an output folder, MCM-A005 if the file is
            missing, MCM-T### if it is faulty.
    """
    name = read_manifest(folder).target
    path = folder / layout.TARGET
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise damaged(path, str(error)) from error
    return target_from_text(name, text)


def folder_program(folder: Path) -> LoweredProgram:
    """The lowered program of a folder.

    Raises:
        CompileError: MCM-A005 if it is missing or damaged.
    """
    path = folder / layout.PROGRAM
    data = read_json(path)
    try:
        return LoweredProgram.from_dict(data)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise damaged(path, f"a field is missing or malformed: {error}") from error


def simulate_folder(folder: Path, inferences: int = 64) -> SimulationResult:
    """Runs the simulator of the folder's target on its program.

    Raises:
        CompileError: as `folder_target` and `folder_program`, and from the simulator.
    """
    return folder_target(folder).simulator().run(folder_program(folder), inferences)
