"""Every sharding rule holds: parts of an op, run on their own, make up the whole op.

Each factor of every example that can be divided is cut in two, in three, and unevenly. Every part
runs as a model of one node, with what the rule gives it of the operands, in the form that
`shard_form` says. Results are put together as the kind of the factor says.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from onnx import defs

from mcm_compiler.contracts.sharding.notation import parse_rule
from mcm_compiler.contracts.sharding.rules import FactorKind
from mcm_passes.parallelism.rules.graph_rules import RegisteredRule, RuleTable
from mcm_passes.parallelism.rules.operators import FAMILIES, ONNX_RULES

TOOLS = Path(__file__).parents[2] / "tools"
DIVIDED = [family for family in FAMILIES if family != "undivided"]
TABLE = RuleTable({name: RegisteredRule(name, m, "here") for name, m in ONNX_RULES.items()})

drawn = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def tool():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        yield lambda name: importlib.import_module(f"sharding_examples.{name}")


def checked(tool, example):
    """The op, whose rule holds and is read as it is written."""
    op = tool("parts").DividedOp.of(example, TABLE)
    sizes = {f.name: f.size for f in op.rule.factors}
    assert parse_rule(str(op.rule), sizes) == op.rule
    assert op.differences() == []
    return op


@pytest.mark.parametrize("operator", sorted(o for f in DIVIDED for o in FAMILIES[f]))
def test_parts_make_up_the_whole(operator, tool):
    found = [e for f in tool("tables").FAMILIES.values() for e in f if e.operator == operator]
    tried = set().union(*(checked(tool, example).cuts_tried for example in found))
    assert tried == set(tool("parts").CUTS)


def test_examples_stand_with_their_family(tool):
    for family, found in tool("tables").FAMILIES.items():
        assert {e.operator for e in found} == set(FAMILIES[family])


def test_all_kinds_of_factors_are_tried(tool):
    examples = [e for found in tool("tables").FAMILIES.values() for e in found]
    kinds = Counter(
        factor.kind
        for example in examples
        for factor in tool("parts").DividedOp.of(example, TABLE).rule.factors
    )
    assert set(kinds) == set(FactorKind)


@pytest.mark.parametrize(
    ("operator", "wrong"),
    [
        ("Softmax", "a b c -> a b c"),
        ("MatMul", "a m k+max, k+max n -> a m n"),
        ("ReduceMean", "a b+sum c, _ -> a 1 c"),
        ("Transpose", "a b c -> a b c"),
        ("MaxPool", "n c y x -> n c y x"),
    ],
)
def test_a_wrong_rule_is_noticed(operator, wrong, tool):
    example = next(e for f in tool("tables").FAMILIES.values() for e in f if e.operator == operator)
    op = tool("parts").DividedOp.of(example, TABLE)
    shape, out = op.facts.input_shapes[0], op.facts.output_shapes[0]
    names = wrong.split(",", 1)[0].split(" -> ")[0].replace("+max", "").replace("+sum", "")
    sizes = dict(zip(names.split(), shape, strict=True))
    if operator == "MatMul":
        sizes["n"] = out[-1]
    rule = parse_rule(wrong, sizes)
    op.rule = rule
    try:
        found = op.differences()
    except Exception:  # parts that do not even fit together
        return
    assert found != []


def test_every_operator_of_onnx_is_in_one_family():
    counts = Counter(operator for rules in FAMILIES.values() for operator in rules)
    assert [o for o, count in counts.items() if count > 1] == []
    own = {s.name for s in defs.get_all_schemas() if s.domain == ""}
    assert set(counts) >= own
    assert len(set(counts) - {*FAMILIES["undivided"], *FAMILIES["batch_only"]}) >= 150


sizes = st.integers(1, 6)
shapes = st.lists(sizes, min_size=1, max_size=4).map(tuple)


def text(shape, kind="f"):
    return " ".join([kind, *map(str, shape)])


@st.composite
def factorings(draw):
    """Two shapes with the same elements: one list of factors, merged in two ways."""
    factors = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 6]), min_size=1, max_size=6))
    assume(math.prod(factors) <= 5000)

    def merged():
        cuts = draw(st.lists(st.booleans(), min_size=len(factors), max_size=len(factors)))
        shape = [1]
        for factor, cut in zip(factors, cuts, strict=True):
            if cut:
                shape.append(factor)
            else:
                shape[-1] *= factor
        return tuple(shape)

    left = merged()
    if draw(st.booleans()):
        factors = draw(st.permutations(factors))
    return left, merged()


@given(pair=factorings())
@drawn
def test_any_reshape(pair, tool):
    example = tool("example").Example("Reshape", (text(pair[0]), pair[1]))
    checked(tool, example)


@given(shape=shapes, data=st.data())
@drawn
def test_any_broadcast(shape, data, tool):
    def operand():
        kept = shape[data.draw(st.integers(0, len(shape))) :]
        return text([data.draw(st.sampled_from([1, size])) for size in kept])

    checked(tool, tool("example").Example("Sum", (operand(), operand(), text(shape))))


@given(
    size=st.integers(1, 9),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    pads=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    operator=st.sampled_from(["Conv", "MaxPool", "AveragePool", "LpPool"]),
    mode=st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "ceil"]),
)
@drawn
def test_any_window(size, kernel, stride, dilation, pads, operator, mode, tool):
    extent = (kernel - 1) * dilation + 1
    attributes = {"strides": [stride], "dilations": [dilation]}
    if mode in ("NOTSET", "ceil"):
        assume(size + sum(pads) >= extent)
        attributes["pads"] = list(pads)
        if operator != "Conv":
            assume(max(pads) < kernel)
            attributes["ceil_mode"] = int(mode == "ceil")
    else:
        # onnxruntime takes no others.
        assume(size >= extent if mode == "VALID" else dilation == 1 and kernel >= stride)
        attributes["auto_pad"] = mode
    operands = (f"f 2 3 {size}",)
    if operator == "Conv":
        operands += (f"f 2 3 {kernel}", "f 2")
    else:
        attributes["kernel_shape"] = [kernel]
    checked(tool, tool("example").Example(operator, operands, attributes, version=22))


@given(shape=shapes, data=st.data())
@drawn
def test_any_slice(shape, data, tool):
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    starts = [data.draw(st.integers(-size, size - 1)) for size in (shape[a] for a in axes)]
    steps = [data.draw(st.sampled_from([1, 2, -1])) for _ in axes]
    ends = [shape[a] + 3 if step > 0 else -99 for a, step in zip(axes, steps, strict=True)]
    for at, axis in enumerate(axes):
        if steps[at] == 1 and data.draw(st.booleans()):
            ends[at] = data.draw(st.integers(-shape[axis], shape[axis]))
    operands = (text(shape), tuple(starts), tuple(ends), tuple(axes), tuple(steps))
    checked(tool, tool("example").Example("Slice", operands))


@st.composite
def pieces(draw):
    """A shape, an axis, and extents of pieces along it that have a common divisor."""
    shape, unit = draw(shapes), draw(st.sampled_from([1, 2, 3, 5]))
    counts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    return shape, draw(st.integers(0, len(shape) - 1)), [unit * count for count in counts]


@given(cut=pieces(), form=st.sampled_from(["operand", "attribute", "equal"]))
@drawn
def test_any_split(cut, form, tool):
    shape, axis, extents = cut
    if form == "equal":
        extents = extents[:1] * len(extents)
    operand = text([*shape[:axis], sum(extents), *shape[axis + 1 :]])
    given = {"axis": axis - len(shape)} if form == "operand" else {"axis": axis}
    operands, version = (operand, tuple(extents)), 21
    if form == "attribute":
        operands, given, version = operands[:1], given | {"split": extents}, 11
    elif form == "equal":
        operands, given = operands[:1], given | {"num_outputs": len(extents)}
    example = tool("example").Example("Split", operands, given, len(extents), version)
    op = checked(tool, example)
    unit = math.gcd(*extents)
    free = [f.size for f in op.rule.factors if f.kind is FactorKind.PASS]
    assert sorted(free) == sorted(
        size for size in (*shape[:axis], *shape[axis + 1 :], unit) if size > 1
    )


@given(cut=pieces())
@drawn
def test_any_concatenation(cut, tool):
    shape, axis, extents = cut
    operands = tuple(text([*shape[:axis], n, *shape[axis + 1 :]]) for n in extents)
    op = checked(tool, tool("example").Example("Concat", operands, {"axis": axis}))
    free = [f.size for f in op.rule.factors if f.kind is FactorKind.PASS]
    unit = math.gcd(*extents)
    assert sorted(free) == sorted(
        size for size in (*shape[:axis], *shape[axis + 1 :], unit) if size > 1
    )


@given(
    shape=shapes,
    keep=st.booleans(),
    name=st.sampled_from(["Sum", "Mean", "Max", "L2"]),
    data=st.data(),
)
@drawn
def test_any_reduction(shape, keep, name, data, tool):
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    operands = (text(shape), tuple(axes)) if axes else (text(shape),)
    attributes = {"keepdims": int(keep)}
    checked(tool, tool("example").Example(f"Reduce{name}", operands, attributes))


@given(letters=st.permutations("abcd"), data=st.data())
@drawn
def test_any_contraction(letters, data, tool):
    extents = {letter: data.draw(sizes) for letter in letters}
    terms = [
        "".join(data.draw(st.permutations(data.draw(st.sampled_from(["ab", "abc", "bcd", "d"])))))
        for _ in range(2)
    ]
    present = sorted(set("".join(terms)))
    result = "".join(data.draw(st.lists(st.sampled_from(present), unique=True)))
    operands = tuple(text([extents[c] for c in term]) for term in terms)
    equation = f"{','.join(terms)}->{result}"
    checked(tool, tool("example").Example("Einsum", operands, {"equation": equation}))
