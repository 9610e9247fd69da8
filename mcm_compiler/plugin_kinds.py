"""Kinds of components that have names, and the entry points that name them.

`KINDS` is the one table of kinds: registries, decorators, templates and documents follow from it.
An entry point of the group `mcm_compiler.plugins` is named `KIND.NAME`, such as `strategy.dp`.
"""

from __future__ import annotations

import fnmatch
import functools
import importlib.metadata
import importlib.util
import sys
from dataclasses import dataclass
from typing import Any, Literal

from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.diagnostics.deprecations import removed_with
from mcm_compiler.diagnostics.refusals import notice

GROUP = "mcm_compiler.plugins"
"""The entry-point group of all components."""

Form = Literal["class", "function", "object", "entry"]
"""Of components: classes whose instances do the work, functions, and objects. An `entry` is a
function that an entry point alone can name."""


@dataclass(frozen=True)
class Kind:
    """One kind of component.

    Attributes:
        name: as entry points and `register` spell it.
        form: of its components.
        contract: of its components, as `module:name`.
        used_by: options, verbs or files that take its names, as Markdown.
        words: for messages; the name with spaces by default.
        listing: command that lists the components; empty for none.
        old_group: entry-point group of earlier releases behind `mcm_compiler.`, the plural of the
            name by default; empty for none.
    """

    name: str
    form: Form
    contract: str
    used_by: str
    words: str = ""
    old_group: str | None = None
    listing: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", self.words or self.name.replace("-", " "))
        if self.old_group is None:
            object.__setattr__(self, "old_group", f"{self.name.replace('-', '_')}s")


_CORE, _HW = "mcm_compiler.contracts", "mcm_hardware"
_RULE = "mcm_passes.rewriting.fusion_rules.rule"

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("pass", "class", "mcm_compiler.pipeline.passes:Pass", "`--passes`", "", "passes",
             "mcmc passes"),
        Kind("pass-collection", "entry", "mcm_compiler.registry:Registration", "`--passes`"),
        Kind("fusion-rule", "object", f"{_RULE}:FusionRule", "the pass `fuse`", "", ""),
        Kind("gradient-rule", "function", f"{_CORE}.gradients:GradientRule",
             "the pass `differentiate`"),
        Kind("sharding-rule", "function", f"{_CORE}.sharding.rules:RuleMaker",
             "whatever divides ops"),
        Kind("op-cost", "function", f"{_HW}.op_costs.work:Formula", "cost models of chips", "", ""),
        Kind("cost-model", "class", "mcm_compiler.components.cost_choice:CostModelMaker",
             "`--cost-model`", listing="mcmc costs"),
        Kind("target", "function", f"{_CORE}.target:Target", "`--target`", listing="mcmc targets"),
        Kind("target-family", "function", f"{_CORE}.target:TargetFamily",
             "`family` in a description", "", "target_families"),
        Kind("chip-kind", "class", f"{_HW}.descriptions.chip_kinds:ChipKind",
             "`chip.kind` in a description of a ring"),
        Kind("routing", "function", f"{_HW}.families.package.routings:Routing",
             "`topology.routing` in a description of a package", "", ""),
        Kind("strategy", "class", f"{_CORE}.partition:PartitionStrategy",
             "`--partitioner`, members of a portfolio", "partition strategy",
             "partition_strategies", "mcmc strategies"),
        Kind("mapping", "object", f"{_CORE}.mapping:FamilyMapping", "targets of that family",
             "mapping of a family"),
        Kind("level", "object", f"{_CORE}.levels:Level", "`-O`"),
        Kind("device", "class", "mcm_compiler.measuring.devices:MeasuringDevice",
             "`mcmc measure --device`", "", ""),
        Kind("addition", "object", "mcm_compiler.additions:Addition",
             "targets that name it", "", ""),
        Kind("mapper", "class", f"{_CORE}.fabrics.mappers:Mapper",
             "`--mapper`, where chips are fabrics"),
        Kind("mapping-model", "class", f"{_CORE}.fabrics.models:MappingModel", "`--mapping-model`"),
        Kind("placer", "class", f"{_CORE}.boxes.placers:Placer", "`mcmc place --placer`",
             listing="mcmc placers"),
        Kind("placement-cost", "class", f"{_CORE}.placement:PlacementCost",
             "`mcmc partition --cost`"),
        Kind("planner", "class", f"{_CORE}.planning:Planner", "`--planner`"),
        Kind("step-bound", "function", f"{_CORE}.boxes.bounds:BoundStep",
             "`mcmc place`, `mcmc check`", "bound of steps"),
        Kind("objective-proof", "object", f"{_CORE}.proofs:ObjectiveChecker", "`mcmc check`",
             "checker of bounds on objectives"),
        Kind("proof-checker", "object", f"{_CORE}.proofs:ProofChecker", "`mcmc check`"),
        Kind("problem-model", "object", f"{_CORE}.proofs:ProblemModel", "`mcmc check`"),
        Kind("trainer", "class", f"{_CORE}.training:Trainer", "`mcmc train NAME`",
             listing="mcmc train"),
        Kind("verb", "object", "click:Command", "`mcmc VERB`", "", "", "mcmc --help"),
        Kind("zoo", "class", f"{_CORE}.zoo:ModelBuilder", "`zoo:NAME`", "zoo model", "zoo",
             "mcmc zoo"),
    )
}  # fmt: skip
"""All kinds by their names."""


