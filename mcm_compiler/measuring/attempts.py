"""Sessions that are recorded before they start, so that a measurement goes on after a crash."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mcm_compiler.diagnostics import quote
from mcm_compiler.measuring.devices import Profile
from mcm_compiler.processes.bounded_child import ChildDiedError


class Attempts:
    """A file of each session: empty while it runs, with its profile once it has ended.

    A session whose file is still empty ended the measurement, and is not tried again.

    Args:
        folder: its name without the digest that ends it; None to record nothing.
        identity: what the times depend on; measurements of others have folders of their own.
    """

    def __init__(self, folder: Path | None, identity: object) -> None:
        text = json.dumps(identity, sort_keys=True, default=str).encode()
        digest = hashlib.sha256(text).hexdigest()[:8]
        self._folder = None if folder is None else folder.with_name(f"{folder.name}-{digest}")

    def profile(self, name: str, session: Callable[[], Profile]) -> Profile:
        """The profile of a session, or what an earlier measurement recorded of it.

        Raises:
            ChildDiedError: if an earlier measurement ended during the session; as `session`.
        """
        if self._folder is None:
            return session()
        file = self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:12]}.npz"
        if file.exists():
            if not file.stat().st_size:
                text = "an earlier measurement ended with it; to try again, remove the folder "
                raise ChildDiedError(text + quote(str(self._folder)))
            return _read(file)
        self._folder.mkdir(parents=True, exist_ok=True)
        file.touch()
        try:
            profile = session()
        except BaseException:  # this process is well, and may try again
            file.unlink()
            raise
        _write(file, profile)
        return profile

    def done(self) -> None:
        """Removes the folder: nothing goes on from here."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _write(file: Path, profile: Profile) -> None:
    arrays = {
        f"{number} {index}": np.asarray(array)
        for number, outputs in enumerate(profile.outputs)
        for index, array in enumerate(outputs.values())
    }
    if any(array.dtype.kind not in "biufc" for array in arrays.values()):
        file.unlink()  # numpy keeps no types of its extensions; the session runs again
        return
    facts = {
        "seconds": profile.seconds,
        "inferences": profile.inferences,
        "node_s": dict(profile.node_s),
        "outputs": [list(outputs) for outputs in profile.outputs],
    }
    arrays["facts"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    if profile.executed is not None:
        arrays["executed"] = np.frombuffer(profile.executed, np.uint8)
    whole = file.with_suffix(".part")
    with whole.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)
    whole.replace(file)


def _read(file: Path) -> Profile:
    with np.load(file, allow_pickle=False) as kept:
        facts: Mapping[str, Any] = json.loads(kept["facts"].tobytes())
        outputs = [
            {name: kept[f"{number} {index}"] for index, name in enumerate(names)}
            for number, names in enumerate(facts["outputs"])
        ]
        executed = kept["executed"].tobytes() if "executed" in kept else None
    return Profile(facts["seconds"], outputs, facts["inferences"], facts["node_s"], executed)
