"""Programs that put the whole model on one device here: OpenVINO's `HETERO` and onnxruntime."""

from __future__ import annotations

import numpy as np
from peer_cases.answers import Asked, Row, Spent, row
from peer_cases.chains import Compared
from peer_cases.environments import Environment
from peer_cases.judging import Judged, judged

OPENVINO = Environment("openvino", ("openvino==2026.4.1",))


def openvino(asked: Asked) -> Row:
    """What `HETERO` answers with the devices of this machine."""
    inputs, outputs = asked.folder / "inputs.npz", asked.folder / "outputs.npz"
    np.savez(inputs, **asked.whole.feeds)
    request = {
        "model": str(asked.model_file()),
        "inputs": str(inputs),
        "outputs": str(outputs),
        "names": list(asked.whole.outputs),
    }
    answer, child = OPENVINO.ask("openvino_hetero", request)
    with np.load(outputs) as values:
        compared = asked.whole.beside(dict(values), len(answer["used"]))
    used = ", ".join(answer["used"])
    note = f"`{answer['device']}` puts all on {used}"
    return _alone(asked, Spent(answer["cpu_s"], child.seconds), compared, note)


def onnxruntime(asked: Asked) -> Row:
    """All on one chip."""
    return _alone(asked, Spent(0.0, 0.0), Compared(1, True, 0.0), "")


def _alone(asked: Asked, spent: Spent, compared: Compared, note: str) -> Row:
    found = _whole_on_one(asked)
    answer = row(asked, found, spent, parts=1, note=note, chain=False)
    return answer | {"chain": vars(compared) | {"of": "emitted"}}


def _whole_on_one(asked: Asked) -> Judged:
    # What does not fit one chip was not divided by the program, and repair would be all ours.
    parts = np.zeros(asked.case.problem.num_units, np.int64)
    return judged(asked.case.problem, parts, repair=False)
