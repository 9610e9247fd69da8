from __future__ import annotations

import onnx_ir as ir
import pytest

from mcm_compiler.api import load_target
from mcm_compiler.diagnostics import CompileError
from mcm_hardware.chip.op_support import HostNumbers, OpSupport, SharedSupport
from mcm_hardware.families.cluster.cluster_package import ClusterPackage, config_c
from mcm_hardware.families.package.package_target import TopologyPackage
from mcm_hardware.families.ring.ring_target import RingTarget, mcm4

GOOD = mcm4().source_text
FLOAT = ir.TensorType(ir.DataType.FLOAT)


def described(chip: str = "", host: str = "") -> RingTarget:
    text = GOOD.replace("[chip.mac_array]", f"{chip}\n[chip.mac_array]", 1)
    assert "\n[host]\n" in text
    return RingTarget.from_text("mine.toml", text.replace("\n[host]\n", f"\n[host]\n{host}\n", 1))


def faults(chip: str = "", host: str = "") -> list[tuple[str, str]]:
    with pytest.raises(CompileError) as caught:
        described(chip, host)
    return [(d.code, f"{d.message}; {d.hint}") for d in caught.value.diagnostics]


def only(found: list[tuple[str, str]]) -> tuple[str, str]:
    (one,) = found
    return one


def test_descriptions_without_lists_say_nothing():
    assert described().spec.support is None
    assert not {"unsupported_ops", "supported_types"} & mcm4().details()["chip"].keys()
    assert "fallback" not in mcm4().details()["host"]


def test_lists_and_numbers():
    support = described(
        'unsupported_ops = ["Softmax", "com.microsoft::Gelu", "ai.onnx::Erf"]\n'
        'supported_types = ["float32", "INT64", "bool"]',
        'fallback = "error"\npeak_tflop_per_s = 0.5\nmemory_bandwidth_gb_per_s = 40\n'
        "launch_overhead_us = 2",
    ).spec.support
    assert support == OpSupport(
        ops=frozenset({"Softmax", "com.microsoft::Gelu", "Erf"}),
        types=frozenset({ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.BOOL}),
        only_types=True,
        fallback="error",
        host=HostNumbers(0.5e12, 40e9, 2e-6),
    )
    allowed = described('supported_ops = ["Conv", "Reshape", "my.domain::Anything"]').spec.support
    assert allowed is not None
    assert allowed.only_ops
    assert allowed.ops == {"Conv", "Reshape", "my.domain::Anything"}
    assert (allowed.types, allowed.fallback, allowed.host) == (frozenset(), "host", HostNumbers())


def test_details_show_the_lists():
    shown = described('unsupported_ops = ["Softmax", "Erf"]').details()
    assert shown["chip"]["unsupported_ops"] == "Softmax, Erf"


@pytest.mark.parametrize(
    ("chip", "code", "words"),
    [
        ('unsupported_ops = ["SoftMax"]', "MCM-T016", "did you mean 'Softmax'?"),
        ('supported_ops = ["com.microsoft::Gleu"]', "MCM-T016", "'com.microsoft::Gelu'"),
        ('unsupported_ops = ["Xyzzy"]', "MCM-T016", "written as"),
        ('unsupported_ops = ["my.domain::"]', "MCM-T016", "'my.domain::'"),
        ('unsupported_ops = [""]', "MCM-T016", "ONNX has no op ''"),
        ('unsupported_types = ["float17"]', "MCM-T006", "did you mean 'FLOAT16'?"),
        ('unsupported_types = ["quaternion"]', "MCM-T006", "the types are FLOAT"),
        ('unsupported_ops = "Softmax"', "MCM-T004", "a list"),
        ("unsupported_ops = [3]", "MCM-T004", "a list of texts"),
        ("unsupported_ops = []", "MCM-T008", "names nothing"),
        ('unsupported_ops = ["Erf", "Erf"]', "MCM-T008", "listed twice"),
        ('unsupported_ops = ["Reshape"]', "MCM-T008", "cannot lack"),
        ('unsupported_ops = ["Erf"]\nsupported_ops = ["Conv"]', "MCM-T008", "one of the two"),
        ('unsupported_op = ["Erf"]', "MCM-T002", "unsupported_ops"),
    ],
)
def test_bad_lists(chip: str, code: str, words: str):
    found, text = only(faults(chip))
    assert found == code
    assert words in text


def test_too_many_names():
    names = ", ".join(f'"a{i}"' for i in range(10_001))
    assert only(faults(f"unsupported_types = [{names}]"))[0] == "MCM-T005"


def test_numbers_of_a_host_that_runs_nothing():
    found = faults(host='fallback = "error"\nlaunch_overhead_us = 3')
    assert [code for code, _ in found] == ["MCM-T008", "MCM-T008"]


def test_a_fallback_that_there_is_not():
    lists = 'unsupported_ops = ["Erf"]'
    assert only(faults(lists, 'fallback = "gpu"'))[0] == "MCM-T005"
    assert only(faults(lists, "peak_tflop_per_s = 0"))[0] == "MCM-T005"


def test_all_faults_come_together():
    found = faults('unsupported_ops = ["SoftMax", "Reluu"]\nunsupported_types = ["flaot16"]')
    assert [code for code, _ in found] == ["MCM-T016", "MCM-T016", "MCM-T006"]


def test_clusters_have_the_same_keys():
    text = config_c().source_text
    lists = 'unsupported_ops = ["Softmax"]\nlaunch_overhead_us'
    host = "\n[host]\nbandwidth_gb_per_s = 8\nlatency_us = 2\n"
    found = ClusterPackage.from_text("mine", text.replace("launch_overhead_us", lists) + host)
    softmax = ir.Node("", "Softmax", [ir.Value(name="x", type=FLOAT, shape=ir.Shape([1000]))])
    softmax.outputs[0].name, softmax.outputs[0].type = "y", FLOAT
    softmax.outputs[0].shape = ir.Shape([1000])
    trip = found.cost_model().node_cost(softmax).trip
    assert trip is not None
    assert (trip.up_bytes, trip.down_bytes) == (4000, 4000)
    assert trip.transfer_s == pytest.approx(8000 / 8e9 + 4e-6)
    assert found.details()["device"]["unsupported_ops"] == "Softmax"
    assert config_c().unsupported(softmax) is None
    with pytest.raises(CompileError) as caught:
        ClusterPackage.from_text("mine", text + host)
    assert [d.code for d in caught.value.diagnostics] == ["MCM-T008", "MCM-T008"]


def test_large_tables_on_the_host_need_no_list():
    assert described(host='large_tables = "host"').spec.support == OpSupport(large_tables="host")
    assert described(host='large_tables = "chips"').spec.support is None
    mixed = load_target("mixed16").source_text.replace("[host]", '[host]\nlarge_tables = "host"', 1)
    support = TopologyPackage.from_text("mixed", mixed).spec.support
    assert isinstance(support, SharedSupport)
    assert len(support.kinds) > 1
