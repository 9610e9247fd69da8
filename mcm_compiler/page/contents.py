"""Contents of a page: answers, and sections of text, tables and pictures, as plain data.

Whoever makes a page fills these records, and `page_bytes` writes them. Texts may come from models:
they are escaped there, and nothing here is markup but `Section.drawings`.

A page of a model with 100,000 ops holds millions of numbers; as JSON they would be ten times as
long, and slow to read. `unpack.js` of the page reads them.

A page as one HTML file that needs nothing else: no network, no other file.

The file holds its own script and style, and allows nothing but these two by their hashes. Every
text of a page is escaped where it is written; what the script draws comes as JSON in a block that
no browser runs, in which nothing can end the block.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt

from mcm_compiler.artifact import layout
from mcm_compiler.report.hardware.sensitivity_section import SENSITIVITY_SECTION
from mcm_compiler.report.sentences import round_of
from mcm_compiler.report.verdict.claims import verdict_of
from mcm_compiler.text.units import count_text, printable

if TYPE_CHECKING:
    from jinja2 import Template

    from mcm_compiler.certificate.claims import Certificate
    from mcm_compiler.checking.entry.gate import OpenedFolder
    from mcm_compiler.contracts.program import LoweredProgram
    from mcm_compiler.contracts.target import Target
    from mcm_compiler.report.records.verdict import VerdictLine

Tone = Literal["good", "warn", "bad", "plain"]
"""How an answer is meant; the page shows it by a sign and a word next to the colour."""

NOT_MEASURED = (
    "Times are simulated from target descriptions and given kernel times; no hardware was measured."
)
"""Said at the foot of pages with such times."""


@dataclass(frozen=True)
class Answer:
    """An answer at a glance.

    Attributes:
        question: what a reader asks.
        answer: some words or a figure, in large type.
        details: sentences below it.
        tone: how it is meant.
        section: key of the section that says more, or "".
    """

    question: str
    answer: str
    details: tuple[str, ...] = ()
    tone: Tone = "plain"
    section: str = ""


@dataclass(frozen=True)
class Table:
    """A table; every row has a cell per head.

    Attributes:
        heads: of the columns.
        rows: texts.
        numbers: columns that are aligned to the right.
        caption: what it shows, or "".
        links: relative address of the first cell of each row, or "" for none; empty for no links.
        words: columns of words that stay in one line.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    caption: str = ""
    links: tuple[str, ...] = ()
    words: frozenset[int] = frozenset()


