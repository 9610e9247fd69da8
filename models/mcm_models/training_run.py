"""Folder, state on disk and loop of all trainings.

A training that was stopped goes on from its state, and ends with the bytes of one that was not.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.processes import one_thread, private_folders, staging
from mcm_models.cards import read_with_card, save_with_card

T = TypeVar("T")

Tell = Callable[[TrainingProgress], None]
Figures = Mapping[str, float]
Arrays = Mapping[str, npt.NDArray[Any]]

RUN_NAME = "run.json"


@contextmanager
def training_folder(request: TrainingRequest) -> Generator[Path]:
    """The folder of a training, which must be unused unless one goes on there; on one thread.

    Raises:
        CompileError: MCM-A001 for a folder with files, MCM-A003 and others where the system
            refuses to read or write it.
    """
    folder = request.folder
    one_thread.use_one_thread()
    try:
        if not request.resume and folder.exists() and any(folder.iterdir()):
            raise CompileError.of(
                "MCM-A001",
                "the folder of the training exists",
                at=quote(str(folder)),
                hint="choose another one, or go on with --resume",
            )
        with one_thread.numpy_on_one_thread():
            yield folder
    except OSError as error:
        raise staging.cannot_write(error, folder) from error


@dataclass(frozen=True)
class TrainingKind:
    """How trainings of one kind keep their states, and refuse those of others.

    Attributes:
        codes: of diagnostics about a folder of another training, and about a damaged state.
        messages: likewise; the reason follows.
        most_bytes: size of the largest state that is read; None for any.
    """

    codes: tuple[str, str] = ("MCM-L008", "MCM-L009")
    messages: tuple[str, str] = (
        "the folder belongs to another training",
        "the state of the training is damaged",
    )
    most_bytes: int | None = None

    @classmethod
    def stopped(cls, code: str, most_bytes: int | None = None) -> TrainingKind:
        """A kind with one diagnostic for both."""
        text = "the training cannot go on"
        return cls((code, code), (text, text), most_bytes)

    def refusal(
        self, why: str, place: Path, hint: str | None = None, *, which: int = 1
    ) -> CompileError:
        """The diagnostic about a state, or with 0 for `which` about a folder."""
        text = f"{self.messages[which]}: {why}"
        return CompileError.of(self.codes[which], text, at=quote(str(place)), hint=hint)

    def begin(self, folder: Path, asked: Mapping[str, Any] | None, name: str = RUN_NAME) -> None:
        """Notes what is trained, or checks that it is what the folder has noted.

        Args:
            folder: of the training.
            asked: everything that decides the result, by name, as JSON data; None where the state
                has it.
            name: of the file with the note, or of the state.

        Raises:
            CompileError: the first of `codes` if it is not.
            OSError: if the folder cannot be read or written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        # Of a process that was killed while it wrote.
        private_folders.remove_stale(folder)
        path = folder / name
        if not path.exists():
            # Those of another host or container may be left.
            if any(not each.name.startswith(private_folders.PREFIX) for each in folder.iterdir()):
                raise self.refusal("it holds files, but no training", folder, which=0)
            if asked is not None:
                staging.write_whole(path, _text(asked), lasting=True)
            return
        if asked is None:
            return
        try:
            noted = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            noted = None
        if not isinstance(noted, dict):
            raise self.refusal(f"its {name} is damaged", path, which=0)
        before = cast("dict[str, Any]", noted)
        # As it would be read back: tuples become lists.
        for key, value in json.loads(_text(asked)).items():
            if not _holds(before.get(key), value):
                was, now = (json.dumps(each, sort_keys=True) for each in (before.get(key), value))
                reason = f"its '{key}' is {quote(was)}, and {quote(now)} is asked for"
                raise self.refusal(reason, folder, which=0)

    def load(
        self,
        path: Path,
        numbers: type[T],
        like: Mapping[str, Arrays | None],
        fault: Callable[[T], str] = lambda _: "",
    ) -> tuple[T, dict[str, dict[str, npt.NDArray[Any]]]]:
        """Reads a state.

        Args:
            path: of the file.
            numbers: type of what is no array.
            like: by the prefix of their names, arrays of the shapes and types of those that are
                read; None for all arrays with the prefix.
            fault: why numbers are none to go on from; empty for others.

        Returns:
            The numbers, and the arrays by prefix and name.

        Raises:
            CompileError: the second of `codes` if the file is damaged or of another training.
        """
        try:
            found, arrays = read_with_card(path, numbers, self.most_bytes)
            if why := fault(found):
                raise ValueError(why)
            return found, {prefix: _part(arrays, prefix, part) for prefix, part in like.items()}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self.refusal(quote(str(error)), path) from error


