"""The command line that all benchmark scripts share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.bars import Bar, as_json, as_table
from harness.children import ChildFailedError


@dataclass(frozen=True)
class Settings:
    """What the user asked of a benchmark.

    Attributes:
        quick: measure only a part, in less than 50 s.
        repetitions: runs of each warm measurement.
        update: write what was found to the files that are committed.
    """

    quick: bool
    repetitions: int
    update: bool = False


def run_script(
    description: str | None,
    measure: Callable[[Settings], Sequence[Bar]],
    *,
    can_update: bool = False,
) -> int:
    """Parses the arguments, measures, and prints the bars.

    Args:
        description: docstring of the script; its first line goes into the help.
        measure: makes the bars.
        can_update: whether the script takes `--update`.

    Returns:
        0 when everything was measured, whether or not the bars hold; 1 when a command failed.
    """
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="only a part, in less than 50 s")
    parser.add_argument(
        "--repetitions", type=int, metavar="N", help="runs of each warm measurement (default: 5)"
    )
    if can_update:
        parser.add_argument(
            "--update", action="store_true", help="write the outcome to the committed files"
        )
    arguments = parser.parse_args()
    repetitions = arguments.repetitions or (3 if arguments.quick else 5)
    if repetitions < 1:
        parser.error("--repetitions must be at least 1")
    update = can_update and bool(arguments.update)
    if update and arguments.quick:
        parser.error("--update needs the whole run, not --quick")
    settings = Settings(arguments.quick, repetitions, update)
    try:
        bars = measure(settings)
    except ChildFailedError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.json:
        print(as_json(bars, quick=settings.quick, repetitions=settings.repetitions))
    else:
        print(as_table(bars))
    return 0
