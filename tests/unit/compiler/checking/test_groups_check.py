"""Groups of ops that a folder runs as one kernel, held against what its passes fuse."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.artifact.manifest import read_manifest
from mcm_compiler.checking.certificate_check import check_certificate
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.gate import OpenedFolder
from mcm_compiler.checking.groups_check import check_groups, fusion_unknown
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.fusion import FusionGroup, FusionPlan
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.ir.shapes.inference import infer_shapes
from mcm_compiler.options import CompileOptions
from mcm_passes.parallelism.replicas.unrolling import unroll
from mcm_passes.pipeline import preparing
from tools.figure_mutations import Mutation, apply

FUSED = ("MatMul_a", "Add_b", "LeakyRelu_c")


def model() -> ir.Model:
    rng = np.random.default_rng(0)
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[64,128] x, float[64,1] m)'
        " => (float[64,128] y) { o = Neg (m) n = Abs (o) a = MatMul (x, u) b = Add (a, n)"
        " c = LeakyRelu (b) d = MatMul (c, v) e = Add (d, n) f = Tanh (e) g = MatMul (f, w)"
        " h = Add (g, n) y = Mul (h, x) }"
    )
    for node in proto.graph.node:
        node.name = f"{node.op_type}_{node.output[0]}"
    for name in "uvw":
        weight = rng.standard_normal((128, 128), dtype=np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    return ir.from_proto(proto)


@pytest.fixture(scope="module")
def relayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three chips, one of which passes a tensor on."""
    folder = tmp_path_factory.mktemp("groups") / "out"
    options = CompileOptions(chips=3, replicas=1, inferences=8, partitioner="dp")
    compile_model(model(), "mcm4", options, output=folder)
    return folder


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four chips that have copies of the ops that make a mask."""
    folder = tmp_path_factory.mktemp("groups") / "out"
    options = CompileOptions(chips=4, replicas=1, inferences=8, partitioner="dp")
    compile_model("zoo:bert-tiny", "mcm4", options, output=folder)
    return folder


def open_folder(path: Path) -> OpenedFolder:
    return OpenedFolder(path, read_manifest(path))


def refused(opened: OpenedFolder) -> str:
    assert opened.certificate is not None
    try:
        check_certificate(opened, opened.certificate)
    except CompileError as error:
        return f"{error.diagnostics[0].code}: {error.diagnostics[0].message}"
    return ""


def node_of(opened: OpenedFolder, chip: int, name: str) -> ir.Node:
    graph = opened.chips[chip].model.graph
    return next(node for node in graph if node.name == name)


def test_a_folder_fuses_what_its_passes_fuse(relayed: Path, copied: Path) -> None:
    assert refused(open_folder(relayed)) == ""
    assert refused(open_folder(copied)) == ""


def test_a_copy_stays_in_a_kernel_of_copies(copied: Path) -> None:
    opened = open_folder(copied)
    assert opened.certificate is not None
    _, name, device = opened.certificate.copies[0]
    graph = opened.chips[device].model.graph
    groups = (node.metadata_props.get("mcm.group") for node in graph if node.op_type == "MatMul")
    group = next(group for group in groups if group is not None)
    node_of(opened, device, name).metadata_props["mcm.group"] = group
    assert "another kernel" in refused(opened)


def test_what_passes_a_tensor_on_is_no_part_of_a_kernel(relayed: Path) -> None:
    opened = open_folder(relayed)
    assert opened.certificate is not None
    _, name, device = opened.certificate.forwards[0]
    node_of(opened, device, name).metadata_props["mcm.group"] = "group"
    assert "part of a kernel" in refused(opened)


def groups_of(names: tuple[str, ...], pipeline: str = "simplify,fuse") -> None:
    check_groups(model(), {names[-1]: names}, pipeline, load_target("mcm4"))


def test_groups_that_no_pass_makes_are_refused() -> None:
    groups_of(FUSED)
    for names, pipeline in (
        (("MatMul_a", "Add_b", "LeakyRelu_c", "MatMul_d"), "simplify,fuse"),
        (("MatMul_a", "MatMul_g"), "simplify,fuse"),
        (FUSED, "simplify"),
        (FUSED, ""),
        (FUSED, "fuse{{"),
        (FUSED, "fuse{max_group=2}"),
    ):
        with pytest.raises(CompileError, match="MCM-V070"):
            groups_of(names, pipeline)


def test_a_part_of_what_could_be_fused_may_be_a_group() -> None:
    """Passes after `fuse` may take ops out, and the order of a graph decides about the rest."""
    groups_of(FUSED[:2])
    groups_of(FUSED[:2], "fuse{max_group=2}")


def divided(text: str, origins: dict[str, str]) -> ir.Model:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> m (float[1,2,6,6] x, float[2,2,1,3] v, '
        "float[2,2,1,3] w, float[4] s) => (float[1,N,6,4] y) "
        f"{{ {text} }}"
    )
    found = ir.from_proto(proto)
    for node in found.graph:
        node.name = node.outputs[0].name
        if node.name in origins:
            node.metadata_props["mcm.origin"] = origins[node.name]
    infer_shapes(found)
    return found


REST = (
    "c = Conv (x, v) d = Conv (x, w) e = Concat <axis = 1> (c, d) "
    "n = BatchNormalization (e, s, s, s, s) y = Relu (n)",
    {"c": "conv", "d": "conv", "e": "conv", "n": "n", "y": "y"},
    ("n", "y"),
)
TILE = (
    "l = Constant <value_ints: ints = [0]> () h = Constant <value_ints: ints = [4]> () "
    "a = Constant <value_ints: ints = [2]> () o = Neg (x) p = Slice (o, l, h, a) "
    "c = Conv (p, v) r = Relu (c) t = Slice (r, l, h, a) "
    "d = Conv (o, w) q = Relu (d) y = Concat <axis = 1> (t, q)",
    {"c": "conv", "d": "conv", "r": "r", "q": "r", "p": "conv", "t": "r", "y": "r"},
    ("p", "c", "r", "t"),
)
NORM = (
    "c = Add (x, x) d = Add (x, x) e = Concat <axis = 1> (c, d) f = Concat <axis = 1> (c, d) "
    "i = Constant <value_ints: ints = [-1]> () "
    "k = Constant <value: tensor = float {0.1}> () "
    "m = ReduceMean <keepdims = 1> (e, i) n = Sub (f, m) p = Mul (n, n) "
    "q = ReduceMean <keepdims = 1> (p, i) r = Add (q, k) t = Sqrt (r) y = Div (n, t)",
    {"c": "add", "d": "add", "e": "m", "f": "n"} | {name: name for name in "mnpqrty"},
    ("e", "m", "f", "n", "p", "q", "r", "t", "y"),
)


@pytest.mark.parametrize("case", [REST, TILE, NORM])
def test_what_division_leaves_of_a_kernel_is_one(case):
    text, origins, group = case
    target = load_target("mcm4")
    check_groups(divided(text, origins), {group[-1]: group}, "fuse,parallelize", target)
    with pytest.raises(CompileError, match="MCM-V070"):  # `Slice` and `Concat` of the model
        check_groups(divided(text, {}), {group[-1]: group}, "fuse,parallelize", target)


def test_ranges_join_no_two_kernels():
    text, origins, _ = TILE
    with pytest.raises(CompileError, match="MCM-V070"):
        check_groups(divided(text, origins), {"c": ("o", "p", "c")}, "fuse", load_target("mcm4"))


def test_of_passes_that_are_not_installed_nothing_is_known() -> None:
    groups_of(("MatMul_a", "MatMul_g"), "simplify,their_fuse,fuse")
    assert "their_fuse" in fusion_unknown("simplify,their_fuse,fuse")
    assert fusion_unknown("simplify,fuse") == ""
    assert fusion_unknown("{{") == ""


def test_a_bound_over_kernels_of_an_unknown_pass_is_not_re_proved(
    relayed: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(relayed, tmp_path / "out")
    for name in ("manifest.json", "report.json"):
        data = json.loads((folder / name).read_text())
        text = data["pipeline"].replace("fuse", "their_fuse,fuse")
        apply(Mutation(name, ("pipeline",), text), folder)
    found = check_folder(folder, without=("equality",))
    assert found.holds
    assert not found.complete
    assert [d.code for d in found.diagnostics] == ["MCM-V072"]


def test_a_folder_that_was_made_from_invented_groups_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All files agree with each other, and the bound is below what the package can do."""

    def halves(graph: ir.Graph, *_: object) -> FusionPlan:
        names = [node.name or "" for node in placeable_nodes(graph)]
        half = len(names) // 2
        parts = (tuple(names[:half]), tuple(names[half:]))
        return FusionPlan(tuple(FusionGroup(part[-1], "", part) for part in parts))

    monkeypatch.setattr(preparing, "plan_fusion", halves)
    folder = tmp_path / "out"
    options = CompileOptions(chips=1, replicas=1, inferences=8, level=0)
    compile_model(model(), "mcm4", options, output=folder)
    monkeypatch.undo()
    found = check_folder(folder)
    assert [step.name for step in found.steps if not step.holds] == ["certificate"]
    assert found.diagnostics[0].code == "MCM-V070"


def test_classes_of_a_round_run_as_one_kernel_only_by_one_weight() -> None:
    graph = model()
    unroll(graph, 2, CompileOptions())
    target = load_target("mcm4")
    fused = tuple(f"{name}@{k}" for k in range(2) for name in FUSED)
    check_groups(graph, {fused[-1]: fused}, "fuse", target)
    for apart in (("Neg_o@0", "Neg_o@1"), ("MatMul_a@0", "MatMul_d@1")):
        with pytest.raises(CompileError, match="no pass of the folder fuses them"):
            check_groups(graph, {apart[-1]: apart}, "fuse", target)
