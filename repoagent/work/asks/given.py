"""The files that a person names for a question: text, images and PDFs, by what they hold and not by what they are
called."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from repoagent.dataclass import dataclass
from repoagent.edit.briefing.context import shown
from repoagent.edit.verify.scope import LFS_POINTER, gate, holds_secrets
from repoagent.errors import Refused, UsageError
from repoagent.llm.media import Media, media_of
from repoagent.patch import decode
from repoagent.repo import WorkTree
from repoagent.repo.missing import no_such_file

LARGEST = 64_000_000  # bytes; no model takes as much
STREAM = "standard input"


@dataclass(frozen=True)
class Given:
    """One file as it will be sent: `text`, with keys and tokens masked, or `media`. `digest` is that of its bytes.
    `note` is what the person should know about it."""

    name: str
    digest: str
    size: int
    text: str = ""
    media: Media | None = None
    note: str = ""


def read_given(names: Sequence[Path], worktree: WorkTree | None, cwd: Path) -> list[Given]:
    """The files, each once. Names are relative to `cwd`; a pipe (`<(git diff)`) is read to its end.

    Raises UsageError for one that is not there, is a folder, is too large or holds what can't be sent; Refused for what
    `.repoagentignore` names, and for a name that usually holds secrets unless it stands alone.
    """
    found = {}
    for name in dict.fromkeys(names):
        path = cwd / name.expanduser()
        _refuse_withheld(name, path, worktree)
        if len(names) > 1 and holds_secrets(str(name)):  # a * of the shell may have named it
            raise Refused(
                f"{name} has a name that usually holds secrets: name it alone if it is really meant"
            )
        found[name] = _given(_read(name, path), os.fsdecode(name))
    return list(found.values())


def read_stream(stream: IO[bytes]) -> Given | None:
    """What a pipe or a file on standard input holds; None for nothing. Raises UsageError as `read_given` does."""
    data = stream.read(LARGEST + 1)
    return _given(_not_too_large(data, STREAM), STREAM) if data else None


def _given(data: bytes, name: str) -> Given:
    from hashlib import sha256

    digest = sha256(data).hexdigest()
    if data.startswith(LFS_POINTER):
        raise UsageError(f"{name} is a Git LFS pointer: run `git lfs pull` first")
    media = media_of(data, name)
    if media is not None:
        return Given(name, digest, len(data), media=media)
    if decode(data) is None:
        raise UsageError(f"{name} is binary: only text, images (PNG, JPEG, GIF, WebP) and PDFs can be sent")
    text, note = shown(data), ""
    if not text.strip():
        note = f"{name} is empty"
    elif "<svg" in text[:2_000] and name.lower().endswith((".svg", STREAM)):
        note = f"{name} is sent as its source: convert it to PNG to have the picture looked at"
    return Given(name, digest, len(data), text, note=note)


def _read(name: Path, path: Path) -> bytes:
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise UsageError(f"{name} is a folder: name files in it")
        if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind)):
            raise UsageError(f"{name} is no file: name a file, or - for standard input")
        with path.open("rb") as file:
            return _not_too_large(file.read(LARGEST + 1), str(name))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise no_such_file(path, Path.cwd()) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{name} can't be read: {reason}") from error


def _not_too_large(data: bytes, name: str) -> bytes:
    if len(data) > LARGEST:
        raise UsageError(f"{name} has more than {LARGEST:,} bytes, which no model takes: send a part of it")
    return data


def _refuse_withheld(name: Path, path: Path, worktree: WorkTree | None) -> None:
    """Raise Refused for what `.repoagentignore` names, by the name that was given or by where a link leads."""
    if worktree is None:
        return
    for place in dict.fromkeys((Path(os.path.normpath(path)), Path(os.path.realpath(path)))):
        if place.is_relative_to(worktree.top):
            inside = os.fsdecode(place.relative_to(worktree.top))
            if reason := gate(worktree.top, [inside])(inside):
                raise Refused(reason)
