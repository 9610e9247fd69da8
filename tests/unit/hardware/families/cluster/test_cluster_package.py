"""Descriptions of clusters, and where clusters stand among the targets."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from mcm_compiler.api import build_zoo_model
from mcm_compiler.cli.main import cli
from mcm_compiler.components.target_loading import load_cluster, load_package, load_target
from mcm_compiler.contracts.cluster import ClusterTarget
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.ir.reading.importer import import_model
from mcm_hardware.families.cluster import cluster_package
from mcm_hardware.families.cluster.cluster_package import ClusterPackage

GOOD = cluster_package.config_a().source_text


def faults(text):
    with pytest.raises(CompileError) as caught:
        ClusterPackage.from_text("mine.toml", text)
    return caught.value.diagnostics


@pytest.mark.parametrize(
    ("make", "name", "servers"),
    [
        (cluster_package.config_a, "config-a", 2),
        (cluster_package.config_b, "config-b", 3),
        (cluster_package.config_c, "config-c", 4),
    ],
)
def test_builtin_clusters(make, name, servers):
    target = make()
    assert isinstance(target, ClusterTarget)
    cluster = target.cluster
    assert (target.name, cluster.servers, cluster.devices_per_server) == (name, servers, 8)
    assert cluster.num_devices == 8 * servers
    assert cluster.inter_bytes_per_s == 25e9 / 8
    assert cluster.intra_bytes_per_s == 150e9
    assert cluster.memory_bytes == 31 * 2**30
    assert str(servers) in target.summary
    assert ClusterPackage.from_text(name, target.source_text) == target


@pytest.mark.parametrize(
    ("old", "new", "code", "path", "hint"),
    [
        ("num_servers = 2", "num_severs = 2", "MCM-T002", "cluster.num_severs", "num_servers"),
        ("memory_mib = 32768\n", "memory_gib = 32\n", "MCM-T002", "device.memory_gib",
         "'memory_mib', in MiB"),
        ("num_servers = 2", "", "MCM-T003", "cluster.num_servers", "[cluster]"),
        ("num_servers = 2", "num_servers = 2.5", "MCM-T004", "cluster.num_servers", None),
        ("num_servers = 2", "num_servers = 0", "MCM-T005", "cluster.num_servers", None),
        ("bandwidth_gbit_per_s = 25", "bandwidth_gbit_per_s = 0", "MCM-T005",
         "inter_server.bandwidth_gbit_per_s", "10^9 bits"),
        ("reserved_memory_mib = 1024", "reserved_memory_mib = 40000", "MCM-T008",
         "device.reserved_memory_mib", "less"),
    ],
)  # fmt: skip
def test_one_fault(old, new, code, path, hint):
    assert old in GOOD
    found = [fault for fault in faults(GOOD.replace(old, new, 1)) if fault.code == code]
    assert len(found) == 1
    assert f"'{path}'" in found[0].at
    if hint is not None:
        assert hint in found[0].hint


def test_a_cluster_has_no_tables_of_a_ring():
    (fault,) = faults(GOOD + "\n[storage_bits]\nFLOAT = 16\n")
    assert fault.code == "MCM-T002"
    assert fault.message.startswith("a cluster")


def test_costs_are_those_of_a_device():
    model = import_model(build_zoo_model("bert-tiny{shape_only=true}"), "bert-tiny")[0]
    cost_model = cluster_package.config_a().cost_model()
    product = next(node for node in model.graph if node.op_type == "MatMul")
    cost = cost_model.node_cost(product)
    # 128 x 128 x 128 products, 5 us for the launch; at that size memory sets the time.
    assert cost.flops == 2 * 128**3
    assert cost.seconds == pytest.approx(5e-6 + max(2 * 128**3 / 15.7e12, 3 * 128**2 * 4 / 900e9))


def test_no_model_is_compiled_for_a_cluster():
    with pytest.raises(CompileError) as caught:
        load_target("config-a")
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-S040"
    assert "mcmc parallelize" in fault.hint
    result = CliRunner().invoke(cli, ["compile", "zoo:bert-tiny", "--target", "config-b"])
    assert result.exit_code == 1
    assert "MCM-S040" in result.stderr


def test_a_package_of_chips_is_no_cluster():
    with pytest.raises(CompileError) as caught:
        load_cluster("mcm4")
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-S041"
    assert "config-a" in fault.hint


def test_a_file_works_like_a_builtin(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    mine = load_cluster(str(path))
    assert mine.name == "mine"
    assert mine.cluster == load_package("config-a").cluster


def test_the_targets_verb_knows_clusters(tmp_path):
    run = CliRunner()
    listed = json.loads(run.invoke(cli, ["targets", "--format", "json"]).stdout)["targets"]
    rows = {row["name"]: row for row in listed}
    assert rows["config-c"]["cluster"]["servers"] == 4
    assert rows["mcm36"]["chips"] == 36
    shown = run.invoke(cli, ["targets", "show", "config-c"]).stdout
    assert "num_devices" in shown
    data = json.loads(run.invoke(cli, ["targets", "show", "config-c", "--format", "json"]).stdout)
    assert data["details"]["derived"]["num_devices"] == 32
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    said = run.invoke(cli, ["targets", "validate", str(path)]).stdout
    assert "2 servers of 8 devices" in said


@pytest.mark.parametrize("name", ["config-a", "config-b", "config-c"])
def test_a_server_is_a_machine(name: str) -> None:
    cluster = load_cluster(name).cluster
    server = cluster.server()
    count = cluster.devices_per_server
    assert (server.num_devices, server.num_channels) == (count, count * (count - 1))
    assert server.reaches.all()
    assert set(server.memory_bytes.tolist()) == {cluster.memory_bytes}
    assert set(server.channel_bytes_per_s.tolist()) <= {cluster.intra_bytes_per_s}
    assert set(server.channel_latency_s.tolist()) <= {cluster.intra_latency_s}
