"""The command of studies that play measured mappings again."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lcm_study.graphs import read
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.processes.staging import write_whole
from mcm_models.mapping_model.data_set import MappingData


def run_study(
    about: str | None,
    record: Path,
    measured: Callable[[MappingData, int], dict[str, Any]],
    write_page: Callable[[dict[str, Any]], None],
    argv: Sequence[str] | None,
) -> int:
    """Writes the record of a study, or the page that shows it.

    Args:
        about: what `--help` says.
        record: JSON file.
        measured: makes what it holds, from a data set and so many graphs.
        write_page: shows it.
        argv: arguments of the command.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("data", type=Path, nargs="?", help="data set, or folder of parts of one")
    parser.add_argument("--graphs", type=int, default=80)
    parser.add_argument("--output", type=Path, default=record)
    parser.add_argument("--page", action="store_true", help="write the table, run nothing")
    given = parser.parse_args(argv)
    if given.page:
        write_page(json.loads(given.output.read_text()))
        return 0
    if given.data is None:
        parser.error("a data set is needed")
    use_one_thread()
    found = measured(read(given.data), given.graphs)
    write_whole(given.output, (json.dumps(found, indent=1, sort_keys=True) + "\n").encode())
    return 0
