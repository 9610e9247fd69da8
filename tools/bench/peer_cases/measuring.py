"""All programs on a model, whatever becomes of each."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peer_cases.answers import Asked, Row
from peer_cases.bars import value_s
from peer_cases.cases import build_case
from peer_cases.chains import Whole
from peer_cases.environments import PeerFailedError
from peer_cases.ours import compiled, searched
from peer_cases.programs import Program

from mcm_compiler.diagnostics import CompileError

MIB = 2**20


def measured(name: str, programs: Sequence[Program], seeds: int) -> dict[str, Any]:
    """Our answer to a model and that of each program.

    Args:
        name: in `MODELS`.
        programs: that are asked.
        seeds: how many each may try.
    """
    case = build_case(name, seeds)
    ours = searched(case)
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as folder:
        whole = Whole(case)
        for program in programs:
            if program.only and name not in program.only:
                continue
            asked = Asked(case, whole, ours["chips_used"], Path(folder))
            rows[program.name] = _row(program, asked)
            _tell(name, program.name, rows[program.name], ours["period_s"])
        compile_row = compiled(case, Path(folder))
    return {
        "model": name,
        "source": case.source,
        "ops": len(whole.proto.graph.node),
        "units": case.problem.num_units,
        "weights_mib": round(int(case.problem.weight_bytes.sum()) / MIB, 1),
        "chips": case.problem.num_chips,
        "ours": ours,
        "compiled": compile_row,
        "rows": rows,
    }


def _row(program: Program, asked: Asked) -> Row:
    try:
        return program.ask(asked)
    except PeerFailedError as error:
        return {"status": "failed", "quote": str(error)}
    except CompileError as error:
        return {"status": "failed", "quote": error.diagnostics[0].message}


def _tell(model: str, program: str, row: Row, ours_s: float) -> None:
    said = row.get("quote", "")
    if row["status"] == "found":
        seconds = value_s(row) or float("inf")
        said = f"{seconds / ours_s:.3f} times ours in {row['cpu_s']} CPU-seconds"
    print(f"{model}, {program}: {said}", file=sys.stderr, flush=True)
