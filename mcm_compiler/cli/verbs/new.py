"""`mcmc new`: a plug-in to begin from: a distribution with a component, tests and a README.

The files are templates in `plugin_templates`, filled in by `string.Template`; nothing that a user
types is run.
"""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import click

from mcm_compiler import registry
from mcm_compiler.cli.show import show_json
from mcm_compiler.cli.verb import FORMAT, argument, verb
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.processes.staging import staging
from mcm_compiler.text.option_fields import asked
from mcm_compiler.text.units import printable

MAX_NAME = 40
"""Characters of a name."""

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")
_RESERVED = frozenset({"tests", "conftest", "component"})


@dataclass(frozen=True)
class PluginKind:
    """A kind of plug-in and its files.

    Attributes:
        name: the word on the command line.
        module: of its package, that holds the component.
        component: its name in the module, from the plug-in's name in camel case or as a module.
        use: arguments of `mcmc` that use it by name.
        alone: what takes the place of the name without an installation; the option `--plugin` by
            default.
        further: further templates, each with its place in the package.
    """

    name: str
    module: str
    component: str
    use: str
    alone: str = ""
    further: tuple[tuple[str, str], ...] = ()

    @property
    def known(self) -> registry.Registry[Any]:
        """The components that there are."""
        return registry.REGISTRIES[self.name]

    @property
    def template(self) -> str:
        """Begins the names of its templates."""
        return self.name.replace("-", "_")

    @property
    def use_alone(self) -> str:
        """As `use`, without an installation."""
        if self.alone:
            return self.use.replace("$name", self.alone)
        return f"{self.use} --plugin $package/{self.module}.py"


KINDS = {
    kind.name: kind
    for kind in (
        PluginKind("pass", "graph_pass", "${camel}Pass",
                   'opt model.onnx --passes "simplify,$name"'),
        PluginKind("strategy", "strategy", "${camel}Strategy",
                   "compile model.onnx -o out --partitioner $name"),
        PluginKind("target", "target", "make_$package", "compile model.onnx -o out --target $name",
                   "./$package/package.toml", (("package.toml.txt", "package.toml"),)),
        PluginKind("cost-model", "cost_model", "${camel}CostModel",
                   "compile model.onnx -o out --cost-model $name"),
    )
}  # fmt: skip
"""By the word on the command line."""


@verb(("new pass my-pass", "new strategy my-search -o plugins/my-search"), plugins=False)
def command(
    kind: str = argument(type=click.Choice(list(KINDS))),
    name: str = argument(),
    output: Path | None = asked("path", "", "Folder to write.", short="-o", shown="NAME"),
    output_format: str = FORMAT,
) -> None:
    """Write a plug-in template: a distribution with a KIND named NAME, and its tests.

    The folder has pyproject.toml with the entry point, a package with the component, tests and a
    README. Install it with `pip install -e FOLDER`.
    """
    folder = output if output is not None else Path(name)
    files = write_plugin(kind, name, folder)
    if output_format == "json":
        show_json({"kind": kind, "name": name, "folder": str(folder), "files": files})
        return
    shown = printable(str(folder))
    for file in files:
        click.echo(f"{shown}/{file}")
    click.echo(f"try it: pip install -e '{shown}[test]' && pytest {shown}", err=True)


def write_plugin(word: str, name: str, folder: Path) -> list[str]:
    """Writes a plug-in, whole or not at all.

    Args:
        word: a key of `KINDS`.
        name: of the component; its package has the same with `_` for `-`.
        folder: must not exist.

    Returns:
        The files, relative to `folder`, sorted.

    Raises:
        CompileError: MCM-U070 for a name that cannot be one, MCM-U071 for one that is taken,
            MCM-A001 if the folder exists, MCM-A002 if it cannot be written.
    """
    kind = KINDS[word]
    check_name(kind, name)
    if os.path.lexists(folder):
        raise CompileError.of(
            "MCM-A001",
            "the output folder exists",
            at=str(folder),
            hint="choose another one with -o; what is there may be somebody's work",
        )
    files = plugin_files(kind, name)
    with staging(folder) as stage:
        for place, text in files.items():
            path = stage.path / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return sorted(files)


def plugin_files(kind: PluginKind, name: str) -> dict[str, str]:
    """The text of each file by its place in the folder.

    Args:
        kind: of the component.
        name: of the component, as `check_name` takes it.
    """
    package = name.replace("-", "_")
    values = {
        "name": name,
        "package": package,
        "distribution": name.replace("_", "-"),
        "camel": "".join(part.capitalize() for part in package.split("_")),
        "code": f"{package.replace('_', '-').upper()}-001",
        "kind": kind.known.kind.words,
        "key": kind.name,
        "module": kind.module,
    }
    values["component"] = Template(kind.component).substitute(values)
    values["use"] = f"mcmc {Template(kind.use).substitute(values)}"
    values["alone"] = f"mcmc {Template(kind.use_alone).substitute(values)}"
    places = {
        "pyproject.toml.txt": "pyproject.toml",
        "README.md.txt": "README.md",
        "init.py.txt": f"{package}/__init__.py",
        f"{kind.template}.py.txt": f"{package}/{kind.module}.py",
        "conftest.py.txt": "tests/conftest.py",
        f"{kind.template}_test.py.txt": f"tests/test_{package}.py",
        **{template: f"{package}/{place}" for template, place in kind.further},
    }
    templates = resources.files("mcm_compiler.cli").joinpath("plugin_templates")
    return {
        place: Template(templates.joinpath(template).read_text("utf-8")).substitute(values)
        for template, place in places.items()
    }


def check_name(kind: PluginKind, name: str) -> None:
    """Refuses a name that cannot be that of a component, a package and a distribution, or is.

    Raises:
        CompileError: MCM-U070, MCM-U071.
    """
    package = name.replace("-", "_")
    fault = None
    if len(name) > MAX_NAME:
        fault = f"it has {len(name)} characters; {MAX_NAME} are the most"
    elif not _NAME.fullmatch(name):
        fault = "it is not small letters and digits, in words that _ or - joins"
    elif keyword.iskeyword(package) or keyword.issoftkeyword(package):
        fault = "it is a word of Python"
    elif package in _RESERVED:
        fault = "a folder or module of the plug-in has that name"
    if fault is not None:
        raise CompileError.of(
            "MCM-U070", f"{quote(name[:MAX_NAME])} cannot be the name of a plug-in: {fault}"
        )
    owner = None
    for known in (name, package, package.replace("_", "-")):
        if known in kind.known.names_at_hand():
            owner = f"a {kind.known.kind.words} is named {quote(known)}"
    if owner is None and importlib.util.find_spec(package) is not None:
        owner = f"a Python module is named {quote(package)}"
    if owner is not None:
        raise CompileError.of("MCM-U071", f"{quote(name)} is taken: {owner}")
