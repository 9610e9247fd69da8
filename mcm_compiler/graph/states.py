"""State: what one inference hands to the next one of its sequence, as a KV cache is.

A state is a graph input, the *past*, and a graph output, the *present*, which is the past of the
next step. Where a state stays on its chip, neither of them crosses the host's link.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.diagnostics import Diagnostic, Severity, quote
from mcm_compiler.graph.annotations import AnnotationKey, properties_of
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.text.units import count_text


@dataclass(frozen=True)
class StatePair:
    """One state.

    Attributes:
        past: graph input.
        present: graph output.
    """

    past: str
    present: str


@dataclass(frozen=True)
class States:
    """The states of a model.

    Attributes:
        pairs: in the order of the graph's inputs.
        sequences: whose states a chip has space for at once, at least.
    """

    pairs: tuple[StatePair, ...]
    sequences: int = 1


STATES: AnnotationKey[States] = AnnotationKey("states", derived_from=())
"""The states of the model, by name or by the user's word; there from the import on."""

STATES_PROPERTY = "mcm.states"
"""Key in `model.metadata_props`: the states of a training step, a JSON list of pairs of names."""

_PAST = re.compile(r"^past(?:_key_values)?(?=[._]|$)")
_CACHE = re.compile(r"cache|past|state")
_READ = re.compile(r"(?:_in|_old|_prev)$|^(?:in|old|prev)_")
_FIRST = re.compile(r"(?:_in|_?0)$|^(?:in|prev)_")
_LAST = re.compile(r"(?:_out|_?[nN]|_new|_next)$|^(?:out|new|next)_")
_RECURRENT = re.compile(r"^[hc]$|state|hidden|cell|mem|cache|context|ctx", re.IGNORECASE)
_OF_AN_ENCODER = re.compile(r"encoder_|\.encoder|cross")

MAX_NAMED = 3
"""Pairs that a diagnostic names."""


def find_states(
    graph: ir.Graph, asked: Sequence[tuple[str, str]] | None
) -> tuple[tuple[StatePair, ...], list[Diagnostic]]:
    """The states of a graph with its shapes.

    Args:
        graph: the graph.
        asked: pasts and presents that the user names; None to go by names that exporters give,
            such as `past_key_values.0.key` and `present.0.key`, and by ops that append.

    Returns:
        The pairs, and diagnostics: errors, MCM-P050 and MCM-P051, about pairs that the user names.
        Warnings about pairs whose names fit and whose shapes do not, MCM-P051, and about caches
        without a present, MCM-P081; a note on pairs that may be states, MCM-P082.
    """
    inputs = {v.name or "": v for v in graph.inputs if v.name not in graph.initializers}
    outputs = {v.name or "": v for v in graph.outputs}
    if asked is None:
        pairs, severity = customary_pairs(inputs, outputs), Severity.WARNING
    else:
        if faults := _name_faults(asked, inputs, outputs):
            return (), faults
        pairs, severity = [StatePair(*pair) for pair in asked], Severity.ERROR
    misfits = {pair: misfit(inputs[pair.past], outputs[pair.present]) for pair in pairs}
    found = [pair for pair, why in misfits.items() if why is None]
    told = _do_not_fit({pair: why for pair, why in misfits.items() if why is not None}, severity)
    if asked is None:
        told += _unpaired(inputs, outputs, pairs)
    place = {name: index for index, name in enumerate(inputs)}
    return tuple(sorted(found, key=lambda pair: place[pair.past])), told


def recorded_states(model: ir.Model) -> list[tuple[str, str]] | None:
    """The states that a training step has on record, those whose names the graph still has.

    Returns:
        Pairs for `find_states`; None for a model without a record, or with one that is none.
    """
    try:
        pairs = json.loads(model.metadata_props.get(STATES_PROPERTY, ""))
        found = [(str(past), str(present)) for past, present in pairs]
    except (ValueError, TypeError):
        return None
    pasts = {value.name for value in model.graph.inputs}
    presents = {value.name for value in model.graph.outputs}
    return [(past, present) for past, present in found if past in pasts and present in presents]


IN_PLACE_PROPERTY = "mcm.in_place"
"""Key in a node's `metadata_props`: numbers of the outputs that are written where a past is."""

_PASTS: Mapping[tuple[str, str], Mapping[int, int]] = {
    ("", "Concat"): {0: 0},
    ("", "TensorScatter"): {0: 0},
    ("", "Attention"): {1: 4, 2: 5},
    ("com.microsoft", "Attention"): {1: 4},
    ("com.microsoft", "GroupQueryAttention"): {1: 3, 2: 4},
    ("com.microsoft", "MultiHeadAttention"): {1: 6, 2: 7},
}
"""Of ops that put new tokens behind old ones: the input by the output that it grows into."""