@dataclass(frozen=True)
class View:
    """A picture that the page's script draws.

    Attributes:
        kind: which one: the name of a module of `tools/report_page/src/views`.
        data: what it draws, as JSON; arrays and long lists of texts are packed by
            `pack_whole` and its like.
        label: what it shows, for those who do not see it.
    """

    kind: str
    data: Mapping[str, Any]
    label: str


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        key: its anchor, unique in the page.
        title: its heading.
        lead: paragraphs.
        view: its picture.
        tables: below the picture.
        folded: whether the tables are shown on demand only; a print shows them always.
        drawings: pictures that need no script, as markup of `mcm_compiler.page.scatter`
            and nothing else: it is not escaped again.
    """

    key: str
    title: str
    lead: tuple[str, ...] = ()
    view: View | None = None
    tables: tuple[Table, ...] = ()
    folded: bool = False
    drawings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """A whole page.

    Attributes:
        title: of the page, such as `resnet50.onnx on mcm36`.
        facts: what it is about, in a line below the title.
        answers: at a glance.
        sections: in their order.
        foot: who made it, and of what.
    """

    title: str
    facts: tuple[str, ...] = ()
    answers: tuple[Answer, ...] = ()
    sections: tuple[Section, ...] = ()
    foot: tuple[str, ...] = ()


def linked(answers: Iterable[Answer], sections: Iterable[Section]) -> tuple[Answer, ...]:
    """The answers, without links to sections that are not there."""
    there = {section.key for section in sections}
    return tuple(
        answer if answer.section in there else replace(answer, section="") for answer in answers
    )


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled model.

    Attributes:
        report: as from `build_report`.
        folder: that it is in; None for a report by itself, which has fewer pictures.
        measured: data of `ring_times` where its chips ran as processes; else None.
    """

    report: Mapping[str, Any]
    folder: OpenedFolder | None = None
    measured: Mapping[str, Any] | None = None

    @cached_property
    def program(self) -> LoweredProgram | None:
        """Lowered program of the chips; None where nothing was lowered."""
        if self.folder is None or layout.PROGRAM not in self.folder.manifest.files:
            return None
        return self.folder.program

    @cached_property
    def certificate(self) -> Certificate | None:
        """Problem, placement and bounds; None where nothing was placed."""
        return None if self.folder is None else self.folder.certificate

    @cached_property
    def target(self) -> Target | None:
        """The package."""
        return None if self.folder is None else self.folder.target

    @cached_property
    def roles(self) -> list[tuple[int, int, int]]:
        """Chip of the package, its pipeline, and the chip of a pipeline whose model it runs."""
        replication = self.report.get("replication") or {}
        if roles := replication.get("chips"):
            return [(role["chip"], role["pipeline"], role["runs"]) for role in roles]
        return [(row["chip"], 0, row["chip"]) for row in self.report["chips"] or ()]

    @cached_property
    def replicas(self) -> int:
        """Pipelines side by side."""
        return (self.report.get("replication") or {"replicas": 1})["replicas"]

    @cached_property
    def chips_each(self) -> int:
        """Chips from one pipeline to the next; 0 where there is one."""
        replication = self.report.get("replication")
        return replication["chips_each"] if replication and self.replicas > 1 else 0


class Packed(TypedDict):
    """Bytes in base64, deflated, and what they are: `f8`, `f4`, `i4`, `u2`, `u1`, or `texts`."""

    type: str
    data: str


_TYPES = {
    "f8": np.dtype("<f8"),
    "f4": np.dtype("<f4"),
    "i4": np.dtype("<i4"),
    "u2": np.dtype("<u2"),
    "u1": np.dtype("u1"),
}

LEVEL = 6
"""Of zlib."""


def pack_floats(values: npt.ArrayLike) -> Packed:
    """Numbers with seven digits."""
    return _pack("f4", np.asarray(values))


def pack_sizes(values: npt.ArrayLike) -> Packed:
    """Sizes and addresses in bytes, whole up to 2^53."""
    return _pack("f8", np.asarray(values))


def pack_whole(values: npt.ArrayLike) -> Packed:
    """Whole numbers below 2^31, in as few bytes as they need."""
    array = np.asarray(values, np.int64)
    least, most = int(array.min(initial=0)), int(array.max(initial=0))
    if least < -(2**31) or most >= 2**31:
        raise ValueError(f"{least} to {most} are no 32-bit numbers")
    kind = "i4" if least < 0 or most >= 2**16 else "u2" if most >= 2**8 else "u1"
    return _pack(kind, array)


def pack_texts(texts: Sequence[str]) -> Packed:
    """Texts, printable as everywhere in a report."""
    encoded = json.dumps([printable(text) for text in texts], separators=(",", ":"))
    return {"type": "texts", "data": _encoded(encoded.encode())}


def _pack(kind: str, array: npt.NDArray[Any]) -> Packed:
    return {"type": kind, "data": _encoded(np.ascontiguousarray(array, _TYPES[kind]).tobytes())}


def _encoded(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, LEVEL)).decode("ascii")


SECTIONS = {
    "fits": "memory",
    "throughput": "timeline",
    "serves": "states",
    "states": "memory",
    "optimality": "bound",
    "limited by": "bottleneck",
    "idle": "package",
    "next": SENSITIVITY_SECTION,
    "verified": "verification",
}
"""The section that says more, by the label of a line."""

