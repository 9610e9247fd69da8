"""Profiles: one model compiled for several sizes of its dimensions, with one set of weights."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import onnx_ir as ir

from mcm_compiler.api import compile_model, run_passes, write_report
from mcm_compiler.artifact.emit import finish_folder
from mcm_compiler.artifact.layout import MANIFEST
from mcm_compiler.artifact.manifest import PROFILE_NAME, read_manifest
from mcm_compiler.artifact.profiles import ProfileFolder, StoredWeights, adopted_manifest
from mcm_compiler.checking.entry.gate import OpenedFolder
from mcm_compiler.checking.profiles_check import check_profiles
from mcm_compiler.contracts.replication import DIVISION
from mcm_compiler.contracts.target import Target
from mcm_compiler.contracts.zoo import PREFIX
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import constant_values
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.ir.reading.importer import read_open_model
from mcm_compiler.ir.rewriting.writer import EXTERNAL_FROM_BYTES
from mcm_compiler.ir.shapes.open_sizes import tokens_dimension
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.passes import parse_pipeline, print_pipeline
from mcm_compiler.processes.staging import staging
from mcm_compiler.report.report_data import recorded
from mcm_compiler.report.state_section import prompt_row, takes_prompt
from mcm_compiler.results.compile_result import CompileResult
from mcm_compiler.text.units import count_text

FEWEST, MOST = 2, 16


@dataclass(frozen=True)
class Profile:
    """One program of a folder.

    Attributes:
        name: begins the names of its files.
        dims: sizes of symbolic dimensions.
    """

    name: str
    dims: Mapping[str, int]


def parse_profiles(texts: Sequence[str], dims: Mapping[str, int]) -> tuple[Profile, ...]:
    """Profiles in the form `NAME:DIM=N,DIM=N`.

    Args:
        texts: one for each profile.
        dims: sizes that all profiles have.

    Raises:
        CompileError: MCM-U091 for each text of another form, and for names or sizes that
            contradict each other.
    """
    found: dict[str, Profile] = {}
    faults: list[Diagnostic] = []
    for text in texts:
        name, _, rest = text.partition(":")
        own: dict[str, int] = {}
        fault = None
        if not re.fullmatch(PROFILE_NAME, name):
            fault = "its name is not of at most 64 small letters, digits, '_' and '-'"
        elif name in found:
            fault = f"the profile {quote(name)} is given twice"
        for part in rest.split(","):
            dim, equals, size = part.partition("=")
            if not (dim and equals and size.isascii() and size.isdigit() and len(size) < 19):
                fault = fault or f"{quote(part)} is not of the form DIM=N"
            elif own.setdefault(dim, int(size)) != int(size):
                fault = fault or f"dimension {quote(dim)} is {own[dim]} and {size}"
            elif dims.get(dim, own[dim]) != own[dim]:
                fault = fault or f"dimension {quote(dim)} is {size}, and --dim says {dims[dim]}"
        same = next((one.name for one in found.values() if one.dims == own), None)
        if fault is None and same is not None:
            fault = f"it has the same sizes as the profile {quote(same)}"
        if fault is not None:
            faults.append(Diagnostic("MCM-U091", fault, at=f"--profile {text}"))
        found.setdefault(name, Profile(name, own))
    if not faults and not FEWEST <= len(found) <= MOST:
        message = f"{count_text(len(found), 'profile')} given, not between {FEWEST} and {MOST}"
        faults.append(Diagnostic("MCM-U091", message, at="--profile"))
    CompileError.raise_any(faults)
    return tuple(found.values())


def compile_profiles(
    model: str | Path | ir.Model,
    target: str | Path | Target,
    options: CompileOptions,
    profiles: Sequence[Profile],
    *,
    output: Path,
    force: bool = False,
    progress: Callable[[str], None] | None = None,
) -> tuple[CompileResult, ...]:
    """Compiles a model for several sizes into one folder with one set of weights.

    The first profile decides where weights are and how often the model is on the package; the
    others keep that.

    Args:
        model: as `compile_model`.
        target: likewise.
        options: common to all profiles.
        profiles: two or more.
        output: the folder to write, whole or not at all.
        force: replace `output` if it is an output folder already.
        progress: called with the name of each stage as it begins.

    Returns:
        The result of each profile.

    Raises:
        CompileError: as `compile_model`, with the profile in its place; MCM-P087 for a profile
            that needs other weights, MCM-P088 for profiles that do not fit the SRAM together.
    """
    first, *further = profiles
    asked = _asked(model, options, profiles)
    results: list[CompileResult] = []
    with staging(output, force) as stage, staging(None) as apart:

        def compiled(profile: Profile, asked: CompileOptions) -> CompileResult:
            def show(what: str) -> None:
                if progress is not None:
                    progress(f"{profile.name}: {what}")

            folder = apart.path / profile.name
            return compile_model(model, target, asked, output=folder, progress=show)

        with _named(first):
            lead = compiled(first, asked[first.name])
        results.append(lead)
        for path in (apart.path / first.name).iterdir():
            path.rename(stage.path / path.name)
        stored, manifests = StoredWeights(stage.path), [read_manifest(stage.path)]
        for profile in further:
            with _named(profile, first):
                found = compiled(profile, _settled(model, target, asked[profile.name], lead))
                folder = apart.path / profile.name
                manifests.append(read_manifest(folder))
                stored.adopt(folder, profile.name)
            results.append(found)
        names = tuple(profile.name for profile in profiles)
        prompt = prompt_row({n: one.report or {} for n, one in zip(names, results, strict=True)})
        for at, name in enumerate(names):
            if takes_prompt(results[at].report or {}, prompt):
                folder = ProfileFolder.of(stage.path, name) if at else stage.path
                report = write_report(folder, result := replace(results[at], prompt=prompt))
                results[at] = replace(result, report=report)
                manifests[at] = recorded(manifests[at], report)
            if at:
                adopted_manifest(stage.path, name, manifests[at])
        manifest = manifests[0]
        (stage.path / MANIFEST).unlink()
        finish_folder(
            stage.path, replace(manifest, counted=replace(manifest.counted, profiles=names))
        )
        check_profiles(OpenedFolder(stage.path, read_manifest(stage.path)))
    return tuple(replace(result, folder=output) for result in results)


_LACK_OF_MEMORY = frozenset(
    {"MCM-P004", "MCM-P005", "MCM-P008", "MCM-P015", "MCM-P016", "MCM-P030", "MCM-P080"}
)
"""Codes of what may be otherwise without the weights and states of another profile."""


@contextmanager
def _named(profile: Profile, lead: Profile | None = None) -> Generator[None]:
    """Names the profile in diagnostics; lack of memory next to that of `lead` is MCM-P088."""
    try:
        yield
    except CompileError as error:
        about, found = f"profile {quote(profile.name)}", error.diagnostics
        if lead is not None:
            there = f"weights and states are where profile {quote(lead.name)} has them: "
            found = [
                Diagnostic("MCM-P088", there + one.message, at=one.at)
                if one.code in _LACK_OF_MEMORY
                else one
                for one in found
            ]
        raise CompileError([one.within(about) for one in found]) from error.__cause__


def _asked(
    model: str | Path | ir.Model, options: CompileOptions, profiles: Sequence[Profile]
) -> dict[str, CompileOptions]:
    """The options of each profile by name: sizes, and limits on what it does.

    The profile with the most tokens a step reads prompts, that with the fewest makes tokens.
    """
    sized = {one.name: {**options.dims, **one.dims} for one in profiles}
    limits = {one.name: options.serve for one in profiles}
    if options.serve and not (isinstance(model, str) and model.startswith(PREFIX)):
        opened = model if isinstance(model, ir.Model) else read_open_model(Path(model))
        tokens = tokens_dimension(opened)
        steps = {name: dims.get(tokens, 1) for name, dims in sized.items()}
        ends = {"tpot": min(steps.values()), "ttft": max(steps.values())}
        for name, step in steps.items():
            limits[name] = {n: limit for n, limit in options.serve.items() if ends[n] == step}
    return {n: replace(options, dims=sized[n], serve=limits[n] or None) for n in sized}


def _settled(
    model: str | Path | ir.Model, target: str | Path | Target, options: CompileOptions,
    lead: CompileResult,
) -> CompileOptions:  # fmt: skip
    """Options that keep the weights and states of `lead` where they are."""
    passes = parse_pipeline(options.passes)
    if lead.replication is not None and lead.replication.divided:
        passes = tuple(one.divided_as(DIVISION.get(lead.model)) for one in passes)
    text = print_pipeline(passes)
    replicas = lead.replication.replicas if lead.replication is not None else None
    rounds = lead.replication.round if lead.replication is not None else 1
    sequences = lead.program.sequences if lead.program is not None else None
    held = dict.fromkeys(state.whole for chip in lead.chips or () for state in chip.states)
    asked = replace(
        options, passes=text, pins=(), assignment=None, repair_assignment=False, round=rounds,
        replicas=replicas, sequences=sequences or options.sequences,
        state=tuple((pair.past, pair.present) for pair in held),
    )  # fmt: skip
    names = [one.name for one in passes]
    last = names.index("partition") if "partition" in names else len(names)
    prepared, *_ = run_passes(model, target, replace(asked, passes=print_pipeline(passes[:last])))
    known = {node.name for node in prepared.graph}
    pins = tuple((name, chip) for name, chip in _places(lead).items() if name in known)
    return replace(asked, pins=pins)


def _places(lead: CompileResult) -> dict[str, int]:
    """The chip of each op with weights or a state, in the order of chips and ops."""
    problem = lead.problem
    if problem is None:
        return {}
    units = zip(problem.members, problem.clonable.tolist(), strict=True)
    placed = {name for members, clonable in units if not clonable for name in members}
    found: dict[str, int] = {}
    for chip in lead.chips or ():
        held = {name for pair in chip.states for name in (pair.past, pair.present)}
        large = {value for value in constant_values(chip.model.graph) if _is_large(value)}
        for node in chip.model.graph:
            values = [value for value in (*node.inputs, *node.outputs) if value is not None]
            if (node.name or "") in placed and any(
                value.name in held or value in large for value in values
            ):
                found.setdefault(node.name or "", chip.chip)
    return found


def _is_large(weight: ir.Value) -> bool:
    sizes = static_dims(weight.shape)
    if sizes is None or weight.dtype is None:
        return True
    return math.prod(sizes) * max(weight.dtype.itemsize, 1) >= EXTERNAL_FROM_BYTES
