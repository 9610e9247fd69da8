"""Shows that all but a product does without the product.

A copy of the project loses the product's packages and the entry points that lead there. The copy is
installed in an environment of its own, which takes all other packages from `.venv`, beside the
plug-in of `tests/acme_mesh`: a family of targets that the project does not know. Then every module
that is left is imported; tests run that do not need the product; a model is compiled to the very
bytes of this checkout; and what asks for the product is told which package brings it.

Without the ring the model is compiled for the mesh of the plug-in, by its tests, which compile
ResNet-50 and Inception-V3, check the folders, simulate them and show their reports. The search
stays: it serves machines of every family.

Run with the interpreter of `.venv` and names of products, all by default; `--turn N` adds one of
them, another one for each N in turn. Exits 1 at the first step that fails.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("mcm_compiler", "passes", "hardware", "models", "tests", "tools")
FILES = ("pyproject.toml", "README.md", "LICENSE")
OWN = re.compile(r"_?(mcm_compiler|acme_)|__pycache__")
"""What of the environment's packages is the project's, or a plug-in for it."""


@dataclass(frozen=True)
class Product:
    """A part of the project that all others do without.

    Attributes:
        rooms: modules and packages that are deleted.
        tests: that need no more than what is left.
        asked: words of `mcmc` that ask for the product.
        brought_by: the package that they are told.
        compiled: whether a model is compiled for a ring.
    """

    rooms: tuple[str, ...]
    tests: tuple[str, ...]
    asked: tuple[str, ...]
    brought_by: str
    compiled: bool = True


_FOLDERS = {"mcm_passes": "passes/", "mcm_hardware": "hardware/", "mcm_models": "models/"}
_FIVE_OPS = "zoo:gpt2-tiny"
_COMPILED = ("compile", _FIVE_OPS, "--target", "mcm4", "-O0", "-o")

PRODUCTS = {
    "ring": Product(
        ("mcm_hardware.families.ring", "mcm_passes.families.ring.ring_mapping"),
        (
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
        ),
        ("compile", _FIVE_OPS, "--target", "mcm36"),
        "mcm_hardware.families.ring",
        compiled=False,
    ),
    "fabric": Product(
        (
            "mcm_compiler.contracts.fabrics",
            "mcm_hardware.families.fabric",
            "mcm_models.mapping_model",
            "mcm_passes.families.fabric",
        ),
        ("tests/end_to_end/test_toy_product.py", "tests/unit/compiler/report/verdict"),
        ("compile", _FIVE_OPS, "--target", "mcm36-fabric"),
        "mcm_hardware.families.fabric",
    ),
    "box": Product(
        (
            "mcm_compiler.cli.verbs.place",
            "mcm_compiler.contracts.boxes",
            "mcm_compiler.placed",
            "mcm_hardware.families.box",
            "mcm_models.cluster_policy",
            "mcm_passes.families.box",
        ),
        ("tests/end_to_end/test_toy_product.py", "tests/unit/compiler/report/verdict"),
        ("place", _FIVE_OPS, "--target", "box-2gpu"),
        "mcm_compiler.placed",
    ),
    "differentiate": Product(
        ("mcm_passes.differentiation",),
        (),
        ("compile", _FIVE_OPS, "--target", "mcm4", "--passes", "differentiate"),
        "mcm_passes.differentiation",
    ),
    "init": Product(
        ("mcm_compiler.cli.verbs.init", "mcm_compiler.drafting"),
        (),
        ("init",),
        "mcm_compiler.drafting",
    ),
    "learn": Product(
        ("mcm_models.policy", "mcm_passes.families.ring.learning"),
        (),
        ("compile", _FIVE_OPS, "--target", "mcm4", "--partitioner", "rl"),
        "mcm_passes.families.ring.learning",
    ),
}
"""Products by name. Whether tests of all the rest are right is what the whole project shows."""

_IMPORT_ALL = """\
import importlib, pkgutil, sys
from mcm_compiler.registry import REGISTRIES
count = 0
for name in ("mcm_compiler", "mcm_passes", "mcm_hardware", "mcm_models"):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
            count += 1
for registry in REGISTRIES.values():
    for found in registry.registrations():
        found.load()
for kind in ("addition", "mapping", "strategy", "target-family", "target"):
    names = [found.name for found in REGISTRIES[kind].registrations()]
    print(f"{kind}: {', '.join(names) or 'none'}")
