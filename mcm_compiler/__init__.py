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
    from mcm_compiler.registry import (
        register_chip_kind,
        register_cost_model,
        register_gradient_rule,
        register_level,
        register_mapper,
        register_mapping,
        register_mapping_model,
        register_objective_proof,
        register_pass,
        register_placement_cost,
        register_placer,
        register_placer_level,
        register_planner,
        register_problem_model,
        register_proof_checker,
        register_sharding_rule,
        register_step_bound,
        register_strategy,
        register_target,
        register_target_family,
        register_trainer,
        register_zoo,
    )

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
    "register_chip_kind",
    "register_cost_model",
    "register_gradient_rule",
    "register_level",
    "register_mapper",
    "register_mapping",
    "register_mapping_model",
    "register_objective_proof",
    "register_pass",
    "register_placement_cost",
    "register_placer",
    "register_placer_level",
    "register_planner",
    "register_problem_model",
    "register_proof_checker",
    "register_sharding_rule",
    "register_step_bound",
    "register_strategy",
    "register_target",
    "register_target_family",
    "register_trainer",
    "register_zoo",
]

_HOME = {
    "CompileError": "diagnostics",
    "CompileOptions": "options",
    "CompileResult": "api",
    "CostBasis": "components.cost_choice",
    "CostModelMaker": "components.cost_choice",
    "Diagnostic": "diagnostics",
    "Pass": "pipeline.passes",
    "PassContext": "pipeline.passes",
    "compile_model": "api",
    "load_target": "api",
    "register_chip_kind": "registry",
    "register_cost_model": "registry",
    "register_gradient_rule": "registry",
    "register_level": "registry",
    "register_mapper": "registry",
    "register_mapping": "registry",
    "register_mapping_model": "registry",
    "register_pass": "registry",
    "register_placement_cost": "registry",
    "register_placer": "registry",
    "register_placer_level": "registry",
    "register_planner": "registry",
    "register_problem_model": "registry",
    "register_objective_proof": "registry",
    "register_proof_checker": "registry",
    "register_sharding_rule": "registry",
    "register_step_bound": "registry",
    "register_strategy": "registry",
    "register_target": "registry",
    "register_target_family": "registry",
    "register_trainer": "registry",
    "register_zoo": "registry",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'mcm_compiler' has no attribute {name!r}")
    from mcm_compiler.processes.lazy_libraries import loading_lazily

    with loading_lazily():
        home = importlib.import_module(f"mcm_compiler.{_HOME[name]}")
    return getattr(home, name)
