"""Convert GitPython objects to and from the engine's types.

Arguments of `Repository` become paths, revisions and patch text, and ids become `git.Commit`. This is the only module
that imports `git`; the library loads it only when needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import git
from git.diff import Diff

from repoagent.errors import NothingDone, UsageError

Revision: TypeAlias = "git.Commit | git.TagObject | git.SymbolicReference"
# how git quotes the special bytes of a path: \a to \r, \" and \\, the rest in octal
_ESCAPES = {byte: b"\\%03o" % byte for byte in (*range(0x20), *range(0x7F, 0x100))}
_ESCAPES |= {byte: b"\\" + letter.encode() for byte, letter in zip(range(7, 14), "abtnvfr", strict=True)}
_ESCAPES |= {byte: b"\\%c" % byte for byte in b'"\\'}


def open_repo(top: Path) -> git.Repo:
    """The `git.Repo` of a work tree. Raises UsageError if GitPython cannot open it."""
    try:
        return git.Repo(top)
    except (git.InvalidGitRepositoryError, git.NoSuchPathError) as error:
        raise UsageError(f"GitPython cannot open the repository at {top}") from error


def open_commit(top: Path, commit: str) -> git.Commit:
    """The `git.Commit` for a full id. Raises UsageError if GitPython cannot open the repository or the commit."""
    try:
        return open_repo(top).commit(commit)
    except (ValueError, git.BadName) as error:
        raise UsageError(f"GitPython cannot read commit {commit} in {top}") from error


def worktree_path(repo: object) -> str:
    """The top of the work tree of a `git.Repo`. Raises UsageError for a bare repository and for any other object."""
    if not isinstance(repo, git.Repo):
        raise UsageError(f"Repository takes a path or a git.Repo, not {_type(repo)}")
    if repo.working_tree_dir is None:
        raise UsageError(f"the git.Repo {repo.git_dir} is bare: Repository needs a work tree")
    return str(repo.working_tree_dir)


def revision_name(revision: object) -> str:
    """A revision as an argument for git. Raises UsageError for any object but a commit, a tag or a reference."""
    if isinstance(revision, git.SymbolicReference):
        return str(revision.path)
    if isinstance(revision, git.Commit):
        return revision.hexsha
    if isinstance(revision, git.TagObject):
        return f"{revision.hexsha}^{{commit}}"
    raise UsageError(f"a revision must be a string, a git.Commit or a git.Reference, not {_type(revision)}")


def blob_id(blob: object) -> str:
    """The id of a `git.Blob`. Raises UsageError for any other object."""
    if not isinstance(blob, git.Blob):
        raise UsageError(f"a source must be a blob id or a git.Blob, not {_type(blob)}")
    return blob.hexsha


def patch_text(diffs: object) -> bytes:
    """Return the patch of a `git.DiffIndex`, or of other `git.Diff` objects, as `git diff` prints it.

    Raises UsageError for diffs without patches and for other objects, NothingDone if there are no diffs.
    """
    items = [diffs] if isinstance(diffs, Diff) else list(diffs) if isinstance(diffs, Iterable) else [diffs]
    for item in items:
        if not isinstance(item, Diff):
            raise UsageError(f"a diff must be a string, bytes or a git.DiffIndex, not {_type(diffs)}")
        if item.change_type is not None:  # GitPython sets it for the raw format, not for patches
            raise UsageError("the git.DiffIndex has no patches: create it with create_patch=True")
    if not items:
        raise NothingDone("the git.DiffIndex is empty: there is nothing to review or apply")
    return b"".join(map(_file_patch, items))


def _file_patch(diff: Diff) -> bytes:
    """The patch of one file. GitPython keeps the text of the hunks, but only the values of the header."""
    old, new = diff.a_rawpath or diff.b_rawpath or b"", diff.b_rawpath or diff.a_rawpath or b""
    lines = [b"diff --git %s %s" % (_quoted(b"a/" + old), _quoted(b"b/" + new))]
    if diff.new_file:
        lines.append(b"new file mode %o" % (diff.b_mode or 0o100644))
    elif diff.deleted_file:
        lines.append(b"deleted file mode %o" % (diff.a_mode or 0o100644))
    elif diff.a_mode != diff.b_mode and diff.a_mode and diff.b_mode:
        lines += [b"old mode %o" % diff.a_mode, b"new mode %o" % diff.b_mode]
    if diff.raw_rename_from or diff.copied_file:
        verb = b"copy" if diff.copied_file else b"rename"
        lines += [verb + b" from " + _quoted(old), verb + b" to " + _quoted(new)]
    if diff.a_blob or diff.b_blob:
        ids = [blob.hexsha if blob else Diff.NULL_HEX_SHA for blob in (diff.a_blob, diff.b_blob)]
        same_mode = diff.b_mode and diff.a_mode == diff.b_mode and diff.a_blob and diff.b_blob
        mode = f" {diff.b_mode:o}" if same_mode else ""
        lines.append(f"index {ids[0]}..{ids[1]}{mode}".encode())
    hunks = diff.diff or b""
    hunks = hunks.encode("utf-8", "surrogateescape") if isinstance(hunks, str) else hunks
    if hunks.startswith(b"@@"):
        lines.append(b"--- " + (b"/dev/null" if diff.new_file else _quoted(b"a/" + old)))
        lines.append(b"+++ " + (b"/dev/null" if diff.deleted_file else _quoted(b"b/" + new)))
    return b"\n".join(lines) + b"\n" + hunks


def _quoted(path: bytes) -> bytes:
    """A path as written in a patch by git."""
    quoted = b"".join(_ESCAPES.get(byte, bytes([byte])) for byte in path)
    return path if quoted == path else b'"%s"' % quoted


def _type(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
