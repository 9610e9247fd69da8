"""Output folders that somebody changed, and what the commands say of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from click.testing import CliRunner

from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.cli.main import cli


def rehash(folder: Path) -> None:
    """Has the manifest list the hashes of the files as they are now."""
    path = folder / "manifest.json"
    data = json.loads(path.read_text())
    data["files"] = {name: sha256_file(folder / name) for name in data["files"]}
    if "target_sha256" in data:
        data["target_sha256"] = data["files"]["target.toml"]
    path.write_text(json.dumps(data))


def errors(folder: Path, verb: str = "check") -> list[str]:
    """Codes of the errors with which a command refuses a folder."""
    result = CliRunner().invoke(cli, [verb, str(folder)])
    assert isinstance(result.exception, SystemExit), result.output
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    return re.findall(r"error\[(MCM-\w+)\]", result.stderr)
