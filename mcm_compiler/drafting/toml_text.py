"""A drafted project as TOML: every size with a comment that says where it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from mcm_compiler.drafting.model_draft import ModelDraft, Sizes
from mcm_compiler.drafting.sections import Section
from mcm_compiler.drafting.solution import Found
from mcm_compiler.drafting.trials import NOT_SEEN
from mcm_compiler.text.printable import printable
from mcm_compiler.text.units import count_text

MAX_COMMENT = 160
"""Longer reasons are cut."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def project_text(
    targets: Sequence[str],
    sections: Sequence[Section],
    unreadable: Sequence[ModelDraft],
    skipped: Sequence[tuple[str, str]],
) -> str:
    """The project file.

    Args:
        targets: names of targets, or paths of descriptions.
        sections: of the models that can be read.
        unreadable: those that cannot; each becomes a comment with the code.
        skipped: files that were not looked at, and why; comments as well.
    """
    return "\n".join(_lines(targets, sections, unreadable, skipped)) + "\n"


def _lines(
    targets: Sequence[str],
    sections: Sequence[Section],
    unreadable: Sequence[ModelDraft],
    skipped: Sequence[tuple[str, str]],
) -> Iterator[str]:
    yield "# Written by `mcmc init`. Sizes that are a guess are said to be one: look at them, and"
    yield "# let `mcmc build` compile all models."
    yield ""
    yield f"targets = [{', '.join(map(quoted, targets))}]"
    for section in sections:
        yield from _section_lines(section)
    if unreadable:
        yield ""
        yield "# These cannot be read, and no section takes them:"
    for draft in unreadable:
        fault = draft.faults[0]
        yield _comment(f"{quoted(draft.model)}: {fault.code}: {fault.message}")
    if skipped:
        yield ""
        yield "# These were not looked at:"
    for name, reason in skipped:
        yield _comment(f"{quoted(name)}: {reason}")


def _section_lines(section: Section) -> Iterator[str]:
    first = section.members[0]
    yield ""
    yield "[[models]]"
    if len(section.files) == 1:
        yield f"files = {quoted(section.files[0])}{_matches(section)}"
    else:
        yield "files = ["
        yield from (f"    {quoted(file)}," for file in section.files)
        yield "]"
    if section.exclude:
        listed = ", ".join(map(quoted, section.exclude))
        yield f"exclude = [{listed}]{_remark('cannot be read, see below')}"
    if section.name is not None:
        yield f"name = {quoted(section.name)}"
    if first.inputs is not None:
        folder = first.model.rpartition("/")[0]
        yield f"inputs = {quoted(f'{folder}/{first.inputs}' if folder else first.inputs)}"
    if first.state:
        yield "state = ["
        yield from (f"    [{quoted(past)}, {quoted(now)}]," for past, now in first.state)
        yield "]"
    for name in first.unranked:
        yield _comment(f"input {quoted(name)} declares no shape: give it one in 'shapes'")
    yield from _size_lines("models", [draft.sizes for draft in section.members])
    for index, (name, _) in enumerate(first.profiles):
        yield ""
        yield "[[models.profiles]]"
        yield f"name = {quoted(name)}"
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
        yield f"{key(name)} = {found.size}{_remark(_reason(m.dims[name] for m in members))}"
    if first.shapes:
        yield f"[{table}.shapes]"
    for name, (shape, _) in first.shapes.items():
        reason = _reason(member.shapes[name][1] for member in members)
        yield f"{key(name)} = [{', '.join(map(str, shape))}]{_remark(reason)}"


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


def quoted(text: str) -> str:
    """A text as TOML's basic string."""
    escaped = "".join(map(_escaped, text))
    return f'"{escaped}"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    code = ord(char)
    if char.isprintable():
        return char
    return f"\\u{code:04X}" if code < 1 << 16 else f"\\U{code:08X}"


def key(name: str) -> str:
    """A key: bare where TOML allows it."""
    return name if _BARE.fullmatch(name) else quoted(name)
