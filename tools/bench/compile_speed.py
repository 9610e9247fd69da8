"""How long a compile takes, and how much memory, in fresh processes as a user starts them.

`resnet50_compile_s` and `bert_large_compile_s` are whole runs of `mcmc compile` on a file, from
the start of the process to its exit, with everything jitted in the cache; emitting and verifying
are part of them. `resnet50_cold_compile_s` has an empty jit cache, as right after installation.
`bert_large_rss_beyond_weights_gib` is the largest resident set of that compile without the pages
of memory-mapped weight files. `chain_compile_cpu_s` and `fan_compile_cpu_s` are CPU seconds of a
chain of 50,000 ops and of 20,000 ops that read one tensor, whose results are added up a hundred at
a time: in onnxruntime the time of one `Sum` grows faster than with the square of its inputs, and
that of 20,000 was stopped for taking too long, so that no outputs were compared.
`MODEL_check_over_compile_cpu` is CPU time of `mcmc check` over that of the compile that it checks,
measured in turn. Every figure is a median; a cold compile, the large graphs and the memory of
BERT-large are measured once.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.bars import Bar, median_bar
from harness.children import MCMC, run_child
from harness.command_line import Settings, run_script

GIB = float(1 << 30)
LARGE_REPETITIONS = 3
"""Timed runs of BERT-large, after one that warms the caches."""

MAX_TERMS = 100
"""Inputs of one `Sum`."""

CHECKED = ("resnet50", "inception-v3", "bert-large", "gpt2")
"""Models of the zoo whose folders are checked; the first two alone where it has to be quick."""

_Op = tuple[str, list[str], str, dict[str, float]]
"""Type, inputs, output and attributes."""


def measure(settings: Settings) -> list[Bar]:
    """All bars, or those of `--help` and of small models where `settings.quick`."""
    with tempfile.TemporaryDirectory(prefix="mcm-bench-") as name:
        folder = Path(name)
        bars = [*_help(settings), *_resnet50(folder, settings), *_checks(folder, settings)]
        if not settings.quick:
            bars += [*_bert_large(folder), *_large_graphs(folder)]
    return bars


def _help(settings: Settings) -> Sequence[Bar]:
    run_child([MCMC, "--help"])
    samples = [run_child([MCMC, "--help"]).seconds for _ in range(settings.repetitions + 2)]
    return [median_bar("help_s", samples, 0.3)]


def _resnet50(folder: Path, settings: Settings) -> Sequence[Bar]:
    model = folder / "resnet50.onnx"
    run_child([MCMC, "zoo", "resnet50", "-o", model])
    command = _compile(model)
    empty_cache = {"NUMBA_CACHE_DIR": str(folder / "empty_cache")}
    cold_s = run_child(command, empty_cache).seconds
    run_child(command)
    warm_s = [run_child(command).seconds for _ in range(settings.repetitions)]
    return [
        median_bar("resnet50_compile_s", warm_s, 5.0),
        median_bar("resnet50_cold_compile_s", [cold_s], 20.0),
    ]


def _checks(folder: Path, settings: Settings) -> Sequence[Bar]:
    bars: list[Bar] = []
    for name in CHECKED[:2] if settings.quick else CHECKED:
        output = folder / f"{name}.checked"
        command = [MCMC, "compile", f"zoo:{name}", "--target", "mcm36", "-o", output, "--force"]
        ratios: list[float] = []
        for _ in range(settings.repetitions):
            compile_s = run_child(command).cpu_s
            ratios.append(run_child([MCMC, "check", output]).cpu_s / compile_s)
        bars.append(median_bar(f"{name}_check_over_compile_cpu", ratios, 0.8))
    return bars


def _bert_large(folder: Path) -> Sequence[Bar]:
    model = folder / "bert-large.onnx"
    run_child([MCMC, "zoo", "bert-large", "-o", model])
    command = [*_compile(model), "--partitioner", "dp"]
    # The run whose memory is sampled also warms the caches.
    beyond_bytes = run_child(command, beyond=folder).peak_beyond_bytes or 0
    seconds = [run_child(command).seconds for _ in range(LARGE_REPETITIONS)]
    return [
        median_bar("bert_large_compile_s", seconds, 20.0),
        median_bar("bert_large_rss_beyond_weights_gib", [beyond_bytes / GIB], 1.0),
    ]


def _large_graphs(folder: Path) -> Sequence[Bar]:
    chain, fan = folder / "chain.onnx", folder / "fan.onnx"
    write_chain(chain, 50_000)
    write_fan(fan, 20_000)
    return [
        median_bar(f"{model.stem}_compile_cpu_s", [run_child(_compile(model)).cpu_s], 20.0)
        for model in (chain, fan)
    ]


def write_chain(path: Path, nodes: int) -> None:
    """Writes a model whose ops each read the one before."""
    ops: list[_Op] = [
        ("Relu" if i % 2 else "Neg", [f"t{i}"], f"t{i + 1}", {}) for i in range(nodes)
    ]
    _write(path, ops)


def write_fan(path: Path, nodes: int) -> None:
    """Writes a model whose ops all read one input, and are added up; no two are equal."""
    ops: list[_Op] = [
        ("LeakyRelu", ["t0"], f"t{i + 1}", {"alpha": (i + 1) / (4 * nodes)}) for i in range(nodes)
    ]
    terms = [op[2] for op in ops]
    while len(terms) > 1:
        groups = [terms[i : i + MAX_TERMS] for i in range(0, len(terms), MAX_TERMS)]
        terms = [f"s{len(ops) + i}" for i in range(len(groups))]
        ops += [("Sum", group, made, {}) for group, made in zip(groups, terms, strict=True)]
    _write(path, ops)


def _write(path: Path, ops: Sequence[_Op]) -> None:
    import onnx
    from onnx import helper

    nodes: list[onnx.NodeProto] = []
    for i, (kind, read, made, fields) in enumerate(ops):
        node = helper.make_node(kind, read, [made], name=f"n{i}")
        node.attribute.extend(helper.make_attribute(key, value) for key, value in fields.items())
        nodes.append(node)
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [8, 64])
        for name in ("t0", ops[-1][2])
    ]
    graph = helper.make_graph(nodes, path.stem, ends[:1], ends[1:])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)


def _compile(model: Path) -> list[str | Path]:
    output = model.with_suffix(".mcm36")
    return [MCMC, "compile", model, "--target", "mcm36", "-o", output, "--force"]


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
