"""Passes of onnx_ir in pipelines, by name: `onnx_ir.RemoveUnusedNodesPass`.

One adapter serves all of `onnx_ir.passes.common`, and any other `onnx_ir.passes.PassBase` that a
plug-in hands to `adapted`. Options are the simple parameters of the constructor. Such a pass knows
nothing of facts; the manager asks it whether it modified the graph, and keeps nothing if it did.
"""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, make_dataclass
from functools import partial
from typing import Any, ClassVar, cast

import onnx_ir as ir
import onnx_ir.passes.common
from onnx_ir.passes import PassBase

from mcm_compiler.contracts.chips import OWN_PROPERTIES
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_compiler.pipeline.passes import Pass, PassContext
from mcm_compiler.registry import Registration

PREFIX = "onnx_ir."
"""Before the class of a pass of `onnx_ir.passes.common`."""

_SIMPLE: dict[Any, type] = {kind: kind for kind in (bool, int, float, str)} | {
    kind.__name__: kind for kind in (bool, int, float, str)
}


@dataclass(frozen=True)
class StockPass(Pass):
    """A pass of onnx_ir; its fields are the options that its constructor takes.

    Attributes:
        stock: the class in onnx_ir.

    Raises:
        ValueError: if the class refuses the options.
    """

    looks_at_target: ClassVar[bool] = False

    stock: ClassVar[type[PassBase]]

    def __post_init__(self) -> None:
        self._built()

    def _built(self) -> PassBase:
        options = {option.name: getattr(self, option.name) for option in fields(self)}
        return self.stock(**options)

    def run(self, model: ir.Model, context: PassContext) -> bool | None:
        """Runs the pass, in place whether it works so itself or not.

        Raises:
            CompileError: MCM-X012 with the reason if the pass refuses the model or fails.
        """
        del context
        kept = {node: _own_properties(node) for node in model.graph}
        try:
            result = self._built()(model)
        except Exception as error:  # its own types, those of onnx's checker and inference
            reason = error.__cause__ or error
            raise CompileError.of(
                "MCM-X012",
                f"'{self.name}' refuses the model: {' '.join(str(reason).split())[:500]}",
                at=f"pass '{self.name}'",
            ) from error
        modified = bool(result.modified)
        if result.model is not model:
            modified = True
            _take_over(model, result.model)
        for node in model.graph:
            node.metadata_props.update(kept.get(node, {}))
        # Where it says that it changed nothing the manager has a look of its own.
        return True if _name_what_is_new(model) or modified else None


def adapted(stock: type[PassBase], name: str) -> type[StockPass]:
    """`stock` as a pass of pipelines.

    Args:
        stock: any pass class of onnx_ir.
        name: as in the pipeline text.

    Raises:
        TypeError: if its constructor cannot do without something that is no bool, number or text.
    """
    # `inspect.getdoc` would give the text of the base class.
    summary = inspect.cleandoc(vars(stock).get("__doc__") or stock.__name__).split("\n\n")[0]
    options: list[tuple[str, type, Any]] = []
    for parameter in inspect.signature(stock).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        kind = _SIMPLE.get(parameter.annotation)
        if kind is not None and parameter.default is not parameter.empty:
            options.append((parameter.name, kind, field(default=parameter.default)))
        elif kind is not None:
            options.append((parameter.name, kind, field()))
        elif parameter.default is parameter.empty:
            raise TypeError(f"{stock.__name__} needs '{parameter.name}', which has no text form")
    namespace = {
        "__doc__": summary,
        "name": name,
        "summary": " ".join(summary.split()).rstrip("."),
        "stock": stock,
        "__module__": __name__,
    }
    made = make_dataclass(
        stock.__name__, options, bases=(StockPass,), namespace=namespace, frozen=True, kw_only=True
    )
    return cast("type[StockPass]", made)


def stock_registrations() -> Iterator[Registration[Any]]:
    """The passes of `onnx_ir.passes.common` whose constructors have a text form."""
    origin = f"onnx_ir {importlib.metadata.version('onnx_ir')}"
    for name, stock in sorted(vars(onnx_ir.passes.common).items()):
        if not isinstance(stock, type) or not issubclass(stock, PassBase):
            continue
        if inspect.isabstract(stock):
            continue
        try:
            made = adapted(stock, PREFIX + name)
        except (TypeError, ValueError):
            continue
        yield Registration(PREFIX + name, origin, partial(_same, made))


def _same(made: type[StockPass]) -> type[StockPass]:
    return made


def _own_properties(node: ir.Node) -> dict[str, str]:
    return {k: v for k, v in node.metadata_props.items() if k.startswith(OWN_PROPERTIES)}


def _take_over(model: ir.Model, other: ir.Model) -> None:
    """Makes `model` the model that a functional pass returned; its facts about itself stay."""
    model.graph = other.graph
    model.functions.clear()
    model.functions.update(other.functions)
    model.ir_version = other.ir_version


def _name_what_is_new(model: ir.Model) -> bool:
    """Names ops and values that have no name; True if there were any."""
    nodes = [node for node in model.graph if not node.name]
    values = [v for n in model.graph for v in n.outputs if not v.name and (v.uses() or
              v.is_graph_output())]  # fmt: skip
    if not nodes and not values:
        return False
    names = UnusedNames(model.graph)
    for node in nodes:
        node.name = names.take(node.op_type)
    for value in values:
        producer = value.producer()
        value.name = names.take(f"{producer.name if producer else ''}/out")
    return True
