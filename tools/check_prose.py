"""Check prose against the style guide: terms, length of sentences, first words of docstrings.

    python tools/check_prose.py                         # part of make lint
    python tools/check_prose.py --list FILE...          # all findings of these files
    python tools/check_prose.py --update [--allow-raise]

Prose is the docstrings of production Python, the catalogue of diagnostics, README.md,
CONTRIBUTING.md and the pages of docs. Code spans, code blocks and targets of links are skipped.
Pages of tutorials, instructions, explanations and results have a limit of words; tables and parts
that scripts write do not count.
`tools/data/prose.json` has the number of findings that each file may have; a file without an entry
may have none. `--update` lowers the numbers, and raises them only with `--allow-raise`.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RATCHET = Path(__file__).parent / "data" / "prose.json"
PATTERNS = (
    "mcm_compiler/**/*.py",
    "hardware/mcm_hardware/**/*.py",
    "passes/mcm_passes/**/*.py",
    "models/mcm_models/**/*.py",
    "mcm_compiler/diagnostics/catalog/*.md",
    "README.md",
    "CONTRIBUTING.md",
    "docs/**/*.md",
)
MAX_WORDS = 35
PAGE_WORDS = {"tutorials": 800, "how-to": 600, "explanation": 1200, "results": 500}
"""Most words of a page by its folder."""

TERMS = {
    r"tells?|told": "reports, shows, says which",
    r"foretells?|foretold": "predicts",
    r"held against": "compared with, checked against",
    r"anew|again and again": "again, re-",
    r"mend(?:s|ed|ing)?": "fix",
    r"beside": "next to, in addition to",
    r"(?:comes?|came|coming) to": "is, amounts to",
    r"so many": "N, or the number",
    r"whom": "which",
    r"lies": "is (in)",
    r"judges?|judged": "simulator, flit simulator",
    r"fast model": "analytic model, roofline",
    r"rooms?": "package (of code), free memory (of chips)",
    r"houses?": "the project",
    r"to the bit": "bit-identical",
    r"number of pipelines": "number of replicas",
    r"for good(?=[^\w]*(?:$|[.,;:)]|(?:and|or|by|when|where|if)\b))": "permanently",
    r"doubtful": "unverified",
    r"array of multipliers": "MAC array",
    r"what holds it back": "bottleneck",
    r"(?:has|have) the word": "decides",
    r"some \d[\d,.]*": "about N",
}
"""Better words by a pattern of whole words, in any case."""

PAGE_TERMS = {
    **TERMS,
    r"side by side": "in parallel, next to each other",
    r"plays?|played": "simulates, simulated",
    r"(?<!bounding\s)box(?:es)?(?![\w-])": "host",
}
"""Terms of Markdown, which users read; docstrings may have those that `TERMS` lacks."""


def _pattern(terms: Iterable[str]) -> re.Pattern[str]:
    one = "|".join(f"(\\b(?:{term})\\b)" for term in terms).replace(" ", r"\s+")
    return re.compile(one, re.IGNORECASE)


_TERM, _PAGE_TERM = _pattern(TERMS), _pattern(PAGE_TERMS)
_BETTER = [*PAGE_TERMS.values()]
_OPENING = re.compile(r"(?:What|Whether|Who|Whom)\b")
_SENTENCE = re.compile(r"(?<!e\.g\.)(?<!i\.e\.)(?<!\bal\.)(?<=[.!?])[\"')\]*]*\s+")
_CODES = re.compile(r"\bX(?:, X\b)+")
_CODE = re.compile(r"(`+)[^`].*?\1|\]\([^)]*\)|<[^<>]*>|https?://\S+|\$[^$\n]+\$", re.DOTALL)
_ITEM = re.compile(r"\s*(?:[-*+>|]|\d+[.)])\s+|#+ |\*\*[\w ]+:\*\*|!!!")
_WRITTEN = re.compile(
    r"<!-- (?:begin ([\w-]+)|([\w-]+):begin) -->.*?<!-- (?:end \1|\2:end) -->", re.DOTALL
)
_ENTRY = re.compile(r"\s+\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*: ")

Lines = list[tuple[int, str]]


class Finding(NamedTuple):
    """A place in a file and its fault."""

    line: int
    text: str


def findings(name: str, text: str) -> list[Finding]:
    """All findings in a Python or Markdown file, by line."""
    found: list[Finding] = []
    is_python = name.endswith(".py")
    most = None if is_python else PAGE_WORDS.get(Path(name).parent.name)
    if most is not None and (words := page_words(text)) > most:
        found.append(Finding(1, f"page of {words:,} words: {most:,} at most"))
    for line, prose_text in _docstrings(text) if is_python else [(1, text)]:
        if is_python and (opening := _OPENING.match(prose_text)):
            better = "an imperative verb or a noun phrase"
            found.append(Finding(line, f"docstring opens with '{opening[0]}': {better}"))
        lines = [*enumerate(prose_text.splitlines(), line)]
        for paragraph in _paragraphs(lines, docstring=is_python):
            found += _in_paragraph(paragraph, _TERM if is_python else _PAGE_TERM)
    return sorted(found)


def page_words(text: str) -> int:
    """Words of a page without code, tables, pictures and parts that scripts write."""
    written = _WRITTEN.sub("", text)
    lines = ["" if line.startswith(("|", "![")) else line for line in written.splitlines()]
    parts = _paragraphs([*enumerate(lines, 1)], docstring=False)
    return sum(_words(_plain("\n".join(line for _, line in part))) for part in parts)


def raised(found: Mapping[str, Sequence[Finding]], allowed: Mapping[str, int]) -> list[str]:
    """Files that have more findings than they may."""
    return [name for name, each in found.items() if len(each) > allowed.get(name, 0)]


def prose(root: Path) -> dict[str, list[Finding]]:
    """Findings of every file of prose below `root`, by path with slashes."""
    paths = sorted({path for pattern in PATTERNS for path in root.glob(pattern)})
    return {
        (name := path.relative_to(root).as_posix()): findings(
            name, path.read_text(encoding="utf-8")
        )
        for path in paths
    }


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Each text that is a statement, without indentation, with the line that it begins on."""
    nodes: list[ast.AST] = [ast.parse(source)]
    while nodes:
        for child in ast.iter_child_nodes(nodes.pop()):
            match child:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield child.lineno, inspect.cleandoc(text)
                case ast.stmt() | ast.ExceptHandler():
                    nodes.append(child)
                case _:
                    pass


