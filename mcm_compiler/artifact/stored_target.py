"""The package that a folder was compiled for, as the folder describes it."""

from __future__ import annotations

from pathlib import Path

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.manifest import MAX_JSON_BYTES, Manifest, damaged, read_manifest
from mcm_compiler.components.cost_files import stored_files
from mcm_compiler.components.target_loading import target_from_text
from mcm_compiler.contracts.target import Target


def folder_target(folder: Path) -> Target:
    """The package that a folder was compiled for, from its `target.toml`.

    Raises:
        CompileError: MCM-A004 if `folder` is not an output folder, MCM-A005 if the file is
            missing, MCM-T### if it is faulty, MCM-C### if its cost model cannot be used.
    """
    return target_of(folder, read_manifest(folder))


def target_of(folder: Path, manifest: Manifest) -> Target:
    """The same where the manifest is known."""
    name = manifest.target
    path = folder / layout.TARGET
    try:
        if path.stat().st_size > MAX_JSON_BYTES or not path.is_file():
            raise damaged(path, "it is no description of a target")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise damaged(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise damaged(path, "it is not UTF-8 text") from error
    return target_from_text(name, text, str(path), stored_files(folder, manifest.files))
