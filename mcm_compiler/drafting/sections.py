"""Models of a project in sections: those for which the same is said stand together."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from mcm_compiler.ci.model_list import SUFFIX
from mcm_compiler.drafting.model_draft import ModelDraft

MIN_PREFIX = 3
"""Letters that names have in common before a pattern is made of them."""


@dataclass(frozen=True)
class Section:
    """One `[[models]]` table.

    Attributes:
        files: patterns or paths.
        exclude: paths that a pattern matches, and that are left out.
        members: what is said of its models, in the order of their paths.
        name: of the only model, where it could not have that of its file.
    """

    files: tuple[str, ...]
    exclude: tuple[str, ...]
    members: tuple[ModelDraft, ...]
    name: str | None = None


def sections_of(drafts: Sequence[ModelDraft]) -> tuple[Section, ...]:
    """The sections for all models that can be read, the first model of each in order of paths."""
    unreadable = [draft.model for draft in drafts if draft.faults]
    every = [draft.model for draft in drafts]
    groups: dict[object, list[ModelDraft]] = {}
    for draft in drafts:
        if not draft.faults:
            groups.setdefault(_key(draft), []).append(draft)
    return tuple(_section(group, every, unreadable) for group in groups.values())


def _key(draft: ModelDraft) -> object:
    if draft.inputs is not None or draft.unranked:
        return draft.model  # its data, or what is missing, are its own
    ways = tuple((name, sizes.numbers()) for name, sizes in draft.profiles)
    return (draft.sizes.numbers(), ways, draft.state)


def _section(
    group: Sequence[ModelDraft], every: Sequence[str], unreadable: Sequence[str]
) -> Section:
    members = [draft.model for draft in group]
    if len(members) > 1:
        for pattern, matched in _patterns(members, every):
            beside = [model for model in matched if model not in members]
            if all(model in unreadable for model in beside):
                return Section((pattern,), tuple(map(glob.escape, beside)), tuple(group))
    return Section(tuple(map(_literal, members)), (), tuple(group))


def _patterns(members: Sequence[str], every: Sequence[str]) -> Iterable[tuple[str, list[str]]]:
    """Patterns that match all of `members`, and what each matches, the plainest first."""
    parents = {os.path.dirname(model) for model in members}
    top = os.path.commonpath(list(parents)) if all(parents) else ""
    before = f"{glob.escape(top)}/" if top else ""
    if len(parents) == 1:
        inside = [model for model in every if os.path.dirname(model) == top]
        yield f"{before}*{SUFFIX}", inside
        prefix = _common([PurePosixPath(model).stem for model in members])
        if len(prefix) >= MIN_PREFIX:
            named = [model for model in inside if PurePosixPath(model).name.startswith(prefix)]
            yield f"{before}{glob.escape(prefix)}*{SUFFIX}", named
    below = [model for model in every if not top or model.startswith(f"{top}/")]
    yield f"{before}**/*{SUFFIX}", below


def _common(names: Sequence[str]) -> str:
    """The letters that all names begin with."""
    first, last = min(names), max(names)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    return first[:same]


def _literal(model: str) -> str:
    """A path that is no pattern and no name of the zoo."""
    text = glob.escape(model)
    return f"./{text}" if text.startswith("zoo:") else text


def with_own_names(
    sections: Sequence[Section], refused: Collection[str], taken: Collection[str]
) -> tuple[Section, ...]:
    """Models whose names others have get sections and names of their own.

    Args:
        sections: of all models.
        refused: paths of those models.
        taken: names of all models, without case.
    """
    names = {*taken}
    kept: list[Section] = []
    alone: list[ModelDraft] = []
    for section in sections:
        mine = tuple(draft for draft in section.members if draft.model not in refused)
        alone += [draft for draft in section.members if draft.model in refused]
        if len(mine) == len(section.members):
            kept.append(section)
        elif mine:
            files = tuple(_literal(draft.model) for draft in mine)
            kept.append(replace(section, files=files, exclude=(), members=mine))
    for draft in alone:
        # A name of one part without a dot is inside no folder, and none of a file of the build.
        stem = "-".join(PurePosixPath(draft.model).with_suffix("").parts).replace(".", "-")
        name, number = stem, 1
        while name.casefold() in names:
            number += 1
            name = f"{stem}-{number}"
        names.add(name.casefold())
        kept.append(Section((_literal(draft.model),), (), (draft,), name))
    return tuple(kept)
