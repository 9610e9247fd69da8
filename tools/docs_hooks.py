"""What `mkdocs build` does besides rendering the pages of docs/; `mkdocs.yml` names this file.

- A comment such as `<!-- api: face -->` becomes the API it names, read from the packages, so that
  no page has to follow a module that moves.
- Documents of the repository's root and the catalogue of diagnostics are pages, too.
- Files of the repository that a page links to become pages under `sources/`, so that the site is
  whole without the repository and without a network.
"""

from __future__ import annotations

import ast
import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

import mcm_compiler

ROOT = Path(__file__).resolve().parents[1]
CATALOG = "mcm_compiler/diagnostics/catalog"
OTHER_PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    **{
        f"{CATALOG}/{path.name}": f"reference/diagnostics/{path.name}"
        for path in sorted((ROOT / CATALOG).glob("*.md"))
    },
}
"""Documents outside docs/, and the page that each becomes."""

CONTRACTS = {
    "Passes": ("Pass", "PassContext", "AnnotationKey"),
    "Partition strategies": (
        "PartitionStrategy", "PartitionProblem", "Budget", "Outcome", "Partition", "LowerBound",
        "AsksEvaluator", "Learns", "GivesStart", "KnowsMachines", "NeedsExtra",
    ),
    "Targets and machines": (
        "Target", "PackageLimits", "Lowers", "Simulates", "EvaluatesBatches", "ShrinkableTarget",
        "SupportsOps", "Unsupported", "TakesCostModel", "TargetFamily", "Machine", "Routes",
        "FamilyMapping", "HasChipKinds", "OrdersKeys",
    ),
    "Programs and simulators": ("LoweredProgram", "ChipProgram", "Simulator", "SimulationResult"),
    "Cost models": (
        "CostModelMaker", "CostBasis", "OpCosts", "CostModel", "NodeCost", "KnowsViews",
        "CopiesViews", "KnowsHostOps", "HostTrip", "PricesGraphs",
    ),
    "Parallel plans": (
        "Planner", "PlanOptions", "PlanRequest", "PlanAnswer", "ShardingRule", "ClusterTarget",
    ),
    "Boxes and steps": (
        "BoxTarget", "Box", "StepProblem", "StepEvaluator", "StepConditions", "StepResults",
        "StepTrace", "Placer", "PlacerRequest", "PlacerAnswer", "TakesDeviceCosts",
    ),
    "Gradient rules": ("GradientRequest", "GradientOps", "NotDifferentiable"),
    "Training": ("Trainer", "TrainingRequest", "TrainingResult"),
    "Searches": ("SearchRequest", "SearchAnswer"),
    "Placement problems": (
        "PlacementCost", "PlacementProblem", "PlacementRequest", "PlacementOptions", "Placement",
    ),
    "Proofs": ("ProofChecker", "ProblemModel"),
    "Models of the zoo": ("ModelBuilder",),
    "Levels": ("Level",),
}  # fmt: skip
"""Classes of the core that plug-ins implement or are handed, by subject."""

_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
_MARK = re.compile(r"^<!-- api: (\w+) -->$", flags=re.MULTILINE)
_FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"((?:https?:)?//[^\"]+)")
_LEXERS = {".py": "python", ".toml": "toml", ".json": "json", ".yml": "yaml"}


