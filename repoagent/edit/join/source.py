"""The file that segments are joined into, as it is now; or why it is not there any more."""

from __future__ import annotations

from pathlib import Path

from repoagent.edit.request import EditRequest
from repoagent.edit.verify.scope import gate
from repoagent.errors import Refused
from repoagent.repo import Source, WorkTree, blob_hash, read_source
from repoagent.repo.content import look
from repoagent.split.artifact import Index
from repoagent.split.artifact.facts import wide_encoding
from repoagent.split.artifact.finding import gone


def present_source(worktree: WorkTree, index: Index, request: EditRequest) -> Source:
    """The source of the split in the work tree. Raises Refused where it is gone, a link, binary, or off limits."""
    path = index.source.path
    if reason := gate(worktree.top, request.paths)(path):
        raise Refused(reason)
    source = read_source(worktree, path)
    if source.data is None:
        raise Refused(gone(worktree, index, Path.cwd()))
    return _text(index, source)


def outside_source(index: Index) -> Source:
    """The source of a split that is in no repository, by its name in its folder. Raises Refused as the other."""
    path = Path(index.source.path)
    if path.is_symlink():
        raise Refused(f"{path} is a symbolic link by now: split the file that it leads to")
    try:
        found = look(path.parent, path.name)
    except OSError as error:
        raise Refused(f"{path} can't be read: {error.strerror}") from error
    if found is None:
        raise Refused(f"{path} is not there any more: bring it back, and join again")
    return _text(index, Source(path.name, found.data, found.mode, blob_hash(found.data)))


def _text(index: Index, source: Source) -> Source:
    if index.source.encoding == "binary" or source.blob == index.source.blob:
        return source
    if encoding := wide_encoding(source.data or b""):
        raise Refused(f"{index.source.path} is in {encoding} by now: save it as UTF-8, and join again")
    if source.binary:
        raise Refused(f"{index.source.path} is binary by now, and was text when it was split: split it again")
    return source
