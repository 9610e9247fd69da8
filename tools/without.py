"""Shows that all but a product does without the product.

A copy of the project loses the product's packages and the entry points that lead there. The copy is
installed in an environment of its own, which takes all other packages from `.venv`, beside the
plug-in of `tests/acme_mesh`: a family of targets that the project does not know. Then every module
that is left is imported; tests run that do not need the product; `compile`, `check` and `report`
of ResNet-50 give the very bytes of this checkout; and what asks for the product is told which
package brings it. Without the zoo the model is a file that this checkout wrote.

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
from collections.abc import Sequence
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
        model: that is compiled for a ring; empty for none.
    """

    rooms: tuple[str, ...]
    tests: tuple[str, ...]
    asked: tuple[str, ...]
    brought_by: str
    model: str = "zoo:resnet50"


_FOLDERS = {"mcm_passes": "passes/", "mcm_hardware": "hardware/", "mcm_models": "models/"}
_FIVE_OPS = "zoo:gpt2-tiny"

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
        model="",
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
    "cluster": Product(
        (
            "mcm_compiler.contracts.cluster",
            "mcm_hardware.families.cluster",
            "mcm_models.pipelines",
            "mcm_passes.parallelism.clusters",
            "mcm_passes.parallelism.deep_q",
            "mcm_passes.parallelism.pipelines",
        ),
        ("tests/unit/passes/parallelism/plans/test_ring_plan.py",),
        ("parallelize", _FIVE_OPS, "--target", "config-a"),
        "mcm_hardware.families.cluster",
    ),
    "partition": Product(
        (
            "mcm_compiler.cli.verbs.partition",
            "mcm_compiler.contracts.placement",
            "mcm_compiler.placements.placement_file",
            "mcm_passes.families.ring.placement_constraints.ring_placement",
            "mcm_passes.mapping.device_placement",
            "mcm_passes.mapping.latency_placement",
        ),
        (),
        ("partition", "problem.json"),
        "mcm_passes.mapping.device_placement",
    ),
    "zoo": Product(
        ("mcm_compiler.cli.verbs.zoo", "mcm_models.zoo"),
        ("tests/unit/passes/parallelism/rules", "tests/unit/compiler/report/verdict"),
        ("compile", _FIVE_OPS, "--target", "mcm4"),
        "mcm_models.zoo",
        model="resnet50.onnx",
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


def run(*command: str | Path, cwd: Path, fails: str = "") -> str:
    """Runs a command in `cwd`, and returns what it wrote to its standard output.

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
    err = subprocess.PIPE if fails else None
    out = subprocess.PIPE
    done = subprocess.run(
        words, cwd=cwd, env=variables, check=False, stdout=out, stderr=err, text=True
    )
    print(done.stdout, done.stderr or "", sep="", end="", flush=True)
    if bool(done.returncode) != bool(fails) or fails not in (done.stderr or ""):
        raise SystemExit(1)
    return done.stdout


def compare(model: str, mcmc: Sequence[str | Path], folder: Path) -> None:
    """Compares folders and reports of a model with those of this checkout.

    Raises:
        SystemExit: if a byte differs, or a command fails.
    """
    whole = (sys.executable, "-m", "mcm_compiler")
    if not model.startswith("zoo:"):
        model = str(folder / model)
        run(*whole, "zoo", Path(model).stem, "-o", model, cwd=folder)
    places, printed = (folder / "with", folder / "without"), list[list[str]]()
    for words, place in zip((whole, mcmc), places, strict=True):
        place.mkdir()
        run(*words, "compile", model, "--target", "mcm36", "-o", "out", cwd=place)
        printed.append([run(*words, verb, "out", cwd=place) for verb in ("check", "report")])
    whole_out, out = (place / "out" for place in places)
    names = sorted(path.name for path in whole_out.iterdir())
    if filecmp.cmpfiles(whole_out, out, names, shallow=False)[0] != names:
        raise SystemExit("the model is compiled to other bytes")
    if printed[0] != printed[1]:
        raise SystemExit("check or report print other bytes")


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
    if product.model:
        compare(product.model, mcmc, folder)
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
