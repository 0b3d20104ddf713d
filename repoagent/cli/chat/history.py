"""What was typed before, a file for each repository in the user's own state folder: nobody else reads it, and what was
said of one project does not turn up in another."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.llm import state_folder
from repoagent.store import jsonl, write_whole
from repoagent.store.document import dumps
from repoagent.store.masking import mask

if TYPE_CHECKING:
    from repoagent.repo import WorkTree
    from repoagent.store.report import Warn

MOST = 2_000  # entries that are kept
_LONGEST = 16_384  # characters of one: what is pasted at length is not typed again


def history_file(worktree: WorkTree) -> Path:
    """Where it stands; linked work trees share it."""
    key = sha256(str(worktree.common_dir).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return state_folder().parent / "chat" / f"{key}.jsonl"


def entries(file: Path, warn: Warn) -> list[str]:
    """What was typed, the oldest first; the file is cut to MOST entries where it has become twice as long."""
    found = [text for record in jsonl.read(file, warn=warn) if isinstance(text := record.get("text"), str)]
    if len(found) > 2 * MOST:
        data = b"".join(dumps({"text": text}) + b"\n" for text in found[-MOST:])
        write_whole(file, data)
    return found[-MOST:]


def add(file: Path, text: str) -> None:
    """Keep what was typed, with keys and tokens masked. Raises Busy and Refused where it can't be written."""
    if len(text) <= _LONGEST:
        jsonl.append(file, {"text": mask(text)})