def save_state(path: Path, numbers: Mapping[str, Any], parts: Mapping[str, Arrays]) -> None:
    """Writes all of a state at once, see `TrainingKind.load`: a reader sees that before or this."""
    arrays = {
        f"{prefix}{name}": array for prefix, part in parts.items() for name, array in part.items()
    }
    save_with_card(path, arrays, json.dumps(numbers, sort_keys=True), lasting=True)


def leaves_of(tree: Any, digits: int) -> dict[str, npt.NDArray[Any]]:
    """Arrays of a state of JAX, by their number, padded to `digits`."""
    import jax

    return {f"{n:0{digits}}": np.asarray(leaf) for n, leaf in enumerate(jax.tree.leaves(tree))}


def with_leaves(tree: Any, leaves: Arrays, digits: int) -> Any:
    """A state of JAX with other arrays, as `leaves_of` gave them."""
    import jax

    found = [jax.numpy.asarray(leaves[name]) for name in leaves_of(tree, digits)]
    return jax.tree.unflatten(jax.tree.structure(tree), found)


@dataclass(frozen=True)
class TrainingLoop:
    """Steps of a training, with a state on disk now and then.

    Attributes:
        total: steps in all.
        tell: hears of each.
        unit: what is counted.
        counted: how many of that some steps are.
        phase: for progress.
    """

    total: int
    tell: Tell
    unit: str
    counted: Callable[[int], int] = int
    phase: str = "training"

    def run(
        self,
        done: int,
        step: Callable[[int], Figures],
        stop: Callable[[int], tuple[str, Figures]],
        stops: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """Goes on until all steps are done.

        Args:
            done: steps of the state that this begins with.
            step: takes the step of a number, from 1 on; gives figures for curves.
            stop: looks at what has been learned and saves it; gives a note, and more figures.
            stops: whether it does so after a step; by default after each.
        """
        note, count = "", self.counted(self.total)
        for number in range(done + 1, self.total + 1):
            figures = dict(step(number))
            if stops(number):
                note, more = stop(number)
                figures |= more
            done_count = self.counted(number)
            self.tell(TrainingProgress(self.phase, done_count, count, note, self.unit, figures))


def versions_of(*libraries: str) -> dict[str, str | None]:
    """Versions that decide a result: of Python, of the compiler, and of libraries; None if none."""
    found: dict[str, str | None] = {"python": ".".join(platform.python_version_tuple()[:2])}
    for name in ("mcm-compiler", *libraries):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def recipe_of(name: str, recipes: Mapping[str, T]) -> T:
    """The recipe of a name.

    Raises:
        CompileError: MCM-U003 for an unknown one.
    """
    if name not in recipes:
        raise CompileError.of(
            "MCM-U003",
            f"unknown recipe {quote(name)}",
            at=f"recipe {quote(name)}",
            hint=f"known: {', '.join(sorted(recipes))}",
        )
    return recipes[name]


def _part(
    arrays: dict[str, npt.NDArray[Any]], prefix: str, like: Arrays | None
) -> dict[str, npt.NDArray[Any]]:
    names = like
    if names is None:
        names = [name.removeprefix(prefix) for name in arrays if name.startswith(prefix)]
    found = {name: arrays[prefix + name] for name in names}
    for name, array in found.items():
        if like is not None and (array.shape, array.dtype) != (like[name].shape, like[name].dtype):
            raise ValueError(f"its '{prefix}{name}' has another shape or type")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"its '{prefix}{name}' is not finite")
    return found


def _holds(noted: Any, asked: Any) -> bool:
    """Equality, but for names that only an earlier release noted, such as a library's version."""
    if isinstance(noted, dict) and isinstance(asked, dict):
        known, wanted = cast("dict[str, Any]", noted), cast("dict[str, Any]", asked)
        return all(_holds(known.get(name), value) for name, value in wanted.items())
    return noted == asked


def _text(run: Mapping[str, Any]) -> bytes:
    return (json.dumps(run, sort_keys=True, indent=2) + "\n").encode()
