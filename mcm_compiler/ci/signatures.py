"""Signatures of what a cache holds: who has no key of this installation can make none.

A hash shows damage, but whoever changes a file can change its hash as well. The key is in the
user's state folder, readable by this user alone, and never where a cache or a project is kept. A
cache that comes from another machine has no valid signatures.
"""

from __future__ import annotations

import contextlib
import functools
import hmac
import json
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

KEY_BYTES = 32
NAME = "cache-key"
"""Name of the key's file, in the folder `mcmc` of the user's state folder."""


@dataclass(frozen=True)
class Signer:
    """Signs and recognises values of JSON.

    Attributes:
        key: of this installation; without one nothing is signed, and no signature holds.
        reason: why there is no key; empty where there is one.
    """

    key: bytes | None
    reason: str = ""

    def sign(self, *value: object) -> str:
        """The signature of a value whose first part says its kind; empty without a key."""
        if self.key is None:
            return ""
        text = json.dumps(value, sort_keys=True)
        return hmac.digest(self.key, text.encode(), "sha256").hex()

    def holds(self, signature: object, *value: object) -> bool:
        """Return whether this installation signed a value."""
        if self.key is None or not isinstance(signature, str):
            return False
        return hmac.compare_digest(signature.encode(), self.sign(*value).encode())


@functools.lru_cache(maxsize=8)
def signer_apart_from(*folders: Path) -> Signer:
    """The signer of this installation, whose key is made on first use.

    Args:
        folders: that others may write or copy; a key inside one of them is not used.
    """
    try:
        base = os.environ.get("XDG_STATE_HOME") or ""
        state = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
        path = state / "mcmc" / NAME
        real = Path(os.path.realpath(path))
        if any(real.is_relative_to(os.path.realpath(folder)) for folder in folders):
            return Signer(None, f"{path} is inside the project or its cache")
        return Signer(_read(path) or _made(path))
    except (OSError, RuntimeError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        return Signer(None, reason)


def _read(path: Path) -> bytes | None:
    """The key; None if there is none that this user alone can read and write."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        private = stat.S_ISREG(found.st_mode) and not found.st_mode & 0o077
        if not private or found.st_uid != os.geteuid() or found.st_size != KEY_BYTES:
            return None
        return stream.read()


def _made(path: Path) -> bytes:
    """A new key in the place of none, or of one that others may know.

    Raises:
        OSError: if it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{NAME}-{secrets.token_hex(8)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(secrets.token_bytes(KEY_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(new, path)  # of builds that begin at once one makes the key
        if (key := _read(path)) is not None:
            return key
        os.replace(new, path)
        return _read(path) or _refuse(path)
    finally:
        new.unlink(missing_ok=True)


def _refuse(path: Path) -> bytes:
    raise OSError(f"{path} is not a file of this user alone")
