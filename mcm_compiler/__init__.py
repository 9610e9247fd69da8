"""Compiles ONNX models for multi-chip modules: packages of many small ML chips on a ring.

The names below are imported on first use, so that `import mcm_compiler` is light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcm_compiler.api import CompileResult, compile_model, load_target
    from mcm_compiler.checking.entry.run_folder import run_folder as run
    from mcm_compiler.ci.checks import check
    from mcm_compiler.components.cost_choice import CostBasis, CostModelMaker
    from mcm_compiler.diagnostics import CompileError, Diagnostic
    from mcm_compiler.difference.compared import diff
    from mcm_compiler.exploration.explore import explore
    from mcm_compiler.measuring.measurement import measure
    from mcm_compiler.options import CompileOptions
    from mcm_compiler.pipeline.passes import Pass, PassContext
    from mcm_compiler.placed.placing import place_model as place
    from mcm_compiler.project.built import build
    from mcm_compiler.registry import register

__version__ = "0.1.0"

__all__ = [
    "CompileError",
    "CompileOptions",
    "CompileResult",
    "CostBasis",
    "CostModelMaker",
    "Diagnostic",
    "Pass",
    "PassContext",
    "__version__",
    "build",
    "check",
    "compile_model",
    "diff",
    "explore",
    "load_target",
    "measure",
    "place",
    "register",
    "run",
]

_HOMES = {
    "api": ("CompileResult", "compile_model", "load_target"),
    "checking.entry.run_folder": ("run_folder",),
    "ci.checks": ("check",),
    "components.cost_choice": ("CostBasis", "CostModelMaker"),
    "diagnostics": ("CompileError", "Diagnostic"),
    "difference.compared": ("diff",),
    "exploration.explore": ("explore",),
    "measuring.measurement": ("measure",),
    "options": ("CompileOptions",),
    "pipeline.passes": ("Pass", "PassContext"),
    "placed.placing": ("place_model",),
    "project.built": ("build",),
    "registry": ("register",),
}
_SHORT = {"place": "place_model", "run": "run_folder"}
"""Functions of verbs that have another name at home."""


def __getattr__(name: str) -> object:
    # Decorators of earlier releases, which the registry knows.
    attribute = _SHORT.get(name, name)
    home_name = next((home for home, names in _HOMES.items() if attribute in names), None)
    if name.startswith("register_"):
        home_name = "registry"
    if home_name is None or name in _SHORT.values():
        raise AttributeError(f"module 'mcm_compiler' has no attribute {name!r}")
    from mcm_compiler.processes.lazy_libraries import loading_lazily

    with loading_lazily():
        home = importlib.import_module(f"mcm_compiler.{home_name}")
    return getattr(home, attribute)