def _paragraphs(lines: Lines, *, docstring: bool) -> Iterator[Lines]:
    """Paragraphs, items of lists, cells of tables and entries of sections; no blocks of code."""
    part: Lines = []
    fence, before = "", ""
    for number, line in lines:
        bare = line.strip()
        deep = line.startswith("    ")
        opened = re.match(r"```+|~~~+", bare)
        # A block of code is indented after a blank line, but for what belongs to an item of a list.
        code = deep and not part and before[:1] not in {" ", "-", "*", ""}
        if opened or fence or not bare or code:
            yield part
            part = []
            if opened and not fence:
                fence = opened[0]
            elif bare == fence:
                fence = ""
            continue
        left = docstring and part and before.startswith(" ") and not line.startswith(" ")
        head = _ITEM.match(line) or (docstring and _ENTRY.match(line))
        if head or left:
            yield part
            part = []
        *cells, last = bare.split("|") if bare[0] == "|" else [line[head.end() if head else 0 :]]
        yield from ([(number, cell)] for cell in cells)
        part.append((number, last))
        before = line
    yield part


def _in_paragraph(lines: Lines, terms: re.Pattern[str]) -> Iterator[Finding]:
    # A list of names is no long sentence.
    text = _CODES.sub("X", _plain("\n".join(line for _, line in lines)))
    for term in terms.finditer(text):
        better = _BETTER[(term.lastindex or 1) - 1]
        word = " ".join(term[0].split())
        yield Finding(_line(lines, text, term.start()), f"'{word}': {better}")
    start = 0
    for end in [*(gap.start() for gap in _SENTENCE.finditer(text)), len(text)]:
        sentence = text[start:end]
        if (words := _words(sentence)) > MAX_WORDS:
            first = start + len(sentence) - len(sentence.lstrip())
            text_of = f"sentence of {words} words: {MAX_WORDS} at most"
            yield Finding(_line(lines, text, first), text_of)
        start = end


def _plain(text: str) -> str:
    """A text with X for each span of code, without targets of links; lines stay."""
    return _CODE.sub(lambda code: ("X" if code[1] else " ") + "\n" * code[0].count("\n"), text)


def _words(text: str) -> int:
    return sum(any(map(str.isalnum, word)) for word in text.split())


def _line(lines: Lines, text: str, offset: int) -> int:
    return lines[text.count("\n", 0, offset)][0]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 where a file has more findings than it may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", nargs="+", metavar="FILE", help="print all findings of files")
    parser.add_argument("--update", action="store_true", help="write the present numbers")
    parser.add_argument("--allow-raise", action="store_true", help="with --update: raise, too")
    asked = parser.parse_args(arguments)
    if asked.list:
        for name in asked.list:
            _print(name, findings(name, Path(name).read_text(encoding="utf-8")))
        return 0
    allowed: dict[str, int] = json.loads(RATCHET.read_text(encoding="utf-8"))
    found = prose(ROOT)
    more = raised(found, allowed)
    if asked.update and (asked.allow_raise or not more):
        numbers = {name: len(each) for name, each in found.items() if each}
        RATCHET.write_text(json.dumps(numbers, indent=0) + "\n", encoding="utf-8")
        return 0
    for name in more:
        _print(name, found[name])
        print(f"{name}: {len(found[name])} findings, {allowed.get(name, 0)} allowed")
    return int(bool(more))


def _print(name: str, found: Sequence[Finding]) -> None:
    print(*(f"{name}:{line}: {text}" for line, text in found), sep="\n", end="\n" * bool(found))


if __name__ == "__main__":
    sys.exit(main())
