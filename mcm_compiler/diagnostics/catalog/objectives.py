"""Codes of objectives of partitioning."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES = (
    CatalogEntry(
        "MCM-P060",
        "strategy does not know the objective",
        "A strategy searches for the least period unless it says that it can be asked for more:\n"
        "for the least latency, or for the least period within one. This one does not say so.",
        example="mcmc compile model.onnx --objective latency --partitioner greedy",
        remedy="Leave out --partitioner, or name a strategy that the hint lists. A strategy of\n"
        "your own says what it can be asked for with its property `aims`.",
    ),
    CatalogEntry(
        "MCM-P061",
        "family of machines does not know the objective",
        "Latencies and energies of placements, and bounds on them, are told on rings. The target\n"
        "is of a family whose mapping tells none (protocol KnowsObjectives in\n"
        "mcm_compiler/contracts/mapping.py).",
        example="mcmc compile model.onnx --target mesh --objective latency",
        remedy="Ask for the least period or the fewest chips, or compile for a ring.",
    ),
    CatalogEntry(
        "MCM-P062",
        "no placement answers in time",
        "The least latency of one inference in an empty package, under the cost model, is above\n"
        "what --max-latency asks for, or nothing was found that keeps to it. The message says\n"
        "which, and tells the least that is known and the least that is proven.",
        example="mcmc compile zoo:resnet50 --max-latency 1ms",
        remedy="Allow more time, or change what sets the latency: a faster chip where ops wait\n"
        "for each other, ops divided among chips (--plan, --planner), more memory per chip where\n"
        "weights spread the model over many, faster links where tensors cross them.",
    ),
    CatalogEntry(
        "MCM-P063",
        "no number of chips reaches the throughput",
        "Every number of equal pipelines, and every number of chips for each of them, either\n"
        "cannot reach what --throughput asks for, which is proven, or was not found to.",
        example="mcmc compile zoo:resnet50 --objective chips --throughput 1000000",
        remedy="Ask for less, take a target with more or faster chips, or search harder (-O3)\n"
        "where the message says that it is not proven.",
    ),
    CatalogEntry(
        "MCM-P064",
        "target says nothing of energy",
        "The least energy of an inference is asked for. What work costs is told by the table\n"
        "[energy] of a target's description, and this target has none.",
        example="mcmc compile model.onnx --target fabric-16 --objective energy",
        remedy="Give the target a table [energy] (docs/reference/target-keys.md), or ask for\n"
        "another objective.",
    ),
    CatalogEntry(
        "MCM-V075",
        "claim about an objective does not hold",
        "The certificate says what was asked for beside validity, what the placement comes to,\n"
        "and what no placement comes to less than. mcmc check derives the value from the\n"
        "placement and carries the proofs out again; one of them comes to something else.",
        example="a latency in certificate.json that is smaller than the placement's",
        remedy="Compile again; the certificate was changed.",
    ),
)
