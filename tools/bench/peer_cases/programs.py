"""The programs of the table: how each is set up and asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from peer_cases import graph_parts, one_device, onnx_splitters, pippy, refusals, stream
from peer_cases.answers import Asked, Row
from peer_cases.bars import CONTROL
from peer_cases.environments import Environment


@dataclass(frozen=True)
class Program:
    """A row of each model.

    Attributes:
        name: in tables and on the command line.
        distribution: on PyPI.
        ask: divides one model; raises PeerFailedError where the program fails.
        how: how it was set, in a sentence.
        checks: what it verifies of its own answer.
        environment: of its own; None where the project's has it.
        only: models that it is asked about; all where empty.
    """

    name: str
    distribution: str
    ask: Callable[[Asked], Row]
    how: str
    checks: str
    environment: Environment | None = None
    only: tuple[str, ...] = ()

    @property
    def quick(self) -> bool:
        """Whether it needs no installation."""
        return self.environment is None

    @property
    def installed(self) -> bool:
        """Whether nothing is left to install."""
        return self.environment is None or self.environment.tried

    def version(self) -> str:
        """Of what is installed; empty where it is not."""
        if self.environment is not None:
            return self.environment.version(self.distribution)
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return ""


def programs() -> dict[str, Program]:
    """All by name, in the order of the page."""
    return {one.name: one for one in (*_graph_programs(), *_model_programs(), *_others())}


_GRAPH = (
    "nodes weigh the time of a unit on a chip, edges that of their tensor on a link and in a relay"
)


def _graph_programs() -> list[Program]:
    def of(name: str, distribution: str, divide: Any, how: str) -> Program:
        def ask(asked: Asked) -> Row:
            return graph_parts.answer(asked, divide)

        return Program(name, distribution, ask, f"{_GRAPH}; {how}", "nothing: it returns numbers")

    return [
        of("METIS", "pymetis", graph_parts.metis, "k-way, its own balance"),
        of(
            "Scotch",
            "scotchpy64",
            graph_parts.scotch,
            "mapped onto chips in a row for one half of the seeds, onto a complete graph for the "
            "other",
        ),
        of("KaHIP", "kahip", graph_parts.kahip, "KaFFPa, mode strong, imbalance 3 %"),
        Program(
            CONTROL,
            "numpy",
            lambda asked: graph_parts.answer(asked, graph_parts.drawn),
            "the part of each op group is drawn, so that the result is that of repair alone",
            "nothing: it is no program but a control",
        ),
    ]


def _model_programs() -> list[Program]:
    return [
        Program(
            "ssp4onnx",
            "ssp4onnx",
            onnx_splitters.ssp4onnx,
            "the size of weights at which it splits is the model's over the number of parts, times "
            "each of 0.5, 1, 1.5 and 2; it counts no work",
            "nothing: it writes models and runs none",
            onnx_splitters.SSP4ONNX,
        ),
        Program(
            "Olive",
            "olive-ai",
            onnx_splitters.olive,
            "`CaptureSplitInfo` with the number of parts, on the outermost modules with numbered "
            "children, then `SplitModel`; it deals out children by number and counts no work",
            "nothing: it writes models and runs none",
            onnx_splitters.OLIVE,
        ),
        Program(
            "PiPPy",
            "torchpippy",
            pippy.answer,
            "`split_into_equal_size` on a traced graph with a module per op and parameters of the "
            "same sizes, for each number of stages up to the one asked for; it counts parameters "
            "and no work",
            "nothing here: its stages are calls of a PyTorch module",
            pippy.PIPPY,
        ),
        Program(
            "OpenVINO HETERO",
            "openvino",
            one_device.openvino,
            "`HETERO` over all devices that it finds; `query_model` says what goes where",
            "nothing: it computes, and compares with nothing",
            one_device.OPENVINO,
        ),
        Program(
            "onnxruntime",
            "onnxruntime",
            one_device.onnxruntime,
            "the whole model on one chip: it divides a graph between execution providers, not "
            "between devices of one",
            "nothing: it computes, and compares with nothing",
        ),
    ]


def _others() -> list[Program]:
    return [
        Program(
            "Stream",
            "stream-dse",
            stream.newest,
            "as pip resolves it",
            "nothing: it does not start",
            stream.NEWEST,
        ),
        Program(
            "Stream, ZigZag 2",
            "stream-dse",
            stream.answer,
            stream.HOW,
            "nothing: it writes a schedule and no models",
            stream.STREAM,
            stream.ONLY,
        ),
        *(
            Program(
                one.name,
                one.distribution,
                one.ask,
                one.how,
                "nothing: it does not install",
                one.environment,
            )
            for one in refusals.PROGRAMS
        ),
    ]
