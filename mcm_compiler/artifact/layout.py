"""Names and hashes of the files in an output folder, and the version of its report."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mcm_compiler.processes import staging

MANIFEST = staging.MANIFEST
ANNOTATED = "annotated.onnx"
ANNOTATED_DATA = "annotated.onnx.data"
PROGRAM = "program.json"
TARGET = "target.toml"
CERTIFICATE = "certificate.json"
CERTIFICATE_ARRAYS = "certificate.safetensors"
REPORT = "report.json"
REPORT_TEXT = "report.md"

REPORT_SCHEMA_VERSION = 1
"""Of `REPORT`. Raised when a field changes its meaning or goes; new fields leave it alone."""


def sha256_file(path: Path) -> str:
    """Hex digest of a file.

    Raises:
        OSError: if it cannot be read.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def chip_file(chip: int) -> str:
    """The model of one chip."""
    return f"chip_{chip:02d}.onnx"


def chip_data_file(chip: int) -> str:
    """The weights that one chip alone stores."""
    return f"{chip_file(chip)}.data"


def shared_data_file(number: int) -> str:
    """Weights that the same several chips store."""
    return f"shared_{number:02d}.onnx.data"


MAPPING_FILES = "mapping_*.json"
"""Pattern of the files that say where the units of chips lie that are fabrics."""


def mapping_file(chip: int) -> str:
    """The mapping of a chip that is a fabric, and of those that are laid out like it."""
    return f"mapping_{chip:02d}.json"


def is_mapping_file(name: str) -> bool:
    """Return whether a file of a folder is one of `MAPPING_FILES`."""
    return name.startswith("mapping_") and name.endswith(".json")


def page_path(folder: Path) -> Path:
    """The page next to an output folder: `model.mcm36.html` for `model.mcm36`.

    A folder holds the files of its manifest and nothing else.
    """
    return folder.with_name(f"{folder.name}.html")
