"""What a training was asked for, noted in its folder, so that only the same training goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from mcm_compiler.contracts.training import TrainingRequest
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.processes.private_folders import PREFIX, remove_stale
from mcm_compiler.processes.staging import write_whole

RUN_NAME = "run.json"


def check_unused(request: TrainingRequest) -> None:
    """Refuses a folder that holds something, unless a training is to go on in it.

    Raises:
        CompileError: MCM-A001.
        OSError: if the folder cannot be read.
    """
    folder = request.folder
    if not request.resume and folder.exists() and any(folder.iterdir()):
        raise CompileError.of(
            "MCM-A001",
            "the folder of the training exists",
            at=quote(str(folder)),
            hint="choose another one, or go on with --resume",
        )


def begin_run(folder: Path, run: dict[str, Any]) -> None:
    """Notes what is trained, or checks that it is what the folder has noted.

    Args:
        folder: of the training, which exists.
        run: everything that decides the result, by name, as JSON data.

    Raises:
        CompileError: MCM-L008 if it is not.
        OSError: if the folder cannot be read or written.
    """
    # Of a process that was killed while it wrote.
    remove_stale(folder)
    path = folder / RUN_NAME
    if not path.exists():
        # Those of another host or container may be left.
        if any(not other.name.startswith(PREFIX) for other in folder.iterdir()):
            raise _other_training(folder, "it holds files, but no training")
        write_whole(path, _text(run), lasting=True)
        return
    try:
        noted = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _other_training(folder, f"its {RUN_NAME} is damaged") from error
    # As it would be read back: tuples become lists.
    asked = json.loads(_text(run))
    if not isinstance(noted, dict):
        raise _other_training(folder, f"its {RUN_NAME} is damaged")
    before = cast("dict[str, Any]", noted)
    if other := [name for name in asked if not _holds(before.get(name), asked[name])]:
        name = other[0]
        was, now = (json.dumps(data.get(name), sort_keys=True) for data in (before, asked))
        reason = f"its '{name}' is {quote(was)}, and {quote(now)} is asked for"
        raise _other_training(folder, reason)


def _holds(noted: Any, asked: Any) -> bool:
    """Equality, but for names that only an earlier release noted, such as a library's version."""
    if isinstance(noted, dict) and isinstance(asked, dict):
        known, wanted = cast("dict[str, Any]", noted), cast("dict[str, Any]", asked)
        return all(_holds(known.get(name), value) for name, value in wanted.items())
    return noted == asked


def _text(run: dict[str, Any]) -> bytes:
    return (json.dumps(run, sort_keys=True, indent=2) + "\n").encode()


def _other_training(folder: Path, reason: str) -> CompileError:
    return CompileError.of(
        "MCM-L008", f"the folder belongs to another training: {reason}", at=quote(str(folder))
    )