# ---- the API ---------------------------------------------------------------------------------


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every public module of the core by its dotted name, parsed, in order."""
    for path in sorted((ROOT / "mcm_compiler").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in parts):
            yield ".".join(parts), ast.parse(path.read_text(encoding="utf-8"))


def face() -> str:
    """Directives for what `mcm_compiler` itself exports and is no contract, each at its home."""
    elsewhere = {name for names in CONTRACTS.values() for name in names} | {"__version__"}
    names = set(mcm_compiler.__all__) - elsewhere
    return "\n\n".join(
        f"::: {one.__module__}.{one.__name__}\n    options:\n      heading: {name}"
        for name in sorted(names)
        for one in (getattr(mcm_compiler, name),)
    )


def contracts() -> str:
    """Directives for the classes of `CONTRACTS`, found wherever the core defines them.

    Raises:
        ValueError: if a class is not defined anywhere.
    """
    homes: dict[str, list[str]] = {}
    for module, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(module)
    lines: list[str] = []
    for subject, names in CONTRACTS.items():
        lines.append(f"## {subject}")
        for name in names:
            if name not in homes:
                raise ValueError(f"contract {name} is defined in no module of the core")
            # Of several classes of that name, the one beside others of the subject.
            beside = Counter(module for other in names for module in homes.get(other, ()))
            home = max(homes[name], key=lambda module: beside[module])
            lines.append(f"::: {home}.{name}\n    options:\n      heading_level: 3")
    return "\n\n".join(lines)


_API = {"face": face, "contracts": contracts}


# ---- links that leave docs/ ------------------------------------------------------------------


def _page_of(path: str) -> str | None:
    """The page that stands for a path of the repository, or None if it is no such path."""
    if not (ROOT / path).exists():
        return None
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path == "README.md":
        return "index.md"
    return OTHER_PAGES.get(path) or f"sources/{path}.md"


def _repository_path(page: str) -> str:
    """The file of the repository that a page is made from."""
    return next((path for path, name in OTHER_PAGES.items() if name == page), f"docs/{page}")


def _links(page: str, text: str) -> Iterator[str]:
    """Paths of the repository that a page links to."""
    folder = posixpath.dirname(_repository_path(page))
    for link in _LINK.finditer(text):
        path = posixpath.normpath(posixpath.join(folder, link[1]))
        if _page_of(path) is not None:
            yield path


def _relinked(page: str, text: str) -> str:
    """The text of a page with links to where the site has what they lead to."""
    folder = posixpath.dirname(_repository_path(page))

    def target(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[1]))
        other = _page_of(path)
        if other is None:
            return link[0]
        return posixpath.relpath(other, posixpath.dirname(page) or ".") + (link[2] or "")

    return _LINK.sub(target, text)


def _source_page(path: str) -> str:
    """A page that shows a file of the repository, or the files of a folder one after the other."""
    place = ROOT / path
    files = sorted(place.glob("*")) if place.is_dir() else [place]
    lines = [f"# {path}", ""]
    for file in files:
        if file.is_file():
            if place.is_dir():
                lines += [f"## {file.name}", ""]
            text = file.read_text(encoding="utf-8").rstrip("\n")
            lines += [f"~~~~{_LEXERS.get(file.suffix, 'text')}", text, "~~~~", ""]
    return "\n".join(lines)


# ---- events of mkdocs ------------------------------------------------------------------------


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages outside docs/, and sources that are linked to."""
    for path, page in OTHER_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text("utf-8")))
    linked: set[str] = set()
    for file in files.documentation_pages():
        linked.update(_links(file.src_uri, file.content_string))
    for path in sorted(linked):
        page = _page_of(path)
        if page is not None and page.startswith("sources/"):
            hidden = InclusionLevel.NOT_IN_NAV
            text = _source_page(path)
            files.append(File.generated(config, page, content=text, inclusion=hidden))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Fills in the API, and turns links out of docs/ into links within the site."""
    text = _MARK.sub(lambda mark: _API[mark[1]](), markdown)
    return _relinked(page.file.src_uri, text)


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site that fetches from other hosts.

    Raises:
        ValueError: with the page and the address.
    """
    for folder, _, names in os.walk(config.site_dir):
        for name in names:
            if name.endswith(".html"):
                page = Path(folder, name)
                found = _FETCHED.search(page.read_text(encoding="utf-8"))
                if found:
                    raise ValueError(f"{page.relative_to(config.site_dir)} fetches {found[1]}")
