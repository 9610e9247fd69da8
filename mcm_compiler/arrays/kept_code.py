"""Machine code that was kept on disk, loaded without what only compiling needs.

numba imports all that it can compile when it loads kept code, SciPy's linear algebra included.
That takes longer than a small model's searches. Here these modules are left to the compiler.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, cast

from numba.core.environment import Environment, lookup_environment


def machine_code(kept: bytes) -> Any:
    """Reads what numba made of one signature of a kernel.

    Args:
        kept: bytes of this installation's own cache. They are executed.
    """
    return _Unpickler(io.BytesIO(kept)).load()


class _Unpickler(pickle.Unpickler):
    """Leaves the modules alone that helper functions of numba were defined in."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) == ("numba.core.environment", "_rebuild_env"):
            return _environment
        return super().find_class(module_name, global_name)


def _environment(module: str, constants: list[Any], name: str) -> Any:
    """The Python objects that machine code refers to.

    Globals are read by code in numba's object mode alone, and no kernel has such code.
    """
    found: Any = lookup_environment(name)
    if found is None:
        found = Environment({"__name__": module})
        found.consts[:] = constants
        found.env_name = name
        cast("Any", Environment)._memo[name] = found
    return found
