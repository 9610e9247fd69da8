"""The cache of a project: finished output folders by the content that they were made from.

An entry is a folder of its own: `entry.json` with the hash of every file, and the files. It is
written aside and renamed, so that a killed build leaves whole entries alone. The page of an output
folder is next to its files where one was asked for. Before a file of an entry is used, its hash
is compared. What was compared once is known again by what the system says of the file, so that an
unchanged build reads no file twice. All that is believed has a signature of this installation:
entries, notes about files that were compared, pages, and names of external data.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.ci.signatures import Signer, signer_apart_from
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.processes.private_folders import private_folder, remove_stale
from mcm_compiler.processes.staging import staging
from mcm_compiler.project.cell_record import CellRecord, EntryRecord, StoredFile, to_data
from mcm_compiler.text.json_text import UnreadableError, parse_json, read_bounded, record_of

ENTRY = "entry.json"
OUTPUT = "output"
PLACED = "placed.json"
PAGE = re.compile(r"page-([0-9a-f]{64})\.html")
"""Name of the page of an entry, made when it is asked for: it has the page's signature."""

TAG = "CACHEDIR.TAG"
_TAG_TEXT = "Signature: 8a477f597d28d172789f06886806bc55\n# A cache of mcmc build.\n"
_IGNORE = ".gitignore"

MAX_ENTRY_BYTES = 1 << 24
"""Of `entry.json`; diagnostics of a hostile model may be many."""

_MAX_MOVES = 100
"""Tries to put an entry where other builds remove some all the time."""

_KEY = re.compile(r"[0-9a-f]{64}")


class TamperedError(Exception):
    """An entry is not what was put into the cache; the text says what differs."""


@dataclass(frozen=True)
class CacheEntry:
    """An entry whose record was read; its files are compared when they are used.

    Attributes:
        folder: where it is.
        key: of the cell.
        record: what became of the cell.
        files: of its output folder.
        signed: whether this installation made it; what others made has to be proven.
    """

    folder: Path
    key: str
    record: CellRecord
    files: dict[str, StoredFile]
    signed: bool

    @property
    def report_sha256(self) -> str | None:
        """Hash of the report, or None where the compile failed."""
        stored = self.files.get(layout.REPORT)
        return stored.sha256 if stored is not None else None


