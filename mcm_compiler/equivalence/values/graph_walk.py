"""Numbering a graph: every value by the op that makes it and what that reads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.equivalence.values import value_numbers
from mcm_compiler.equivalence.values.own_identities import OwnIdentities, is_like_no_other
from mcm_compiler.equivalence.values.value_numbers import NodeScope

MAX_OPS = 20_000_000
"""Ops that are looked at, with those of functions for each of their calls."""

ABSENT = -1
"""In place of a number: a function's parameter that the call leaves out."""

Numbers = dict[ir.Value, int]
Call = tuple[ir.OperatorIdentifier, tuple[int | None, ...], Hashable, int]


class GraphWalk:
    """Numbers the values of one model.

    Args:
        numbers: the table.
        model: the model.
        identities: gives ops that are like no other theirs.
        placeholders: whether `ConstantOfShape` stands for weights, each of its own.
        trusted_shapes: whether the declared shapes of this model are facts. What a chip declares is
            none: there the shapes of the source's values count.
        compute: whether ops on constants are to be computed.

    Attributes:
        names: the first name of each number that is made, also within functions; of a model whose
            shapes are trusted.
    """

    def __init__(
        self,
        numbers: value_numbers.ValueNumbers,
        model: ir.Model,
        identities: OwnIdentities,
        *,
        placeholders: bool = False,
        trusted_shapes: bool = False,
        compute: bool = True,
    ) -> None:
        self._numbers = numbers
        self._model = model
        self._functions = model.functions
        self._identities = identities
        self._placeholders = placeholders
        self._trusted = trusted_shapes
        self._compute = compute
        self.names: dict[int, str] = {}
        self._calls: dict[Call, tuple[int, ...]] = {}
        self._open: set[ir.OperatorIdentifier] = set()
        self._ops = 0

    def initializers(self, graph: ir.Graph, known: Numbers) -> None:
        """Numbers the weights of a graph; what is given to one from outside takes its place."""
        for value in graph.initializers.data.values():
            if value.const_value is not None and value not in known:
                known[value] = self._numbers.weight(value.const_value)

    def run(
        self, known: Numbers, after: Callable[[ir.Node, Numbers], object] | None = None
    ) -> None:
        """Numbers all values of the main graph.

        Args:
            known: numbers of the inputs; takes all others.
            after: called after each node of the main graph; may give its outputs other numbers.
        """
        graph = self._model.graph
        self.initializers(graph, known)
        scope = NodeScope(self._model.opset_imports)
        for node in graph:
            self._identities.node = node.name or ""
            self._node(node, known, scope)
            if after is not None:
                after(node, known)

    def _node(self, node: ir.Node, known: Numbers, scope: NodeScope) -> None:
        self._ops += 1
        if self._ops > MAX_OPS:
            raise CompileError.of(
                "MCM-V068",
                f"functions expand to more than {MAX_OPS:,} ops, which are not compared",
                at=f"model '{self._model.graph.name}'",
            )
        inputs = [None if v is None else self._number(v, known) for v in node.inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        outputs = self._special(node, inputs, known, scope)
        if outputs is None:
            outputs = self._general(node, inputs, known, scope)
        known.update(zip(node.outputs, outputs, strict=False))
        if scope.depth == 0 and self._trusted:
            self._keep(node, outputs)

    def _number(self, value: ir.Value, known: Numbers) -> int | None:
        """The number of what a node reads; a value that nobody gave is like no other."""
        number = known.get(value)
        if number is None:
            number = known[value] = self._numbers.unknown()
        return None if number == ABSENT else number

    def _results(self, values: Sequence[ir.Value], known: Numbers) -> list[int]:
        return [n if (n := self._number(v, known)) is not None else ABSENT for v in values]

    def _keep(self, node: ir.Node, outputs: Sequence[int]) -> None:
        for value, number in zip(node.outputs, outputs, strict=False):
            self.names.setdefault(number, value.name or "")
            if (
                number not in self._numbers.shapes
                and (shape := value_numbers.static_shape(value)) is not None
            ):
                self._numbers.shapes[number] = shape

    def _special(
        self, node: ir.Node, inputs: Sequence[int | None], known: Numbers, scope: NodeScope
    ) -> Sequence[int] | None:
        """The outputs of an op that has a rule of its own, or None."""
        if self._functions:
            identifier = node.op_identifier()
            if identifier in self._functions and identifier not in self._open:
                return self._called(identifier, node, inputs, scope)
        if value_numbers.domain_of(node) != value_numbers.ONNX_DOMAIN:
            return None
        match node.op_type:
            case "Constant":
                return self._constant(node, scope)
            case "Identity" if inputs and inputs[0] is not None:
                return (inputs[0],)
            case "Dropout" if self._is_off(inputs) and inputs[0] is not None:
                rest = self._general(node, inputs, known, scope)[1:]
                return (inputs[0], *rest)
            case "If":
                return self._taken_branch(node, inputs, known, scope)
            case "Shape" | "Size":
                return self._extents(node, inputs, scope)
            case "ConstantOfShape" if self._placeholders and inputs:
                return self._placeholder(node, inputs, scope)
            case _:
                return None

    def _general(
        self, node: ir.Node, inputs: Sequence[int | None], known: Numbers, scope: NodeScope
    ) -> Sequence[int]:
        numbers = self._numbers
        domain = value_numbers.domain_of(node)
        version = scope.opsets.get(domain, scope.opsets.get(node.domain, 1))
        resolved = self._resolved(node, scope)
        draws = scope.draws
        bodies = tuple(
            [
                (attribute.name, self._bodies(attribute, known, scope))
                for attribute in resolved
                if attribute.type in value_numbers.GRAPHS
            ]
        )
        if node.op_type == "Range" and domain == value_numbers.ONNX_DOMAIN:
            inputs = [self._as_scalar(number) for number in inputs]
        key = value_numbers.OpKey(
            domain,
            node.op_type,
            node.overload,
            value_numbers.definition_version(domain, node.op_type, version),
            self._attributes(resolved, domain, node.op_type, version),
            tuple(inputs),
            value_numbers.existing_outputs(node, resolved),
            bodies,
        )
        if scope.draws > draws or is_like_no_other(key, numbers):
            scope.draws += 1
            identity: Hashable = (
                ("within", scope.depth, scope.draws)
                if scope.depth
                else self._identities.of(key, node.outputs[0].name or "" if node.outputs else "")
            )
            if scope.depth == 0:
                scope.draws = 0
            return numbers.outputs(key._replace(identity=identity))
        outputs = numbers.outputs(key)
        if not bodies and all(n is None or n in numbers.constant for n in inputs):
            numbers.constant.update(outputs)
            if scope.depth == 0 and self._compute and inputs:
                self._want(key, node, resolved, scope, outputs)
        return outputs

    def _want(
        self,
        key: value_numbers.OpKey,
        node: ir.Node,
        attributes: tuple[ir.Attr, ...],
        scope: NodeScope,
        outputs: Sequence[int],
    ) -> None:
        numbers = self._numbers
        if all(numbers.known_content(n) is not None for n in outputs):
            return
        number = numbers.of(key)
        opsets = tuple(sorted({("" if d == "ai.onnx" else d): v for d, v in scope.opsets.items()}
                              .items()))  # fmt: skip
        numbers.pending.setdefault(
            number, value_numbers.ConstantOp(number, key, node, attributes, opsets)
        )

    def _attributes(
        self, resolved: Sequence[ir.Attr], domain: str, op_type: str, version: int
    ) -> tuple[tuple[str, Hashable], ...]:
        if not resolved:
            return ()
        defaults = value_numbers.default_attributes(domain, op_type, version)
        found: list[tuple[str, Hashable]] = []
        for attribute in resolved:
            if attribute.type in value_numbers.GRAPHS:
                continue
            key = value_numbers.attribute_key(attribute, self._numbers.contents)
            if attribute.name not in defaults or defaults[attribute.name] != key:
                found.append((attribute.name, key))
        return tuple(sorted(found, key=lambda pair: pair[0]))

    def _resolved(self, node: ir.Node, scope: NodeScope) -> tuple[ir.Attr, ...]:
        """The attributes, with those of a call where the body of a function refers to them."""
        found: list[ir.Attr] = []
        # Past the view, which is interpreted code.
        for attribute in node.attributes.data.values():
            if not attribute.is_ref():
                found.append(attribute)
                continue
            given = scope.attributes.get(attribute.ref_attr_name or "")
            if given is not None:
                found.append(ir.Attr(attribute.name, given.type, given.value))
        return tuple(found)

    def _constant(self, node: ir.Node, scope: NodeScope) -> Sequence[int] | None:
        resolved = self._resolved(node, scope)
        if len(resolved) != 1:
            return None
        tensor = value_numbers.constant_tensor(resolved[0])
        return None if tensor is None else (self._numbers.weight(tensor),)

    def _is_off(self, inputs: Sequence[int | None]) -> bool:
        """Return whether a Dropout with these inputs is not in training."""
        training = inputs[2] if len(inputs) > 2 else None
        if training is None:
            return True
        content = self._numbers.known_content(training)
        return content is not None and not bool(self._numbers.contents.array(content).any())

    def _taken_branch(
        self, node: ir.Node, inputs: Sequence[int | None], known: Numbers, scope: NodeScope
    ) -> Sequence[int] | None:
        content = self._numbers.known_content(inputs[0]) if inputs else None
        if content is None:
            return None
        condition = self._numbers.contents.array(content)
        if condition.size != 1:
            return None
        name = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
        branch = next((a for a in self._resolved(node, scope) if a.name == name), None)
        if branch is None or branch.type is not ir.AttributeType.GRAPH:
            return None
        graph = branch.as_graph()
        self.initializers(graph, known)
        for inner in graph:
            self._node(inner, known, scope)
        return self._results(graph.outputs, known)

    def _extents(
        self, node: ir.Node, inputs: Sequence[int | None], scope: NodeScope
    ) -> Sequence[int] | None:
        if not inputs or inputs[0] is None or not self._compute:
            return None
        content = self._numbers.known_content(inputs[0])
        shape = (
            self._numbers.contents.shape(content)
            if content is not None
            else self._numbers.shapes.get(inputs[0])
        )
        if shape is None:
            return None
        if node.op_type == "Size":
            return (self._numbers.weight_of_array(np.array(int(np.prod(shape)), np.int64)),)
        attributes = {a.name: int(a.value) for a in self._resolved(node, scope)}
        taken = shape[attributes.get("start", 0) : attributes.get("end", len(shape))]
        return (self._numbers.weight_of_array(np.array(taken, np.int64)),)

    def _placeholder(
        self, node: ir.Node, inputs: Sequence[int | None], scope: NodeScope
    ) -> Sequence[int] | None:
        extents = self._numbers.known_content(inputs[0])
        if extents is None:
            return None
        version = scope.opsets.get(value_numbers.ONNX_DOMAIN, 1)
        fill = self._attributes(self._resolved(node, scope), "", node.op_type, version)
        name = node.outputs[0].name or ""
        number = self._numbers.of(value_numbers.PlaceholderKey(name, fill, extents))
        self._numbers.constant.add(number)
        return (number,)

    def _as_scalar(self, number: int | None) -> int | None:
        """A constant of one element is as good as a scalar for Range, and onnxruntime wants one."""
        content = self._numbers.known_content(number)
        if content is None:
            return number
        shape = self._numbers.contents.shape(content)
        if not shape or int(np.prod(shape)) != 1:
            return number
        return self._numbers.weight_of_array(self._numbers.contents.array(content).reshape(()))

    def _called(
        self,
        identifier: ir.OperatorIdentifier,
        node: ir.Node,
        inputs: Sequence[int | None],
        scope: NodeScope,
    ) -> Sequence[int]:
        function = self._functions[identifier]
        given = {a.name: a for a in self._resolved(node, scope)}
        plain = not any(a.type in value_numbers.GRAPHS for a in given.values())
        contents, rows = self._numbers.contents, sorted(given.items()) if plain else ()
        keys = tuple((name, value_numbers.attribute_key(a, contents)) for name, a in rows)
        call = (identifier, tuple(inputs), keys, scope.depth)
        if plain and call in self._calls:
            return self._calls[call]
        attributes = {
            a.name: a
            for a in function.attributes.values()
            if a.value is not None and not a.is_ref()
        } | given
        known: Numbers = dict.fromkeys(function.inputs, ABSENT)
        known |= {
            value: number
            for value, number in zip(function.inputs, inputs, strict=False)
            if number is not None
        }
        inner = NodeScope(function.opset_imports, attributes, scope.depth, scope.draws)
        self._open.add(identifier)
        drawn = self._identities.given
        for body_node in function:
            self._node(body_node, known, inner)
        self._open.discard(identifier)
        outputs = tuple(self._results(function.outputs, known))
        if plain and inner.draws == scope.draws and self._identities.given == drawn:
            self._calls[call] = outputs
        scope.draws = inner.draws
        return outputs

    def _bodies(self, attribute: ir.Attr, known: Numbers, scope: NodeScope) -> Hashable:
        graphs = (
            [attribute.as_graph()]
            if attribute.type is ir.AttributeType.GRAPH
            else list(attribute.as_graphs())
        )
        return tuple(self._body(graph, known, scope) for graph in graphs)

    def _body(self, graph: ir.Graph, known: Numbers, scope: NodeScope) -> Hashable:
        inner = NodeScope(scope.opsets, scope.attributes, scope.depth + 1, 0)
        for index, value in enumerate(graph.inputs):
            known[value] = self._numbers.of(value_numbers.InputKey("", "", inner.depth, index))
        self.initializers(graph, known)
        for node in graph:
            self._node(node, known, inner)
        scope.draws += inner.draws
        return (len(graph.inputs), tuple(self._results(graph.outputs, known)))