_MOVED = (
    (
        "strategy.random strategy.annealing",
        "in the plug-in tools/reproduce/mcm_study/search_baselines.py (--plugin)",
    ),
    (
        "strategy.metis strategy.kahip",
        "a peer now, which tools/bench/peers.py of a checkout compares; take portfolio",
    ),
    (
        "strategy.corrected strategy.judge_search",
        "replaced by local_search{simulated=true}, which -O3 has",
    ),
    ("strategy.greedy", "replaced by dp{orders=1}, which -O0 has"),
    ("strategy.lns", "replaced by reorder{start=known,tolerance=0.05}, which -O3 has"),
    ("strategy.stages", "replaced by local_search, which runs on every package"),
    (
        "placer.hierarchical placer.hierarchical-groups placer.logits",
        "in the plug-in tools/reproduce/hier_planner/plugin.py (--plugin); take portfolio",
    ),
    (
        "placer.etf placer.metis placer.scotch",
        "in the plug-in tools/reproduce/hier_study/graph_placers.py (--plugin); take portfolio",
    ),
    ("placer.transfer", "in the plug-in tools/reproduce/hier_study/transfer.py (--plugin)"),
    (
        "mapping-model.gnn",
        "in the plug-in tools/reproduce/mapping_network/plugin.py (--plugin); take ridge",
    ),
    ("mapper.random", "in the plug-in tools/reproduce/mapping_network/plugin.py (--plugin)"),
    (
        "zoo.inception-v3-training zoo.nmt-training zoo.resnet50-training",
        "in the plug-in tools/reproduce/hier_study/plugin.py (--plugin)",
    ),
    (
        "zoo.t5-automap zoo.t5-3b zoo.t5-11b zoo.vgg19-training",
        "in the plug-in tools/reproduce/automap_study/plugin.py (--plugin)",
    ),
    ("trainer.pipeline", "in the plug-in tools/reproduce/pipeline_policy/plugin.py (--plugin)"),
)
MOVED = {name: f"it is {now}" for names, now in _MOVED for name in names.split()}
"""Where components of earlier releases are, for whoever asks for one, by `KIND.NAME`."""


