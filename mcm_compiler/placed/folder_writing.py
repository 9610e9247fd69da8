"""Writing the folder of a placement: whole, in a staging folder, hashes last."""

from __future__ import annotations

from pathlib import Path

from mcm_compiler.artifact.manifest import PLACEMENT_KIND, sha256_file
from mcm_compiler.placed import file_names
from mcm_compiler.placed.placed_model import PlacedModel
from mcm_compiler.placed.placement_figures import placement_record, report_text, source_files
from mcm_compiler.placed.records import PlacementManifest
from mcm_compiler.placed.runtime_wishes import runtime_files
from mcm_compiler.placed.segment_models import write_models
from mcm_compiler.text import json_text


def write_folder(folder: Path, placed: PlacedModel) -> None:
    """Writes all files of a placement into an empty folder.

    Raises:
        CompileError: as `write_models`.
    """
    schedule = write_models(folder, placed)
    record = placement_record(placed)
    json_text.write(folder / file_names.PLACEMENT, record.to_dict())
    if schedule is not None:
        json_text.write(folder / file_names.SCHEDULE, schedule.to_dict())
    for name, data in runtime_files(placed.target.box, placed.device_of_node).items():
        json_text.write(folder / name, data)
    for name, content in source_files(placed.target).items():
        (folder / name).write_bytes(content)
    text = report_text(record, schedule)
    (folder / file_names.REPORT_TEXT).write_bytes(text)
    names = sorted(path.name for path in folder.iterdir())
    hashes = {name: sha256_file(folder / name) for name in names}
    manifest = PlacementManifest(PLACEMENT_KIND, hashes)
    json_text.write(folder / file_names.MANIFEST, manifest.to_dict())
