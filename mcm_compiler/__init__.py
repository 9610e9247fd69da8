"""Compiles ONNX models for multi-chip modules: packages of many small ML chips on a ring.

The names below are imported on first use, so that `import mcm_compiler` is light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcm_compiler.api import CompileResult, compile_model, load_target
    from mcm_compiler.components.cost_choice import CostBasis, CostModelMaker
    from mcm_compiler.diagnostics import CompileError, Diagnostic
    from mcm_compiler.options import CompileOptions
    from mcm_compiler.pipeline.passes import Pass, PassContext
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
    "compile_model",
    "load_target",
    "register",
]

_HOMES = {
    "api": ("CompileResult", "compile_model", "load_target"),
    "components.cost_choice": ("CostBasis", "CostModelMaker"),
    "diagnostics": ("CompileError", "Diagnostic"),
    "options": ("CompileOptions",),
    "pipeline.passes": ("Pass", "PassContext"),
    "registry": ("register",),
}


def __getattr__(name: str) -> object:
    # Decorators of earlier releases, which the registry knows.
    home_name = next((home for home, names in _HOMES.items() if name in names), None)
    if name.startswith("register_"):
        home_name = "registry"
    if home_name is None:
        raise AttributeError(f"module 'mcm_compiler' has no attribute {name!r}")
    from mcm_compiler.processes.lazy_libraries import loading_lazily

    with loading_lazily():
        home = importlib.import_module(f"mcm_compiler.{home_name}")
    return getattr(home, name)
