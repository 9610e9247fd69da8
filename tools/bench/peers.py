"""The same models through what a user would pick instead, judged on one ring.

    python tools/bench/peers.py --update                 all models and programs, data and page
    python tools/bench/peers.py                          only programs that are there already
    python tools/bench/peers.py --models U-Net --peers METIS KaHIP
    python tools/bench/peers.py --install                only installs what programs need
    python tools/bench/peers.py --render                 writes the page of the data on record
    python tools/bench/peers.py --quick --json           one model, programs that need no install
    python tools/bench/peers.py --set SET/build/stschedule   only SET, on its own template
    python tools/bench/peers.py --set                    the same, with SET's figures on record

Programs that are no part of the project's environment are installed by pip into environments of
their own below build/peers: by `--update`, by `--install`, and where `--peers` names them.
`--update` writes tools/bench/data/peers.json and docs/results/peers.md; with some models or
programs alone, the rest stays as it was on record.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peer_cases.programs import Program

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tools" / "bench" / "data" / "peers.json"
PAGE = ROOT / "docs" / "results" / "peers.md"
COMMAND = "python tools/bench/peers.py --update"
SEEDS, QUICK_SEEDS = 6, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and shows the bars."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.update and asked.quick:
        parser.error("--quick measures too little to be written")
    if asked.render:
        _render()
        return 0
    program = asked.set or os.environ.get("MCM_SET")
    if program or asked.set is not None:
        return _set(Path(program) if program else None)
    if asked.update:
        from peer_cases.set_template import SKIPPED

        print(SKIPPED, file=sys.stderr)
    return _run(asked)


def _set(program: Path | None) -> int:
    from peer_cases.set_template import SKIPPED, lines, measured

    if program is None:
        print(SKIPPED, file=sys.stderr)
    data = json.loads(DATA.read_text(encoding="utf-8"))
    data["set"] = measured(program)
    DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    _render()
    print("\n".join(lines(data["set"])))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="only a part, in less than 50 s")
    parser.add_argument("--update", action="store_true", help="write data and page")
    parser.add_argument("--render", action="store_true", help="measure nothing, write the page")
    parser.add_argument("--install", action="store_true", help="install programs and end")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="only these models")
    parser.add_argument("--peers", nargs="+", metavar="NAME", help="only these programs")
    program = "SET's stschedule [MCM_SET]; without, its figures on record"
    parser.add_argument("--set", nargs="?", const="", metavar="PROGRAM", help=program)
    parser.add_argument("--note", default="", help="a remark for the page")
    return parser


def _run(asked: argparse.Namespace) -> int:
    from harness.bars import as_json, as_table, context
    from peer_cases.bars import bars
    from peer_cases.cases import MODELS, PASSES, QUICK, TARGET, build_case
    from peer_cases.measuring import measured
    from peer_cases.ours import searched
    from peer_cases.programs import programs
    from peer_cases.records import described, merged

    known = programs()
    for name in {*(asked.peers or ())} - {*known} | {*(asked.models or ())} - {*MODELS}:
        sys.exit(f"{name} is none of {', '.join((*known, *MODELS))}")
    chosen = [known[name] for name in asked.peers or known]
    if asked.quick:
        chosen = [one for one in chosen if one.quick]
    elif not (asked.peers or asked.update or asked.install):
        chosen = [one for one in chosen if one.installed]
    installed = _installed(chosen)
    if asked.install:
        return 0
    seeds = QUICK_SEEDS if asked.quick else SEEDS
    # So that what has to be compiled is not measured.
    searched(build_case(QUICK, 1))
    data: dict[str, Any] = {
        "command": COMMAND,
        "note": asked.note,
        "target": TARGET,
        "passes": PASSES,
        "seeds": list(range(seeds)),
        "context": context(),
        "programs": described(chosen, installed),
        "models": [],
    }
    for name in asked.models or ([QUICK] if asked.quick else list(MODELS)):
        data["models"].append(measured(name, chosen, seeds))
        if asked.update:
            before = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}
            whole = merged(before, data, list(known), list(MODELS))
            DATA.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    if asked.update:
        _render()
    held = bars(data)
    print(as_json(held, quick=asked.quick) if asked.json else as_table(held))
    return 0


def _installed(chosen: Sequence[Program]) -> dict[str, Any]:
    """What installing each program came to, by name."""
    told: dict[str, Any] = {}
    for program in chosen:
        if program.environment is not None:
            told[program.name] = program.environment.install()
            print(f"{program.name}: {told[program.name]}", file=sys.stderr, flush=True)
    return told


def _render() -> None:
    from peer_cases.page import page

    PAGE.write_text(page(json.loads(DATA.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
