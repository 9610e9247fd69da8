"""Linkage groups of real models against the extraction of one dimension at a time."""

from __future__ import annotations

import pytest

from mcm_compiler.ir.reading.importer import import_model
from mcm_models.zoo.bert import Bert
from mcm_models.zoo.cnn_families import ResidualCnn
from mcm_models.zoo.gpt2 import Gpt2
from mcm_passes.parallelism.classes.dimension_classes import classes_of, linkage_groups
from mcm_passes.parallelism.classes.variables import trainable_variables
from mcm_passes.parallelism.rules.graph_rules import rules_of
from mcm_passes.parallelism.rules.rule_templates import Block
from mcm_passes.parallelism.rules.ruled_graph import ruled_graph
from tests.generators.automap_models import T5Automap
from tests.oracles.one_at_a_time import exclude_each_other, extract

_SMALL = {"hidden": 12, "heads": 3, "intermediate": 10, "vocab": 11, "seq": 5}
MODELS = {
    "t5": T5Automap(**_SMALL, layers=1, decoder_layers=1, head_width=4, decoder_seq=4, batch=2),
    "bert": Bert(**_SMALL, layers=2, positions=8),
    "gpt2": Gpt2(**_SMALL, layers=2, positions=8, batch=2),
    "cnn": ResidualCnn(image_size=8, stages=2, blocks=1, width=6, classes=5, batch=2),
}


@pytest.mark.parametrize("name", MODELS)
def test_groups_are_those_of_the_extraction(name):
    model, _ = import_model(MODELS[name].build(), name)
    classes = classes_of(ruled_graph(model.graph, rules_of(model)))
    numbers = range(len(classes.ruled.nodes))
    ruled = [(classes.ruled.nodes[n], classes.ruled.rule_of(n).rule) for n in numbers]
    variables = trainable_variables(model)
    groups = linkage_groups(classes, variables)
    conflicts = classes.conflicts(groups.class_of_group)
    by_name = {value.name: value for value in variables}
    extracted = []
    for group, members in enumerate(groups.groups()):
        found = extract((by_name[members[0][0]], members[0][1]), ruled)
        linked = {(value.name, dim) for value, dim in found.divided if value.name in by_name}
        assert linked == set(members)
        assert found.possible == (classes.block[groups.class_of_group[group]] == Block.NONE)
        extracted.append(found)
    for one, meets in enumerate(conflicts):
        for other, found in enumerate(extracted):
            if other != one:
                assert meets[other] == exclude_each_other(extracted[one], found)