STALLS = {
    "input": "for its inputs to be computed",
    "link": "for its inputs to arrive",
    "buffer": "for full buffers (back-pressure)",
}
"""Why a chip waits, in words."""


def answer_of(line: VerdictLine, sections: Mapping[str, str]) -> Answer:
    """A line of a verdict, with the section that shows more by the line's label."""
    details, section = tuple(line["details"]), sections.get(line["label"], "")
    return Answer(line["label"], line["headline"], details, line["tone"], section)


def answers_of(compiled: Compiled) -> tuple[Answer, ...]:
    """The lines of the verdict as they are, and what to deploy."""
    found = [answer_of(line, SECTIONS) for line in verdict_of(compiled.report)["lines"]]
    if (deploy := _deploy(compiled)) is not None:
        found.append(deploy)
    return tuple(found)


def _deploy(compiled: Compiled) -> Answer | None:
    if compiled.folder is None:
        return None
    entries = compiled.folder.manifest.chips
    if not entries:
        return None
    first, last = entries[0].file, entries[-1].file
    shown = first if len(entries) == 1 else f"{first} to {last}"
    details = [
        f"{count_text(len(entries), 'plain ONNX model')} with .data files, for any onnxruntime",
        "manifest.json says which tensor goes from where to where",
    ]
    if (classes := round_of(compiled.report)) > 1:
        details.append(
            f"a round has {classes} inferences; those of class k have names that end in @k"
        )
    if compiled.replicas > 1:
        role = "the same model" if len(entries) == 1 else "each model"
        details.insert(1, f"{role} on {compiled.replicas} chips, one chip of every replica")
    return Answer("to deploy", shown, tuple(details), "plain", "files")


SCRIPT, STYLE, TEMPLATE = "page.js", "page.css", "page.html.jinja"
"""Files of the folder `assets`; `tools/report_page` builds the first two."""

ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath "
    "fill='%230b57c2' d='M1 1h6v6h-6zM9 1h6v6h-6zM1 9h6v6h-6z'/%3E%3Cpath fill='%23b3a369' "
    "d='M9 9h6v6h-6z'/%3E%3C/svg%3E"
)
"""Icon of a page: four chips, one of them busy."""

_HEAD = (
    b'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    b'<meta http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;; '
    b"script-src &#39;sha256-"
)
"""Beginning of all pages, up to what differs from version to version."""


def is_page(path: Path) -> bool:
    """Return whether a file is such a page, judging by its beginning.

    Raises:
        OSError: if it cannot be read.
    """
    with path.open("rb") as stream:
        return stream.read(len(_HEAD)) == _HEAD


def page_bytes(page: Page) -> bytes:
    """The file. Equal pages give equal bytes."""
    script, style = asset(SCRIPT), asset(STYLE)
    views = {s.key: {"kind": s.view.kind, "data": s.view.data} for s in page.sections if s.view}
    text = _template().render(
        page=page,
        style=_markup(style),
        script=_markup(script),
        data=_markup(json_block({"views": views})),
        policy=content_security_policy(script, style),
        icon=ICON,
    )
    return text.encode("utf-8", "backslashreplace")


def content_security_policy(script: str, style: str) -> str:
    """Policy of the page: run this script, use this style, and nothing else."""
    return (
        f"default-src 'none'; script-src '{source_hash(script)}'; "
        f"style-src '{source_hash(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def json_block(data: Any) -> str:
    """JSON for a `script` element of a type that is not run: nothing in it can end the element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def asset(name: str) -> str:
    """A file of the folder `assets`."""
    return (files("mcm_compiler.page") / "assets" / name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["shown"] = printable
    environment.filters["drawn"] = _markup
    return environment.from_string(asset(TEMPLATE))


def _markup(text: str) -> Any:
    """Text of our own that goes into the page as it is."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - the page's own files, and JSON without markup


def source_hash(text: str) -> str:
    """A script or style as a content security policy names it."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