def appended(past: ir.Value, present: ir.Value) -> bool:
    """True where a present is its past with more behind it, so that it can grow in place."""
    maker = present.producer()
    if maker is None:
        return False
    position = _PASTS.get((maker.domain, maker.op_type), {}).get(present.index() or 0, -1)
    inputs = maker.inputs
    return 0 <= position < len(inputs) and inputs[position] is past and inputs.count(past) == 1


def kept_bytes(past: ir.Value, present: ir.Value, size: int) -> int:
    """The part of a present of `size` bytes that a later step reads: of a window its last tokens.

    A window counts where its op alone reads the past and nothing reads the present.
    """
    maker, shape = present.producer(), static_dims(present.shape)
    if maker is None or shape is None or maker.op_type != "GroupQueryAttention":
        return size
    window = maker.attributes.get_int("local_window_size", -1) or -1
    alone = appended(past, present) and len(past.uses()) == 1 and not present.uses()
    if not alone or not 0 < window < shape[2]:
        return size
    return -(-size * window // shape[2])


def mark_in_place(graph: ir.Graph, pairs: Collection[StatePair]) -> None:
    """Marks the ops whose presents grow in the memory of their pasts, which costs read.

    Args:
        graph: changed in place; marks of earlier calls go.
        pairs: states that stay on a chip.
    """
    for node in graph:
        if IN_PLACE_PROPERTY in properties_of(node):
            del node.metadata_props[IN_PLACE_PROPERTY]
    inputs = {value.name: value for value in graph.inputs}
    outputs = {value.name: value for value in graph.outputs}
    for pair in pairs:
        past, present = inputs.get(pair.past), outputs.get(pair.present)
        if past is None or present is None or not appended(past, present):
            continue
        maker = present.producer()
        assert maker is not None, "what is appended to is made"
        marks = {*maker.metadata_props.get(IN_PLACE_PROPERTY, "").split(), str(present.index())}
        maker.metadata_props[IN_PLACE_PROPERTY] = " ".join(sorted(marks))


def written_in_place(node: ir.Node) -> dict[int, tuple[int, int]]:
    """The input that each marked output of an op grows from, and the elements that are new."""
    found: dict[int, tuple[int, int]] = {}
    for mark in map(int, properties_of(node).get(IN_PLACE_PROPERTY, "").split()):
        position = _PASTS.get((node.domain, node.op_type), {}).get(mark)
        past = node.inputs[position] if position is not None else None
        # Slices and joins of what an op makes have its metadata, and no past.
        if position is None or past is None or not past.is_graph_input():
            continue
        new = _elements(node.outputs[mark]) - _elements(past)
        # In one buffer for all tokens, the new ones are as many as those that come in.
        given = _elements(node.inputs[1]) or _elements(node.inputs[0])
        found[mark] = position, new if new > 0 else given
    return found


def _elements(value: ir.Value | None) -> int:
    return math.prod(static_dims(value.shape) or (0,)) if value is not None else 0


def copies_held(past: ir.Value, present: ir.Value, sequences: int) -> int:
    """Buffers of the size of `present` that states of `sequences` sequences take on a chip.

    A present that does not grow in place is written while the past is still read: one buffer more,
    which goes round.
    """
    return sequences if appended(past, present) else sequences + 1


def customary_pairs(
    inputs: Mapping[str, ir.Value], outputs: Mapping[str, ir.Value]
) -> list[StatePair]:
    """Pasts and presents by names that exporters give, or else by the ops that append to pasts.

    As `Concat` appends to anything, it counts only where it continues several inputs of one shape,
    such as keys and values.
    """
    free = dict.fromkeys(outputs)
    pairs: list[StatePair] = []
    for past in inputs:
        present = next((name for name in _present_names(past) if name in free), None)
        if present is not None:
            del free[present]
            pairs.append(StatePair(past, present))
    taken = {pair.past for pair in pairs}
    ends = [(past, outputs[name]) for name in free if (past := _continued(outputs[name]))]
    ends = [ends for ends in ends if (ends[0].name or "") in inputs.keys() - taken]
    joined = Counter(str(past.shape) for past, present in ends if _joins(present))
    return pairs + [
        StatePair(past.name or "", present.name or "")
        for past, present in ends
        if not _joins(present) or (joined[str(past.shape)] > 1 and len(past.shape or ()) > 2)
    ]


def is_named_as_cache(past: str) -> bool:
    """True for an input with the name of a past."""
    return _CACHE.search(past) is not None


def _continued(present: ir.Value) -> ir.Value | None:
    maker = present.producer()
    reads = maker.inputs if maker is not None else ()
    return next((past for past in reads if past is not None and appended(past, present)), None)


def _joins(present: ir.Value) -> bool:
    maker = present.producer()
    return maker is not None and maker.op_type == "Concat"


def _present_names(past: str) -> list[str]:
    """Names that exporters give to the output of a past."""
    if (found := _PAST.match(past)) is not None:
        rest = past[found.end() :]
        # Optimum names the decoder's part of an encoder-decoder's cache on both sides.
        return [f"{word}{rest}" for word in ("present", "present_key_values")]
    if _CACHE.search(past) is None:
        return []
    stem = _READ.sub("", past)
    names = [f"{stem}_{word}" for word in ("out", "new", "next", "updated")]
    names += [f"{word}_{stem}" for word in ("out", "new", "next", "updated", "present")]
    return [*names, *([stem] if stem != past else [])]


def _name_faults(
    asked: Sequence[tuple[str, str]], inputs: dict[str, ir.Value], outputs: dict[str, ir.Value]
) -> list[Diagnostic]:
    faults: list[Diagnostic] = []
    for kind, names, known in (
        ("input", [past for past, _ in asked], inputs),
        ("output", [present for _, present in asked], outputs),
    ):
        for name, count in Counter(names).items():
            if name not in known:
                what = f"the model has no {kind} {quote(name)}"
                hint = f"its {kind}s: {', '.join(map(quote, known)) or 'none'}"
            elif count > 1:
                what = f"{kind} {quote(name)} is in {count} states"
                hint = "an input is the past of one state, an output the present of one"
            else:
                continue
            faults.append(Diagnostic("MCM-P050", what, at="option state", hint=hint))
    return faults


def misfit(past: ir.Value, present: ir.Value) -> str | None:
    """Why an output cannot be the next step's input, or None."""
    if past.dtype is None or past.dtype != present.dtype:
        return f"the past is {past.type}, the present {present.type}"
    before, after = past.shape, present.shape
    if before is None or after is None or not before.is_static() or not after.is_static():
        return f"the past is {before}, the present {after}, and sizes must be known"
    old, new = list(before.numpy()), list(after.numpy())
    if len(old) != len(new):
        return f"the past is {old}, the present {new}"
    grows = [axis for axis, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    if len(grows) > 1 or any(new[axis] < old[axis] for axis in grows):
        return f"the past is {old}, the present {new}: at most one axis may grow"
    return None


def _do_not_fit(misfits: Mapping[StatePair, str], severity: Severity) -> list[Diagnostic]:
    if not misfits:
        return []
    pair, why = next(iter(misfits.items()))
    more = f", and {len(misfits) - 1} more pairs do not fit" if len(misfits) > 1 else ""
    return [
        Diagnostic(
            "MCM-P051",
            f"{quote(pair.present)} is no state that {quote(pair.past)} can take in the next "
            f"step: {why}{more}",
            at=f"input {named_pasts(misfits)}",
            severity=severity,
        )
    ]


def named_pasts(pairs: Collection[StatePair]) -> str:
    """The first pasts of some states, for the place of a diagnostic."""
    named = [quote(pair.past) for pair in pairs][:MAX_NAMED]
    return ", ".join(named) + (", ..." if len(pairs) > MAX_NAMED else "")


def _unpaired(
    inputs: Mapping[str, ir.Value], outputs: Mapping[str, ir.Value], pairs: Sequence[StatePair]
) -> list[Diagnostic]:
    """Diagnostics of caches without a present, and of pairs that may be states."""
    taken = {name for pair in pairs for name in (pair.past, pair.present)}
    free = [name for name in outputs if name not in taken]
    alone = [name for name in inputs if name not in taken]
    told: list[Diagnostic] = []
    # The keys and values of an encoder are the same in all steps.
    caches = [name for name in alone if _PAST.match(name) and not _OF_AN_ENCODER.search(name)]
    if caches:
        pasts = [StatePair(name, "") for name in caches]
        told.append(
            Diagnostic(
                "MCM-P081",
                f"no output belongs to {count_text(len(caches), 'input')} with a cache's name: "
                f"{quote(_present_names(caches[0])[0])} is expected, and missing",
                at=f"input {named_pasts(pasts)}",
                hint="name the pairs with `--state past=present`; free outputs: "
                f"{', '.join(map(quote, free[:MAX_NAMED])) or 'none'}",
            )
        )
    likely = [
        StatePair(past, present)
        for past in alone
        if past not in caches
        for present in free
        if _may_follow(past, present)
        and inputs[past].shape == outputs[present].shape
        and misfit(inputs[past], outputs[present]) is None
    ]
    if likely:
        asked = " ".join(f"--state {pair.past}={pair.present}" for pair in likely)
        told.append(
            Diagnostic(
                "MCM-P082",
                f"{count_text(len(likely), 'pair')} of an input and an output may be states of a "
                "streaming network, by their names and shapes",
                at=f"input {named_pasts(likely)}",
                hint=f"if they are, keep them on their chips: {asked}",
            )
        )
    return told


def _may_follow(past: str, present: str) -> bool:
    """True for the names of a recurrent state before and after a step."""
    stem = _FIRST.sub("", past)
    return present != past and _LAST.sub("", present) == stem and bool(_RECURRENT.search(stem))
