"""What must be old or new after a crash (the state of git, the files and the memory), and what must not be left."""

from __future__ import annotations

from pathlib import Path

from repoagent.git.undo_log import list_edits
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.llm.conversation import read_conversation
from repoagent.memory.edit_records import read_edits
from repoagent.memory.identity.store import read_memories
from repoagent.memory.notes import read_notes
from tests.conftest import GitRepo
from tests.git.edits import journals
from tests.git.snapshot import visible


def look(repo: GitRepo) -> dict[str, object]:
    """Return everything that must be as before or as after the work."""
    seen = visible(repo)
    return {
        "git": {
            key: value
            for key, value in seen.items()
            if key.partition(" ")[0] not in ("file", "folder", "status") and not key.endswith(".lock")
        },  # `litter` checks the locks
        "status": {key: seen[key] for key in seen if key.startswith("status ")},
        "bytes": repr(contents(repo.top)),
        "memory": memory(repo),
        "edits": done(repo),
    }


def contents(top: Path) -> dict[str, tuple[int, bytes]]:
    """Return the mode and content of every file of the work tree."""
    files = {}
    for path in sorted(top.rglob("*")):
        parts = path.relative_to(top).parts
        if parts[0] not in (".git", ".repoagent") and path.is_file():
            files["/".join(parts)] = (path.stat().st_mode, path.read_bytes())
    return files


def done(repo: GitRepo) -> list[tuple[str, str | None, bool, tuple[str, ...]]]:
    return [(edit.id, edit.commit, edit.undone, edit.paths) for edit in list_edits(open_worktree(repo.top))]


def memory(repo: GitRepo) -> list[object]:
    """Return the memory of each file, without times, inodes and random names."""
    states: list[object] = []
    for one in read_memories(layout_of(open_worktree(repo.top))):
        conversation = read_conversation(one.conversation)
        turns = conversation.turns if conversation else ()
        identity = one.identity
        states.append(
            (
                identity.path, identity.earlier_paths, identity.blobs[-1:], identity.commit,
                [(turn.role, turn.text, _timeless(turn.meta)) for turn in turns],
                [note.text for note in read_notes(one.notes)],
                [(edit.id, edit.state, edit.commit, edit.result_blob) for edit in read_edits(one.edits)],
            )
        )  # fmt: skip
    return states


def _timeless(meta: object) -> list[tuple[str, str]]:
    assert isinstance(meta, dict)
    return [(name, value) for name, value in meta.items() if name not in ("time", "sent", "tokens")]


def litter(repo: GitRepo) -> list[str]:
    """Return the paths that a crash left and that no command will ever remove."""
    dirs = layout_of(open_worktree(repo.top))
    left = [path for path in repo.top.rglob("*") if path.name.startswith((".tmp-", ".repoagent-", ".new-"))]
    locks = (repo.top / ".git").rglob("*.lock")
    left += [path for path in locks if "repoagent" not in path.parts]
    left += [path for path in dirs.memory.glob("*-*") if not (path / "identity.json").exists()]
    left += [path for path in dirs.private.rglob("*") if path.parent.name == "pending"]
    left = [path for path in left if not _may_be_new(path)]
    return [str(path.relative_to(repo.top)) for path in left] + journals(repo)


def _may_be_new(path: Path) -> bool:
    """Whether it may be a new journal that its owner has not locked yet; such a folder is not removed at once."""
    return path.name.startswith(".new-") and not any(path.iterdir())
