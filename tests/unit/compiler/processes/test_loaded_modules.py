"""A compile and a check of a ring load no module of another product."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HOSTS_AND_CLUSTERS = (
    "mcm_compiler.contracts.boxes",
    "mcm_compiler.contracts.cluster",
    "mcm_compiler.placed.",
    "mcm_hardware.families.box",
    "mcm_hardware.families.cluster",
    "mcm_passes.families.box",
)
PROBLEM_FILES = (
    "mcm_compiler.contracts.placement",
    "mcm_passes.mapping.device_placement",
    "mcm_passes.mapping.latency_placement",
)
FABRICS = (
    "mcm_compiler.contracts.fabrics",
    "mcm_hardware.families.fabric",
    "mcm_passes.families.fabric",
)
LEARNING = (
    "mcm_compiler.contracts.gradients",
    "mcm_compiler.contracts.training",
    "mcm_models.policy",
    "mcm_passes.differentiation",
    "mcm_passes.families.ring.learning",
)
PLANS = (
    "mcm_compiler.equivalence.parts",
    "mcm_passes.parallelism.decisions",
    "mcm_passes.parallelism.deep_q",
    "mcm_passes.parallelism.plans",
    # The bound over all divisions reads the sharding rules, and no graph is divided by it.
    "mcm_passes.parallelism.sharded_graph.sharded_graph",
)
PAGES_AND_PROJECTS = (
    "mcm_compiler.ci.baseline",
    "mcm_compiler.ci.comparison",
    "mcm_compiler.ci.junit",
    "mcm_compiler.ci.model_list",
    "mcm_compiler.ci.processes",
    "mcm_compiler.difference",
    "mcm_compiler.drafting",
    "mcm_compiler.exploration",
    "mcm_compiler.page.",
    "mcm_compiler.project.",
    "mcm_compiler.variants.points",
    "mcm_compiler.viewing",
)
PRODUCTS = (
    *HOSTS_AND_CLUSTERS, *PROBLEM_FILES, *FABRICS, *LEARNING, *PLANS, *PAGES_AND_PROJECTS
)  # fmt: skip

WATCHED = """
import sys
OURS = ("mcm_compiler", "mcm_passes", "mcm_hardware", "mcm_models")
importer = {{}}
class Watching:
    def find_spec(self, name, path, target=None):
        frame = sys._getframe(1)
        while frame and frame.f_globals.get("__name__", "").partition(".")[0] not in OURS:
            frame = frame.f_back
        if frame is not None:
            place = "" if frame.f_code.co_name == "<module>" else f" in {{frame.f_code.co_name}}"
            importer[name] = (frame.f_globals["__name__"], place)
sys.meta_path.insert(0, Watching())
{work}
for name in sorted(sys.modules):
    if name.startswith({products!r}):
        chain = [name]
        while chain[-1].partition(" ")[0] in importer and len(chain) < 12:
            chain.append("".join(importer[chain[-1].partition(" ")[0]]))
        print(" <- ".join(chain))
print("listed")
"""

VERB = """
from mcm_compiler.cli.main import cli
try:
    cli({!r})
except SystemExit as left:
    assert not left.code, left.code
"""


def _products_after(work: str, folder: Path) -> list[str]:
    """Modules of other products that are loaded after `work`, each with its importers."""
    code = WATCHED.format(work=work, products=PRODUCTS)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    *lines, last = done.stdout.splitlines()
    assert last == "listed"
    return [line for line in lines if line.startswith(PRODUCTS)]


COMPILE = VERB.format(["compile", "zoo:plain-cnn", "--target", "mcm4", "-o", "out"])


@pytest.mark.parametrize(
    "work",
    ["import mcm_compiler.api", COMPILE + VERB.format(["check", "out"])],
    ids=["api", "compile-and-check"],
)
def test_a_ring_loads_no_other_product(work: str, tmp_path: Path) -> None:
    found = _products_after(work, tmp_path)
    assert not found, "\n".join(found)


def test_products_are_found_with_their_importers(tmp_path: Path) -> None:
    """The oracle sees what a verb of a product loads, through how many modules."""
    found = _products_after("from mcm_compiler import place", tmp_path)
    names = [line.partition(" <- ")[0] for line in found]
    assert "mcm_compiler.placed.placing" in names
    segments = next(line for line in found if line.startswith("mcm_compiler.placed.segments "))
    assert segments.endswith("<- mcm_compiler.placed.placing <- mcm_compiler in __getattr__")


@pytest.mark.parametrize("model", ["zoo:plain-cnn", "zoo:bert-tiny"])
def test_a_compile_that_asks_no_solver_loads_none(model: str, tmp_path: Path) -> None:
    # Its Python package alone costs a quarter of the CPU time of a small compile.
    work = VERB.format(["compile", model, "--target", "mcm4", "-o", "out"])
    code = f"{work}\nimport sys\nassert 'ortools.sat.python.cp_model' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
