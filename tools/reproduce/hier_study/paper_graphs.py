"""The graphs of Mirhoseini et al. 2018, *A Hierarchical Model for Device Placement*."""

from __future__ import annotations

from dataclasses import dataclass

from hier_study.bookkeeping import paper_step
from hier_study.training_models import InceptionV3Training, NmtTraining, ResNet50Training
from mcm_compiler.contracts.zoo import ModelBuilder
from mcm_models.zoo.lstm_language_models import Rnnlm
from mcm_passes.differentiation.differentiate import TrainingStep, TrainingStepOptions


@dataclass(frozen=True)
class PaperGraph:
    """One row of the paper's tables.

    Attributes:
        name: for records.
        builder: makes the forward pass with its loss.
        box: target with as many GPUs as the paper gives it.
        paper_ops: the number of ops that the paper gives.
        counted: whether its number of ops is to be that of the paper.
        late: whether large ops of the backward pass wait for their gradients, as the fused gradient
            ops of convolutions and normalisations did.
    """

    name: str
    builder: ModelBuilder
    box: str
    paper_ops: int
    counted: bool
    late: bool = False

    def step(self, *, bookkeeping: bool = True) -> TrainingStep:
        """The training step: gradients, clipping by the global norm, Adam."""
        options = TrainingStepOptions(optimizer="adam", learning_rate=1e-3, clip=5.0)
        return paper_step(self.builder.build(), options, bookkeeping=bookkeeping, late=self.late)


GRAPHS = (
    PaperGraph("inception-v3", InceptionV3Training(), "box-2gpu", 24_713, counted=False, late=True),
    PaperGraph("resnet-50", ResNet50Training(), "box-2gpu", 20_586, counted=False, late=True),
    PaperGraph("rnnlm", Rnnlm(), "box-2gpu", 9_021, counted=True),
    PaperGraph("nmt-2", NmtTraining(layers=2), "box-2gpu", 28_044, counted=True),
    PaperGraph("nmt-4", NmtTraining(layers=4), "box-4gpu", 46_600, counted=True),
    PaperGraph("nmt-8", NmtTraining(layers=8), "box-8gpu", 83_712, counted=True),
)


def chosen(names: list[str]) -> list[PaperGraph]:
    """Graphs by name, all for no names.

    Raises:
        ValueError: for a name that none has.
    """
    known = {graph.name: graph for graph in GRAPHS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no graph is called {unknown[0]!r}; there are {', '.join(known)}")
    return [known[name] for name in names] or list(GRAPHS)