class BuildCache:
    """The cache of a project.

    Args:
        root: its folder.
        limit_bytes: above which the least recently used entries go.
    """

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self.root = root
        self.limit_bytes = limit_bytes

    @property
    def signer(self) -> Signer:
        """Signs what is kept; the project is the working folder."""
        return signer_apart_from(self.root.absolute(), Path.cwd())

    def open(self) -> None:
        """Makes the folder, and removes what killed builds have left in it.

        Raises:
            CompileError: MCM-B019 if there is something else, MCM-A002 if it cannot be written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            # Another build may make the folder at the same moment: its tag is there before the
            # rest, so that a tag is looked for after the rest was seen.
            if any(self.root.iterdir()) and not (self.root / TAG).is_file():
                raise CompileError.of(
                    "MCM-B019",
                    "the folder of the cache holds something else",
                    at=quote(str(self.root)),
                )
            for name, text in ((TAG, _TAG_TEXT), (_IGNORE, "*\n")):
                if not (self.root / name).exists():
                    (self.root / name).write_text(text, encoding="ascii")
            for name in ("entries", "external"):
                (self.root / name).mkdir(exist_ok=True)
            remove_stale(self.root)
        except OSError as error:
            raise _cannot_write(error, self.root) from error

    def find(self, key: str) -> CacheEntry | None:
        """The entry of a key.

        Raises:
            TamperedError: if its record is not what was written.
        """
        folder = self._folder(key)
        if not folder.is_dir():
            return None
        try:
            data = parse_json(read_bounded(folder / ENTRY, MAX_ENTRY_BYTES))
            if not isinstance(data, dict) or data.get("sha256") != _digest(data.get("entry")):
                raise TamperedError(f"the hash of {ENTRY} is another one")
            entry = record_of(data["entry"], EntryRecord)
        except UnreadableError as error:
            raise TamperedError(f"{ENTRY}: {error}") from None
        if entry.key != key:
            raise TamperedError(f"{ENTRY} is that of another cell")
        names = [name for name in entry.files if not _is_plain(name)]
        if names:
            raise TamperedError(f"{ENTRY} names the file {quote(names[0])}")
        signed = self.signer.holds(data.get("signature"), ENTRY, data["entry"])
        return CacheEntry(folder, key, entry.record, entry.files, signed)

    def place(self, entry: CacheEntry, destination: Path) -> None:
        """Makes the output folder of an entry; one that is there and unchanged stays.

        Raises:
            TamperedError: if a file of the entry has another hash.
            CompileError: MCM-A002 and MCM-A003 as `staging`.
        """
        if not entry.files or self.is_placed(entry, destination):
            return
        self._compare(entry)
        if not _holds(destination, entry.files):
            with staging(destination, force=True) as stage:
                self.copy(entry, stage.path)
        self.note_placed(entry, destination)

    def copy(self, entry: CacheEntry, destination: Path) -> None:
        """Copies the files of an entry into a folder.

        Raises:
            TamperedError: if a file of the entry has another hash.
            OSError: if one cannot be read or written.
        """
        for name, stored in entry.files.items():
            _copied(entry.folder / OUTPUT / name, destination / name, stored)

    def is_placed(self, entry: CacheEntry, destination: Path) -> bool:
        """Return whether nobody wrote into either folder since their hashes were compared."""
        stamps = _stamps_of(entry, destination)
        known = _known_stamps(entry)
        return self.signer.holds(known, PLACED, entry.key, stamps)

    def note_placed(self, entry: CacheEntry, destination: Path) -> None:
        """Remembers that both folders are as they should be; costs time alone if it fails."""
        signature = self.signer.sign(PLACED, entry.key, _stamps_of(entry, destination))
        self._put(entry.folder / PLACED, json.dumps(signature).encode())

    def store(self, key: str, folder: Path | None, record: CellRecord) -> None:
        """Puts an output folder and what became of it into the cache, whole or not at all.

        Args:
            key: of the cell; an entry that is there is replaced.
            folder: its output folder, or None where the compile failed.
            record: what became of it.

        Raises:
            CompileError: MCM-A002 if the system refuses it.
        """
        try:
            with private_folder(self.root) as place:
                output = place / "new" / OUTPUT
                output.mkdir(parents=True)
                names = sorted(os.listdir(folder)) if folder is not None else []
                files: dict[str, StoredFile] = {}
                for name in names:
                    source = Path(folder or place, name)
                    shutil.copyfile(source, output / name, follow_symlinks=False)
                    files[name] = StoredFile(
                        sha256_file(output / name), (output / name).stat().st_size
                    )
                entry = to_data(EntryRecord(key, files, record))
                signature = self.signer.sign(ENTRY, entry)
                text = json.dumps(
                    {"signature": signature, "sha256": _digest(entry), "entry": entry}
                )
                (place / "new" / ENTRY).write_text(text, encoding="ascii")
                home = self._folder(key)
                with contextlib.suppress(FileNotFoundError):
                    home.rename(place / "old")
                _moved(place / "new", home)
        except OSError as error:
            raise _cannot_write(error, self.root) from error
        if folder is not None:
            self.note_placed(CacheEntry(home, key, record, files, signed=True), folder)

    def page(self, entry: CacheEntry) -> bytes | None:
        """The page of the output folder of an entry; None where this installation made none."""
        with contextlib.suppress(OSError):
            for name in os.listdir(entry.folder):
                path, found = entry.folder / name, PAGE.fullmatch(name)
                if found is None or not _is_regular(path):
                    continue
                content = path.read_bytes()
                if self.signer.holds(found.group(1), *_of_page(entry.key, content)):
                    return content
        return None

    def keep_page(self, key: str, content: bytes) -> None:
        """Puts a page next to the output folder of an entry; costs time alone if it fails."""
        name = f"page-{self.signer.sign(*_of_page(key, content))}.html"
        self._put(self._folder(key) / name, content)

    def touch(self, keys: Iterable[str]) -> None:
        """Marks entries as used now."""
        for key in keys:
            with contextlib.suppress(OSError):
                os.utime(self._folder(key))

    def remove(self, key: str) -> None:
        """Removes an entry at once; one that is not there is ignored."""
        folder = self._folder(key)
        with contextlib.suppress(FileNotFoundError), private_folder(self.root) as place:
            folder.rename(place / "old")
        with contextlib.suppress(OSError):
            folder.parent.rmdir()  # unless others lie there

    def trim(self, kept: Collection[str] = ()) -> int:
        """Removes the least recently used entries until the rest is within the limit.

        Args:
            kept: keys of this build, which go last.

        Returns:
            How many went.
        """
        used: list[tuple[bool, int, int, str]] = []
        for group in (self.root / "entries").iterdir():
            for folder in group.iterdir() if group.is_dir() else ():
                key = group.name + folder.name
                with contextlib.suppress(OSError):
                    when = folder.stat().st_mtime_ns
                    used.append((key in kept, when, _bytes_of(folder), key))
        total, gone = sum(size for _, _, size, _ in used), 0
        for _, _, size, key in sorted(used):
            if total <= self.limit_bytes:
                break
            self.remove(key)
            total, gone = total - size, gone + 1
        return gone

    def recall(self, digest: str) -> list[str] | None:
        """Names of the external data of a model by its hash; None if it is not known."""
        try:
            data = parse_json(read_bounded(self.root / "external" / digest, MAX_ENTRY_BYTES))
        except UnreadableError:
            return None
        if not isinstance(data, dict):
            return None
        names = data.get("names")
        return names if self.signer.holds(data.get("signature"), "names", digest, names) else None

    def remember(self, digest: str, names: list[str]) -> None:
        """Keeps such names; costs time alone if it fails."""
        data = {"names": names, "signature": self.signer.sign("names", digest, names)}
        self._put(self.root / "external" / digest, json.dumps(data).encode())

    def _put(self, path: Path, content: bytes) -> None:
        with contextlib.suppress(OSError), private_folder(self.root) as place:
            (place / path.name).write_bytes(content)
            os.replace(place / path.name, path)

    def _folder(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key} is no key")
        return self.root / "entries" / key[:2] / key[2:]

    def _compare(self, entry: CacheEntry) -> None:
        output = entry.folder / OUTPUT
        try:
            present = set(os.listdir(output))
            if present != entry.files.keys():
                name = min(present ^ entry.files.keys())
                raise TamperedError(f"the file {quote(name)} is missing, or was added")
            for name, stored in entry.files.items():
                if not _has(output / name, stored):
                    raise TamperedError(f"the hash of {quote(name)} is another one")
        except OSError as error:
            raise TamperedError(error.strerror or str(error)) from None


def _cannot_write(error: OSError, root: Path) -> CompileError:
    """The diagnostic for a write into the cache that the system refused."""
    return CompileError.of(
        "MCM-A002",
        f"the cache cannot be written: {error.strerror or error}",
        at=quote(str(root)),
        hint="name another folder with 'cache', or build with --no-cache",
    )


def tampered(error: Exception, folder: Path, title: str) -> Diagnostic:
    """The warning about an entry that cannot be used."""
    return Diagnostic(
        "MCM-B014",
        f"the entry of the cache is not used, and the cell is compiled: {error}",
        at=f"{title}, in {folder}",
    )


def _moved(new: Path, home: Path) -> None:
    """Renames a new entry, unless another build was faster with the same content."""
    for _ in range(_MAX_MOVES):
        home.parent.mkdir(exist_ok=True)
        try:
            new.rename(home)
        except FileNotFoundError:
            continue  # another build has just removed the last entry beside it
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
        return


def _is_plain(name: str) -> bool:
    return Path(name).name == name and name not in ("", ".", "..") and "\0" not in name


def _digest(entry: object) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()


def _holds(folder: Path, files: dict[str, StoredFile]) -> bool:
    """Return whether a folder holds these files and no others."""
    try:
        if folder.is_symlink() or set(os.listdir(folder)) != files.keys():
            return False
        return all(_has(folder / name, stored) for name, stored in files.items())
    except OSError:
        return False


def _copied(source: Path, destination: Path, stored: StoredFile) -> None:
    """Copies a file; what changed since it was compared is found.

    No hard links: whoever writes into an output folder would write into the cache, and files with
    several links are refused as external data.
    """
    if not _is_regular(source) or source.stat().st_size != stored.bytes:
        raise TamperedError(f"the size or the kind of {quote(source.name)} is another one")
    shutil.copyfile(source, destination)
    if sha256_file(destination) != stored.sha256:
        raise TamperedError(f"the hash of {quote(source.name)} is another one")


def _has(path: Path, stored: StoredFile) -> bool:
    """Return whether a path is a file as it was stored; a pipe would be waited for."""
    same = _is_regular(path) and path.stat().st_size == stored.bytes
    return same and sha256_file(path) == stored.sha256


def _is_regular(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)


def _of_page(key: str, content: bytes) -> tuple[str, str, str]:
    return "page", key, hashlib.sha256(content).hexdigest()


def _stamps_of(entry: CacheEntry, destination: Path) -> list[object]:
    """Stamps of the files of both folders, and names of other entries."""
    return [str(destination.absolute()), *map(_stamps, (entry.folder / OUTPUT, destination))]


def _stamps(folder: Path) -> dict[str, list[int]] | None:
    try:
        with os.scandir(folder) as entries:
            found = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
    except OSError:
        return None
    return {
        name: [facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_mode]
        for name, facts in sorted(found.items())
    }


def _known_stamps(entry: CacheEntry) -> object:
    try:
        return parse_json(read_bounded(entry.folder / PLACED, MAX_ENTRY_BYTES))
    except UnreadableError:
        return None


def _bytes_of(folder: Path) -> int:
    total = 0
    for here, _, files in os.walk(folder):
        total += sum(os.lstat(os.path.join(here, name)).st_size for name in files)
    return total