_BROUGHT = {
    "mcm_compiler.drafting": "verb.init",
    "mcm_compiler.placed": "addition.placement verb.place",
    "mcm_hardware.families.box": "target.box-* target-family.box",
    "mcm_hardware.families.cluster": "target.config-? target-family.cluster",
    "mcm_hardware.families.fabric": "target.*fabric* target-family.fabric chip-kind.fabric",
    "mcm_hardware.families.ring": "target.mcm* target.cpu-ring target-family.ring",
    "mcm_passes.differentiation": "pass.differentiate",
    "mcm_passes.families.box": "placer.*",
    "mcm_passes.families.fabric": "addition.fabrics mapper.* mapping-model.*",
    "mcm_passes.families.ring.learning": "strategy.rl*",
    "mcm_passes.mapping.device_placement": "placement-cost.device-* verb.partition",
    "mcm_passes.parallelism.clusters": "addition.clusters",
    "mcm_passes.parallelism.deep_q": "planner.auto-map-dqn",
    "mcm_models.zoo": "zoo.* verb.zoo",
}


def lacking_package(name: str) -> str | None:
    """The package of a product that brings a component `KIND.NAME`, where it is not installed."""
    for package, patterns in _BROUGHT.items():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split()):
            return None if importlib.util.find_spec(package) else package
    return None


def old_decorator(name: str) -> Kind | None:
    """The kind that a decorator of earlier releases registered, such as `register_cost_model`."""
    kind = KINDS.get(name.removeprefix("register_").replace("_", "-"))
    if kind is None or not name.startswith("register_") or kind.form == "entry":
        return None
    return kind if kind.old_group else None


@dataclass(frozen=True)
class Entry:
    """An entry point of one kind.

    Attributes:
        name: of the component.
        origin: its distribution and version; the entry point's value where there is none.
        point: the entry point.
        old: whether it is in a group of earlier releases.
    """

    name: str
    origin: str
    point: importlib.metadata.EntryPoint
    old: bool = False


def installed_entries(kind: str) -> list[Entry]:
    """Entry points of a kind; the installation is read once for all kinds, and nothing imported.

    Where a distribution has a name in `GROUP` and in an old group, that in `GROUP` counts.
    """
    return _entries_by_kind(tuple(sys.path)).get(kind, [])


@functools.lru_cache(maxsize=1)
def _entries_by_kind(_path: tuple[str, ...]) -> dict[str, list[Entry]]:
    kind_of = {f"mcm_compiler.{k.old_group}": k.name for k in KINDS.values() if k.old_group}
    found: dict[str, list[Entry]] = {}
    points: Any = importlib.metadata.entry_points()
    for point in points.select(group=GROUP):
        kind, _, name = point.name.partition(".")
        if kind in KINDS and name:
            found.setdefault(kind, []).append(Entry(name, _origin(point), point))
        else:
            notice(_unknown(point))
    for group in sorted(points.groups & kind_of.keys()):
        entries = found.setdefault(kind_of[group], [])
        known = {(entry.name, entry.origin) for entry in entries}
        old = [Entry(p.name, _origin(p), p, old=True) for p in points.select(group=group)]
        entries += [entry for entry in old if (entry.name, entry.origin) not in known]
    return found


def _unknown(point: importlib.metadata.EntryPoint) -> Diagnostic:
    return Diagnostic(
        "MCM-X014",
        f"entry point '{point.name}' of the group {GROUP} names no kind of component",
        at=_origin(point),
        hint=f"its name is KIND.NAME, and KIND one of {', '.join(sorted(KINDS))}",
        severity=Severity.WARNING,
    )


def note_old(kind: Kind, entry: Entry) -> None:
    """Notes, once for a distribution, that it uses an entry-point group of earlier releases."""
    notice(
        Diagnostic(
            "MCM-X015",
            f"entry-point group mcm_compiler.{kind.old_group} is "
            f"{removed_with('entry-point groups')}",
            at=entry.origin,
            hint=f'in its pyproject.toml write "{kind.name}.{entry.name}" under '
            f'[project.entry-points."{GROUP}"], and its other names likewise',
        ),
        once_for=entry.origin,
    )


_origins: dict[Any, str] = {}


def _origin(point: importlib.metadata.EntryPoint) -> str:
    """Name and version; a distribution's metadata are long and are parsed once."""
    distribution = point.dist
    if distribution is None:
        return point.value
    place = getattr(distribution, "_path", distribution)
    if place not in _origins:
        _origins[place] = f"{distribution.name} {distribution.version}"
    return _origins[place]
