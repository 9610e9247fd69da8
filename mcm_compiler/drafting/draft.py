"""Drafting a project: the models of a folder, one by one, and the file that names them all.

A drafted project as TOML: every size with a comment that says where it comes from.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from mcm_compiler.ci.batch import lost_process
from mcm_compiler.ci.model_list import SUFFIX, files_below
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.drafting.model_draft import ModelDraft, Sizes
from mcm_compiler.drafting.solution import Found
from mcm_compiler.drafting.trials import NOT_SEEN
from mcm_compiler.processes.crash_journal import CrashJournal
from mcm_compiler.project.cells import names_in_the_way
from mcm_compiler.project.reader import parse_project
from mcm_compiler.text.toml_description import toml_key, toml_text
from mcm_compiler.text.units import count_text, printable


@dataclass(frozen=True)
class Listing:
    """The models of a folder.

    Attributes:
        models: paths below it, with slashes, sorted.
        skipped: files that no project can name or should, and why.
    """

    models: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]


def list_folder(root: Path) -> Listing:
    """The models at any depth; passed over are hidden names, links to folders, output folders.

    Raises:
        CompileError: MCM-U041 if there is no such folder, MCM-U034 if it holds no model.
    """
    if not root.is_dir():
        kind = "is a file" if root.exists() else "does not exist"
        raise CompileError.of("MCM-U041", f"the folder of the project {kind}", at=quote(str(root)))
    models: list[str] = []
    skipped: list[tuple[str, str]] = []
    inside = os.path.realpath(root)
    for model in map(str, files_below(root)):
        if not model.endswith(SUFFIX):
            continue
        if os.path.commonpath([inside, os.path.realpath(root / model)]) != inside:
            skipped.append((model, "a link that leads out of the folder"))
        elif not _is_text(model):
            skipped.append((model, "its name is not UTF-8, which TOML needs"))
        else:
            models.append(model)
    if not models and not skipped:
        raise CompileError.of(
            "MCM-U034", f"the folder holds no *{SUFFIX} file at any depth", at=quote(str(root))
        )
    return Listing(tuple(models), tuple(sorted(skipped)))


def draft_text(
    path: Path, targets: Sequence[str], drafts: Sequence[ModelDraft], listing: Listing
) -> str:
    """The text of a project file, read back before it is given.

    Args:
        path: where it will lie.
        targets: names of targets, or paths.
        drafts: of all models.
        listing: that they come from.

    Raises:
        CompileError: MCM-U034 if no model can be read, with what is wrong with the first; MCM-B001
            to MCM-B006 if the reader refuses the text.
    """
    readable = [draft for draft in drafts if not draft.faults]
    unreadable = [draft for draft in drafts if draft.faults]
    if not readable:
        first = unreadable[0].faults if unreadable else ()
        raise CompileError(
            [
                Diagnostic(
                    "MCM-U034",
                    "the folder holds no model that can be read",
                    at=quote(str(path.parent)),
                    hint="export the models again",
                ),
                *first,
            ]
        )
    sections = sections_of(drafts)
    while True:
        text = "\n".join(_lines(targets, sections, unreadable, listing.skipped)) + "\n"
        refused, taken = names_in_the_way(parse_project(path, text))
        if not refused:
            return text
        sections = with_own_names(sections, refused, taken)


def lost(model: str, exit_code: int | None, journal: CrashJournal) -> ModelDraft:
    """A draft whose process died: the model cannot be read."""
    fault = lost_process("read the model", model, exit_code, journal)
    return ModelDraft(model, faults=(fault,))


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


MAX_COMMENT = 160
"""Longer reasons are cut."""


def _lines(
    targets: Sequence[str],
    sections: Sequence[Section],
    unreadable: Sequence[ModelDraft],
    skipped: Sequence[tuple[str, str]],
) -> Iterator[str]:
    """Lines of the project file.

    Args:
        targets: names of targets, or paths of descriptions.
        sections: of the models that can be read.
        unreadable: those that cannot; each becomes a comment with the code.
        skipped: files that were not looked at, and why; comments as well.
    """
    yield "# Written by `mcmc init`. Sizes that are a guess are said to be one: look at them, and"
    yield "# let `mcmc build` compile all models."
    yield ""
    yield f"targets = [{', '.join(map(toml_text, targets))}]"
    for section in sections:
        yield from _section_lines(section)
    if unreadable:
        yield ""
        yield "# These cannot be read, and no section takes them:"
    for draft in unreadable:
        fault = draft.faults[0]
        yield _comment(f"{toml_text(draft.model)}: {fault.code}: {fault.message}")
    if skipped:
        yield ""
        yield "# These were not looked at:"
    for name, reason in skipped:
        yield _comment(f"{toml_text(name)}: {reason}")


def _section_lines(section: Section) -> Iterator[str]:
    first = section.members[0]
    yield ""
    yield "[[models]]"
    if len(section.files) == 1:
        yield f"files = {toml_text(section.files[0])}{_matches(section)}"
    else:
        yield "files = ["
        yield from (f"    {toml_text(file)}," for file in section.files)
        yield "]"
    if section.exclude:
        listed = ", ".join(map(toml_text, section.exclude))
        yield f"exclude = [{listed}]{_remark('cannot be read, see below')}"
    if section.name is not None:
        yield f"name = {toml_text(section.name)}"
    if first.inputs is not None:
        folder = first.model.rpartition("/")[0]
        yield f"inputs = {toml_text(f'{folder}/{first.inputs}' if folder else first.inputs)}"
    if first.state:
        yield "state = ["
        yield from (f"    [{toml_text(past)}, {toml_text(now)}]," for past, now in first.state)
        yield "]"
    for name in first.unranked:
        yield _comment(f"input {toml_text(name)} declares no shape: give it one in 'shapes'")
    yield from _size_lines("models", [draft.sizes for draft in section.members])
    for index, (name, _) in enumerate(first.profiles):
        yield ""
        yield "[[models.profiles]]"
        yield f"name = {toml_text(name)}"
        yield from _size_lines(
            "models.profiles", [draft.profiles[index][1] for draft in section.members]
        )


def _matches(section: Section) -> str:
    if any(char in section.files[0] for char in "*?["):
        return _remark(count_text(len(section.members), "model"))
    return ""


def _size_lines(table: str, members: Sequence[Sizes]) -> Iterator[str]:
    first = members[0]
    if first.dims:
        yield f"[{table}.dims]"
    for name, found in first.dims.items():
        yield f"{toml_key(name)} = {found.size}{_remark(_reason(m.dims[name] for m in members))}"
    if first.shapes:
        yield f"[{table}.shapes]"
    for name, (shape, _) in first.shapes.items():
        reason = _reason(member.shapes[name][1] for member in members)
        yield f"{toml_key(name)} = [{', '.join(map(str, shape))}]{_remark(reason)}"


def _reason(members: Iterable[Found]) -> str:
    """Where a size comes from, of all models of a section together."""
    found = list(members)
    guesses = sum(one.guessed for one in found)
    reasons = list(dict.fromkeys(one.reason for one in found))
    if len(reasons) == 1:
        return reasons[0]
    if not guesses:
        return f"{reasons[0]}, and the like in {count_text(len(found) - 1, 'other model')}"
    text = "a guess" if guesses == len(found) else f"a guess for {guesses} of {len(found)} models"
    unseen = [one.reason for one in found if NOT_SEEN in one.reason]
    return f"{text}, {len(unseen)} of them {NOT_SEEN}" if unseen else text


def _remark(text: str) -> str:
    return f"  {_comment(text)}"


def _comment(text: str) -> str:
    plain = printable(text)
    return f"# {plain if len(plain) <= MAX_COMMENT else plain[: MAX_COMMENT - 3] + '...'}"


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