assert any(name.startswith("acme-mesh") for name in names), names
print(f"{count} modules")
"""


def copy_without(product: Product, tree: Path) -> None:
    """Copies the project to `tree`, without the rooms of a product and entry points to them.

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
    for room in product.rooms:
        path = tree / (_FOLDERS.get(room.partition(".")[0], "") + room.replace(".", "/"))
        if path.is_dir():
            shutil.rmtree(path)
        elif (module := path.with_suffix(".py")).is_file():
            module.unlink()
        else:
            raise SystemExit(f"there is no {room}")
    project = tree / "pyproject.toml"
    lines = project.read_text(encoding="utf-8").splitlines(keepends=True)
    entries = re.compile(rf'= "({"|".join(map(re.escape, product.rooms))})\b')
    kept = [line for line in lines if not entries.search(line)]
    project.write_text("".join(kept), encoding="utf-8")
    print(f"without {len(lines) - len(kept)} entry points")


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


def run(*command: str | Path, cwd: Path, fails: str = "") -> None:
    """Runs a command in `cwd`; its output is this process's.

    Args:
        command: its words.
        cwd: where it runs.
        fails: words that its errors have, where it is to fail.

    Raises:
        SystemExit: 1, if its status is not 0, or not 1 where it is to fail with these words.
    """
    words = [str(word) for word in command]
    print("$", " ".join(word for word in words if "\n" not in word), flush=True)
    # PYTHONPATH could lead back into the checkout.
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    pipe = subprocess.PIPE if fails else None
    done = subprocess.run(words, cwd=cwd, env=variables, check=False, stderr=pipe, text=True)
    if fails:
        print(done.stderr, end="")
    if bool(done.returncode) != bool(fails) or fails not in (done.stderr or ""):
        raise SystemExit(1)


def show(product: Product, folder: Path) -> None:
    """Runs all steps for a product in a folder.

    Raises:
        SystemExit: 1, at the first step that fails.
    """
    tree = folder / "tree"
    copy_without(product, tree)
    python = environment(folder / "environment")
    install = ("install", "--quiet", "--disable-pip-version-check", "--no-deps")
    pip = (sys.executable, "-m", "pip", "--python", python, *install, "--no-build-isolation")
    run(*pip, "--editable", tree, cwd=folder)
    run(*pip, tree / "tests/acme_mesh", cwd=folder)
    run(python, "-c", _IMPORT_ALL, cwd=folder)
    mcmc = (python, "-m", "mcm_compiler")
    run(*mcmc, *product.asked, cwd=folder, fails=product.brought_by)
    if product.compiled:
        run(*mcmc, *_COMPILED, "without", cwd=folder)
        run(sys.executable, "-m", "mcm_compiler", *_COMPILED, "with", cwd=folder)
        run(*mcmc, "check", "with", cwd=folder)
        names = sorted(path.name for path in (folder / "with").iterdir())
        other = filecmp.cmpfiles(folder / "with", folder / "without", names, shallow=False)[0]
        if other != names:
            raise SystemExit("a model is compiled to other bytes")
    if not product.tests:
        return
    run(
        python,
        "-m",
        "pytest",
        "-q",
        "--durations=8",
        "--assert=plain",
        "-p",
        "no:cacheprovider",
        # Compiles for changed meshes and several numbers of pipelines need no more of the ring, and
        # claims about fabrics need fabrics.
        "-k",
        "not more_of_a_resource_is_never_slower and not the_simulator_decides and not on_fabrics",
        *product.tests,
        cwd=tree,
    )


def main() -> None:
    """Runs all steps in a folder that is removed afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("products", nargs="*", metavar="PRODUCT", help=", ".join(PRODUCTS))
    parser.add_argument("--turn", type=int, metavar="N")
    asked = parser.parse_args()
    names: list[str] = asked.products
    if unknown := [name for name in names if name not in PRODUCTS]:
        parser.error(f"no product is named {unknown[0]}")
    if asked.turn is not None:
        others = [name for name in PRODUCTS if name not in names]
        names.append(others[asked.turn % len(others)])
    for name in names or PRODUCTS:
        with tempfile.TemporaryDirectory(prefix=f"without_{name}_") as folder:
            show(PRODUCTS[name], Path(folder))
        print(f"all but the {name} does without the {name}")


if __name__ == "__main__":
    main()
