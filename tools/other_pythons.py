"""Runs a part of the tests with other versions of Python than that of `.venv`.

    python tools/other_pythons.py [VERSION|INTERPRETER ...] [--turn N]

For each version an environment gets the project with what it declares, in the versions of
`requirements.lock`, and the plug-ins of the tests. There every module is imported, tests that need
few compiled kernels run, and a model is compiled, checked and reported. Without arguments that is
done for the versions in the classifiers of `pyproject.toml` but this one; `--turn N` does it for
one of them, another one for each N in turn. A version is found as `pythonX.Y` on the path or among
those of pyenv; one that this machine lacks is named, and is a fault only
where an argument asks for it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from without import ROOT, run

TESTS = (
    "tests/unit/compiler/components",
    "tests/unit/compiler/contracts",
    "tests/unit/compiler/diagnostics",
    "tests/unit/compiler/ir",
    "tests/unit/compiler/text",
)
PLUGINS = ("./tests/acme_passes", "./tests/acme_mesh")
NEEDED = ("pytest", "hypothesis", "hatchling")
MODEL = "zoo:gpt2-tiny"
_IMPORT_ALL = """\
import importlib, pkgutil, platform, warnings
warnings.simplefilter("error", DeprecationWarning)
count = 0
for name in ("mcm_compiler", "mcm_passes", "mcm_hardware", "mcm_models"):
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:
                assert error.name in {"jax", "optax", "distributed", "dask"}, error
            count += 1
print(f"{count} modules with Python {platform.python_version()}")
"""


def other_versions(project: str) -> list[str]:
    """The versions of Python in the classifiers of `pyproject.toml` but that of this process."""
    found = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return [version for version in found if version != own]


def interpreter_of(version: str) -> Path | None:
    """An interpreter of a version, or one that is named by its path."""
    if os.sep in version:
        return Path(version)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = [Path(place, f"python{version}") for place in os.get_exec_path()]
    for candidate in [*on_path, *sorted(pyenv.glob(f"{version}.*/bin/python"))]:
        if candidate.is_file():
            asked = [str(candidate), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
            answer = subprocess.run(asked, check=False, capture_output=True, text=True)
            if answer.stdout.strip() == version:
                return candidate
    return None


def check(interpreter: Path, folder: Path) -> None:
    """Installs the project for an interpreter, and runs all steps.

    Raises:
        SystemExit: 1, at the first step that fails.
    """
    run(interpreter, "-m", "venv", folder / "environment", cwd=folder)
    python = folder / "environment" / "bin" / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--constraint", ROOT / "requirements.lock", *NEEDED, "--editable", ROOT, cwd=folder)
    run(*pip, "--no-deps", "--no-build-isolation", *PLUGINS, cwd=ROOT)
    run(python, "-c", _IMPORT_ALL, cwd=folder)
    quiet = ("-q", "-p", "no:cacheprovider", "--assert=plain")
    run(python, "-m", "pytest", *quiet, *TESTS, cwd=ROOT)
    mcmc = (python, "-m", "mcm_compiler")
    run(*mcmc, "compile", MODEL, "--target", "mcm4", "-O0", "-o", "out", cwd=folder)
    run(*mcmc, "check", "out", cwd=folder)
    run(*mcmc, "report", "out", cwd=folder)


def main() -> int:
    """Runs all steps for each version in a folder that is removed afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION|INTERPRETER")
    parser.add_argument("--turn", type=int, metavar="N")
    asked = parser.parse_args()
    versions = other_versions((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if asked.turn is not None:
        versions = [versions[asked.turn % len(versions)]]
    for version in asked.versions or versions:
        interpreter = interpreter_of(version)
        if interpreter is None:
            print(f"this machine has no Python {version}")
            if asked.versions:
                return 1
            continue
        with tempfile.TemporaryDirectory(prefix="other_python_") as folder:
            check(interpreter, Path(folder))
        print(f"Python {version} passes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
