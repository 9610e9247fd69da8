"""Tutorials and how-to pages do what they say: their files are written, their commands run.

On these pages a block with a title, such as `python title="x.py"`, is a file. In a block `console`
a line that begins with `$ ` is a command, which ends with status 0; lines below it are among those
that it prints, in that order, and `...` stands for any that are left out. All of a page happens in
one folder that is empty at first, with nothing but what a wheel brings. Commands in other blocks
are not run, only read as the command line reads them. `mcmc` is the warm one of `warm_command.py`:
pages call it a hundred times.
"""

from __future__ import annotations

import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import click
import onnx
import onnx.parser
import pytest

from mcm_compiler.cli.main import cli
from mcm_compiler.diagnostics.catalog import catalog
from tests.end_to_end.conftest import shell_output

Run = Callable[..., str]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("tutorials/*.md"), *DOCS.glob("how-to/*.md")])
WORKFLOW = DOCS / "how-to" / "examples" / "ci-workflow.yml"
NET = """<ir_version: 8, opset_import: ["": 17]>
net (float[8, 64] x) => (float[8, 64] y) { h = Sigmoid(x) y = Softmax(h) }"""
_FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_COMMAND = re.compile(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)\n?((?:(?!\$ )[^\n]*\n)*)", flags=re.MULTILINE)


@pytest.fixture
def run(tmp_path: Path, warm_mcmc: Path) -> Run:
    """Runs a command of a page in its folder, and returns what it prints, if it ends well."""

    commands = (warm_mcmc.parent, Path(sys.executable).parent)

    def output(command: str, variables: Mapping[str, str] = MappingProxyType({})) -> str:
        return shell_output(f"set -u; {command}", tmp_path, commands, variables)

    return output


def _blocks(page: Path) -> list[tuple[str, str | None, str]]:
    """Language, title and text of each block of a page."""
    found = _FENCE.findall(page.read_text(encoding="utf-8"))
    titles = [_TITLE.search(info) for _, info, _ in found]
    return [
        (language, title[1] if title else None, text)
        for (language, _, text), title in zip(found, titles, strict=True)
    ]


def _is_run(page: Path) -> bool:
    return any(language == "console" for language, _, _ in _blocks(page))


def _name(page: Path) -> str:
    return f"{page.parent.name}/{page.stem}"


def test_every_page_is_run() -> None:
    assert len(PAGES) >= 15
    assert [_name(page) for page in PAGES if not _is_run(page)] == []


@pytest.mark.parametrize("page", list(filter(_is_run, PAGES)), ids=_name)
def test_the_page_does_what_it_says(page: Path, tmp_path: Path, run: Run) -> None:
    for language, title, text in _blocks(page):
        if title is not None:
            path = tmp_path / title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif language == "console":
            commands = _COMMAND.findall(text)
            assert commands, f"no command in {text}"
            for command, shown in commands:
                _expect(command, shown.splitlines(), run)


def test_the_workflow_does_what_it_says(tmp_path: Path, run: Run) -> None:
    """The steps that call `mcmc`, with the variables of the whole workflow; kernels stay cached."""
    text = WORKFLOW.read_text(encoding="utf-8")
    variables = dict(re.findall(r"^  ([A-Z_]+): (\S+)$", text, flags=re.MULTILINE))
    steps = re.findall(r"^ {8}run: \|\n((?: {10}[^\n]*\n)+)", text, flags=re.MULTILINE)
    steps = [textwrap.dedent(step) for step in steps if "mcmc" in step]
    assert (len(variables), len(steps)) == (3, 2)
    (tmp_path / variables["MODELS"]).mkdir()
    onnx.save(onnx.parser.parse_model(NET), tmp_path / variables["MODELS"] / "net.onnx")
    # What a person chooses who starts the workflow by hand.
    variables["ACCEPT"] = "false"
    printed = "".join(run(step, variables) for step in steps)
    assert "1 model: 1 ok, 0 failed" in printed
    assert "1 folder: 1 ok, 0 failed" in printed
    assert (tmp_path / "junit.xml").is_file()
    assert (tmp_path / "check.xml").is_file()


def test_the_code_of_the_readme_runs(tmp_path: Path, run: Run) -> None:
    blocks = [text for language, _, text in _blocks(ROOT / "README.md") if language == "python"]
    (code,) = (text for text in blocks if "compile_model(" in text)
    (tmp_path / "code.py").write_text(code, encoding="utf-8")
    onnx.save(onnx.parser.parse_model(NET.replace("[8,", "[batch,")), tmp_path / "model.onnx")
    throughput, *chips = run("python code.py").splitlines()
    assert float(throughput.split()[0]) > 0
    assert chips[0].startswith("0 ('x',) ")
    assert chips[-1].endswith(" ('y',)")


def test_the_report_in_the_readme_is_what_the_command_prints(tmp_path: Path, run: Run) -> None:
    """The verdict of the demo, which the README shows up to its details."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.partition("<!-- report:begin -->\n```\n")[2].partition("```\n<!-- report:end")[0]
    make, compile_, _ = re.findall(
        r"^mcmc (?:zoo|compile|check) .*build/demo.*$", readme, re.MULTILINE
    )
    (tmp_path / "build" / "demo").mkdir(parents=True)
    run(make)
    verdict, _, _ = run(compile_).partition("\nwrote ")
    assert shown.splitlines() == verdict.splitlines()


def _expect(command: str, shown: list[str], run: Run) -> None:
    output = run(command)
    # How wide a column is depends on which plug-ins are installed.
    printed = iter(" ".join(line.split()) for line in output.splitlines())
    for line in shown:
        if line.strip() not in ("", "..."):
            assert " ".join(line.split()) in printed, f"'{line}' is not what follows in\n{output}"


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=_name)
def test_the_command_line_understands_every_command(page: Path) -> None:
    refused: list[str] = []
    for language, title, text in _blocks(page):
        if title is None and language in ("", "sh", "console"):
            for line in text.replace("\\\n", " ").splitlines():
                refused += _refused(line.removeprefix("$ "))
    assert refused == []


def test_the_command_line_understands_the_catalogue_of_diagnostics() -> None:
    refused: list[str] = []
    for entry in catalog().values():
        for code in re.findall(r"`(mcmc [^`]+ [^`]+)`", f"{entry.example} {entry.remedy}"):
            refused += _refused(code.replace("\n", " "))
    assert refused == []


def _refused(line: str) -> list[str]:
    """What the command line says against the calls of `mcmc` in a line, without running them."""
    if "mcmc " not in line or "..." in line:
        return []
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>()")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in lexer:
        if re.fullmatch(r"[|;&<>()]+", word):
            commands.append([])
        else:
            commands[-1].append(word)
    found: list[str] = []
    for words in commands:
        if words[:1] == ["mcmc"]:
            try:
                _parse(cli, words[1:])
            except click.ClickException as error:
                found.append(f"{' '.join(words)}: {error.format_message()}")
    return found


def _parse(group: click.Group, words: list[str]) -> None:
    """Has click read the words, and the options of the verb that they name.

    Raises:
        click.ClickException: for a verb, an option or a value that does not exist.
    """
    with click.Context(group) as context:
        name, verb, rest = group.resolve_command(context, list(words))
        assert name is not None
        assert verb is not None
        if isinstance(verb, click.Group) and rest and not rest[0].startswith("-"):
            _parse(verb, rest)
        elif rest not in (["--help"], []):
            verb.make_context(name, rest, parent=context)
