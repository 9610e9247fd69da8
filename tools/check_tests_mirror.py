"""Unit tests lie where the modules lie that they test.

`mcm_passes.mapping.bounds.copied_weights` is tested by
`tests/unit/passes/mapping/bounds/test_copied_weights.py`. A test of a room as a whole, named after
no module of it, is listed in `tests/unit/tests_of_rooms.txt`. Tests of tools, which are in no room,
lie in `tests/unit/tools`.

    python tools/check_tests_mirror.py            exits 1 and tells what lies elsewhere
    python tools/check_tests_mirror.py --missing  names modules without a test file of their own
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNIT = ROOT / "tests" / "unit"
LIST = UNIT / "tests_of_rooms.txt"
PACKAGES = {
    "compiler": ROOT / "mcm_compiler",
    "hardware": ROOT / "hardware" / "mcm_hardware",
    "models": ROOT / "models" / "mcm_models",
    "passes": ROOT / "passes" / "mcm_passes",
}


def modules() -> set[Path]:
    """The place of every module as `passes/mapping/search/named`, a room as its `__init__`."""
    return {
        Path(name, *path.relative_to(package).with_suffix("").parts)
        for name, package in PACKAGES.items()
        for path in package.rglob("*.py")
    }


def tests() -> list[Path]:
    """Files of unit tests, relative to their folder."""
    found = (path.relative_to(UNIT) for path in UNIT.rglob("test_*.py"))
    return sorted(path for path in found if path.parts[0] != "tools")


def module_of(test: Path, known: set[Path]) -> Path:
    """The place of the module that the test is named after; a room gives its name to itself."""
    named = test.with_name(test.stem.removeprefix("test_"))
    whole = named.name == test.parent.name and named not in known
    return test.with_name("__init__") if whole else named


def faults() -> Iterator[str]:
    """What is not as it should be, a line each."""
    known = modules()
    listed = {Path(line) for line in LIST.read_text("utf-8").split()}
    for test in tests():
        if test.parent / "__init__" not in known:
            yield f"tests/unit/{test}: no room of the source has this name"
        elif (module_of(test, known) in known) == (test in listed):
            told = "listed, though a module has its name" if test in listed else "not listed"
            yield f"tests/unit/{test}: {told} in {LIST.relative_to(ROOT)}"
    yield from (f"{LIST.relative_to(ROOT)}: {test} is gone" for test in listed - {*tests()})


def main() -> None:
    """Tells faults, or modules without a test."""
    if "--missing" in sys.argv[1:]:
        known = modules()
        untested = known - {module_of(test, known) for test in tests()}
        print(*sorted(str(path) for path in untested if path.name[0] != "_"), sep="\n")
        return
    told = list(faults())
    print(*told, sep="\n", end="\n" if told else "")
    sys.exit(1 if told else 0)


if __name__ == "__main__":
    main()
