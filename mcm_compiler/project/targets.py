"""Whether a name is that of a target, found out without loading more than is needed."""

from __future__ import annotations

from pathlib import Path

from mcm_compiler.plugin_files import load_plugin
from mcm_compiler.registry import TARGETS


class TargetNames:
    """The names of targets; plug-in files are run when a name is not known without them.

    Args:
        plugins: the files.
    """

    def __init__(self, plugins: tuple[Path, ...]) -> None:
        self._plugins = plugins

    def __call__(self, name: str) -> bool:
        """Whether there is a target of this name.

        Raises:
            CompileError: as `load_plugin`.
        """
        if name not in TARGETS:
            for path in self._plugins:
                load_plugin(path)
        return name in TARGETS
