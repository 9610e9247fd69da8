"""Shows that all but the ring does without the ring.

A copy of the project loses the ring's hardware with its descriptions of targets, the mapping of
rings, and the entry points that lead there. The search stays: it serves machines of every family.
The copy is installed in an environment of its own, which takes all
other packages from `.venv`, beside the plug-in of `tests/acme_mesh`: a family of targets that the
project does not know. Then every module that is left is imported, and tests that need no ring run:
those of the plug-in, which compile ResNet-50 and Inception-V3 for its mesh, check the folders,
simulate them and show their reports, and tests of what no target is needed for.

Run with the interpreter of `.venv`; exits 1 at the first step that fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("hardware/mcm_hardware/families/ring", "passes/mcm_passes/families/ring/ring_mapping.py")
ENTRIES = r'= "mcm_(hardware\.families\.ring|passes\.families\.ring\.ring_mapping)\b'
COPIED = ("mcm_compiler", "passes", "hardware", "models", "tests", "tools")
FILES = ("pyproject.toml", "README.md", "LICENSE")
OWN = re.compile(r"_?(mcm_compiler|acme_)|__pycache__")
"""What of the environment's packages is the project's, or a plug-in for it."""

TESTS = (
    "tests/acme_mesh/tests/test_mesh_certificates.py",
    "tests/acme_mesh/tests/test_mesh_compiles.py",
    "tests/unit/compiler/contracts/sharding/test_notation.py",
    "tests/unit/compiler/ir/reading/test_importer.py",
    "tests/unit/compiler/ir/rewriting/test_writer.py",
    "tests/unit/compiler/ir/shapes/test_inference.py",
    "tests/unit/compiler/machines/test_machine.py",
    "tests/unit/compiler/processes/test_staging.py",
    "tests/unit/compiler/text/test_spec_text.py",
    "tests/unit/compiler/text/test_toml_description.py",
    "tests/unit/passes/parallelism/rules",
)
"""Parts that know no ring; whether they are right is what the tests of the whole project show, as
are routes and costs of the plug-in on random meshes."""

_IMPORT_ALL = """\
import importlib, pkgutil, sys
from mcm_compiler.registry import MAPPINGS, STRATEGIES, TARGET_FAMILIES, TARGETS
count = 0
for name in ("mcm_compiler", "mcm_passes", "mcm_hardware", "mcm_models"):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
            count += 1
ring = sorted(name for name in sys.modules if "hardware.families.ring" in name)
assert not ring, ring
for registry in (MAPPINGS, STRATEGIES, TARGET_FAMILIES, TARGETS):
    names = [found.name for found in registry.registrations()]
    for found in registry.registrations():
        found.load()
    print(f"{registry.kind.name}: {', '.join(names) or 'none'}")
assert "acme_mesh" in names or any(name.startswith("acme-mesh") for name in names), names
print(f"{count} modules")
"""


def copy_without_ring(tree: Path) -> None:
    """Copies the project to `tree`, without the rooms and the entry points of the ring.

    Raises:
        SystemExit: if a room is not there, so that nothing would be shown.
    """
    tree.mkdir()
    # Compiled kernels and modules come along: they hold for a file of the same content and time.
    # Not those that somebody writes right now, nor tests that pytest has rewritten in their place.
    unwanted = shutil.ignore_patterns("*.pyc.*", "*-pytest-*", ".*_cache")
    for name in COPIED:
        shutil.copytree(ROOT / name, tree / name, ignore=unwanted)
    for name in FILES:
        shutil.copy(ROOT / name, tree / name)
    for room in ROOMS:
        if (tree / room).is_dir():
            shutil.rmtree(tree / room)
        elif (tree / room).is_file():
            (tree / room).unlink()
        else:
            raise SystemExit(f"there is no {room}")
    project = tree / "pyproject.toml"
    lines = project.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not re.search(ENTRIES, line)]
    if len(kept) == len(lines):
        raise SystemExit("no entry point leads to the ring")
    project.write_text("".join(kept), encoding="utf-8")
    print(f"without {len(lines) - len(kept)} entry points of the ring")


def environment(folder: Path) -> Path:
    """A new environment with links to the packages of this one but for the project's own.

    Returns:
        Its interpreter.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not OWN.match(entry.name):
            (packages / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


def run(*command: str | Path, cwd: Path) -> None:
    """Runs a command in `cwd`; its output is this process's.

    Raises:
        SystemExit: 1, if its status is not 0.
    """
    words = [str(word) for word in command]
    print("$", " ".join(word for word in words if "\n" not in word), flush=True)
    # PYTHONPATH could lead back into the checkout.
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(words, cwd=cwd, env=variables, check=False)
    if done.returncode:
        raise SystemExit(1)


def main() -> None:
    """Runs all steps in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="without_ring_") as name:
        folder = Path(name)
        tree = folder / "tree"
        copy_without_ring(tree)
        python = environment(folder / "environment")
        install = ("install", "--quiet", "--disable-pip-version-check", "--no-deps")
        pip = (sys.executable, "-m", "pip", "--python", python, *install, "--no-build-isolation")
        run(*pip, "--editable", tree, cwd=folder)
        run(*pip, tree / "tests/acme_mesh", cwd=folder)
        run(python, "-c", _IMPORT_ALL, cwd=folder)
        run(
            python,
            "-m",
            "pytest",
            "-q",
            "--durations=8",
            "--assert=plain",
            "-p",
            "no:cacheprovider",
            # Compiles for changed meshes and several numbers of pipelines need no more of the ring.
            "-k",
            "not test_more_of_a_resource_is_never_slower and not test_the_simulator_decides",
            *TESTS,
            cwd=tree,
        )
    print("all but the ring does without the ring")


if __name__ == "__main__":
    main()
