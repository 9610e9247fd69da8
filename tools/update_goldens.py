"""Runs the golden cases of passes, and rewrites what they expect.

A case is one text file: comment lines with the pipeline (and target), the model in ONNX's text
syntax, a line `// expected`, and the IR as `mcm_compiler.ir.rewriting.printer` prints it
afterwards. Weights that are declared without values are filled with seeded ones.

    python tools/update_goldens.py           rewrite the expected parts
    python tools/update_goldens.py --check   only say which ones differ; exit 1 if any
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx.numpy_helper
import onnx.parser
import onnx_ir as ir

from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.ir.rewriting.printer import print_model
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.pass_manager import PassManager
from mcm_compiler.pipeline.passes import PassContext, parse_pipeline
from mcm_compiler.processes.staging import StagingFolder
from mcm_compiler.registry import TARGETS

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "golden" / "passes"
SUFFIX = ".golden"
_EXPECTED = "// expected\n"


@dataclass(frozen=True)
class GoldenCase:
    """One golden file.

    Attributes:
        path: the file.
        passes: pipeline text.
        target: name of the target.
        given: everything up to the expected part.
        model_text: the model in ONNX's text syntax.
        expected: the printed IR, notes and warnings in front.
    """

    path: Path
    passes: str
    target: str
    given: str
    model_text: str
    expected: str

    def actual(self) -> str:
        """Runs the pipeline: what its passes report, and the IR that they leave."""
        model, _ = import_model(ir.from_proto(parse_filled(self.model_text)), self.path.stem)
        reports: list[Diagnostic] = []
        with tempfile.TemporaryDirectory() as folder:
            context = PassContext(
                target=TARGETS.get(self.target)(),
                options=CompileOptions(),
                staging=StagingFolder(Path(folder), None),
                report=reports.append,
            )
            PassManager(parse_pipeline(self.passes)).run(model, context)
        return "".join(f"{report}\n" for report in reports) + print_model(model)

    def rewritten(self) -> str:
        """The file with the actual result as expected."""
        return self.given + _EXPECTED + self.actual()


def parse_filled(text: str) -> onnx.ModelProto:
    """Parses a model; a declared value that nothing produces becomes a float32 weight."""
    proto = onnx.parser.parse_model(text)
    graph = proto.graph
    produced = {name for node in graph.node for name in node.output}
    rng = np.random.default_rng(0)
    for info in list(graph.value_info):
        if info.name not in produced:
            shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
            # Eighths print short.
            array = (rng.integers(1, 16, shape) / 8).astype(np.float32)
            graph.initializer.append(onnx.numpy_helper.from_array(array, info.name))
            graph.value_info.remove(info)
    return proto


def read_case(path: Path) -> GoldenCase:
    """Reads a golden file.

    Raises:
        ValueError: if it names no passes.
    """
    given, _, expected = path.read_text(encoding="utf-8").partition(_EXPECTED)
    settings: dict[str, str] = {}
    model_lines: list[str] = []
    for line in given.splitlines():
        if line.startswith("//"):
            key, _, value = line.removeprefix("//").partition(":")
            settings[key.strip()] = value.strip()
        else:
            model_lines.append(line)
    if "passes" not in settings:
        raise ValueError(f"{path}: no line '// passes: ...'")
    target = settings.get("target", "mcm36")
    return GoldenCase(path, settings["passes"], target, given, "\n".join(model_lines), expected)


def cases(folder: Path = FOLDER) -> list[GoldenCase]:
    """All golden cases, sorted by name."""
    return [read_case(path) for path in sorted(folder.glob(f"*{SUFFIX}"))]


def main() -> int:
    """Rewrites or checks all cases; see the module."""
    parser = argparse.ArgumentParser(description="Rewrite the expected parts of golden files.")
    parser.add_argument("--check", action="store_true", help="only say which differ")
    check = parser.parse_args().check
    differing = 0
    for case in cases():
        text = case.rewritten()
        if text == case.path.read_text(encoding="utf-8"):
            continue
        differing += 1
        print(f"{'differs' if check else 'rewritten'}: {case.path.name}")
        if not check:
            case.path.write_text(text, encoding="utf-8")
    return 1 if check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
