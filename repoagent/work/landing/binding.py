"""What a patch of a run is made for: the files that it names, bound to what is on disk, or why it may not be made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from repoagent.edit.apply.tree import spelled
from repoagent.edit.briefing.tools import is_ignored_here, known_or_read
from repoagent.edit.verify.scope import why_content_is_off_limits
from repoagent.errors import RepoagentError
from repoagent.patch import FilePatch
from repoagent.patch.paths import bad_path
from repoagent.repo import Source
from repoagent.repo.index import read_entries
from repoagent.repo.paths import is_ignored
from repoagent.repo.run import GitError
from repoagent.repo.transaction.refusals import left_out
from repoagent.work.desk import Desk


def bind(desk: Desk, patches: Sequence[FilePatch]) -> str:
    """Bind the files that the patches name, those of a partly refused edit and those seen before, to what is on disk;
    why they can't be, or ""."""
    bench = desk.bench
    named = spelled(patches) | desk.draft_files.keys()
    here = {name for name in named if bad_path(name) is None and (desk.worktree.top / name).is_file()}
    names = sorted(here | set(desk.shown))
    bench.not_ignored = _not_ignored(desk, names)
    for path in names:
        try:
            source = known_or_read(bench, path)
        except RepoagentError as error:
            if path in here:
                return str(error)
            continue
        if path in here and path not in bench.editable and (reason := _why_closed(desk, source)):
            return f"{path} may not be changed: {reason}"
        if source.data is None:  # it was shown, and is gone
            bench.draft = replace(
                bench.draft, sources={p: s for p, s in bench.draft.sources.items() if p != path}
            )
    missing = [name for name in sorted(set(spelled(patches)) - here) if bad_path(name) is None]
    if refusal := _left_out(desk, missing):
        return refusal
    for patch in patches:
        unseen = [name for name in spelled([patch]) & here if name not in desk.shown]
        if unseen and patch.whole is not None and patch.rows is None and patch.action == "edit":
            return f"{unseen[0]} is there already, and you have not read it: read it first."
    return ""


def _not_ignored(desk: Desk, names: Sequence[str]) -> frozenset[str]:
    """Those that git does not ignore, by one call of git; none where it can't say it of all of them."""
    try:
        return frozenset(names) - is_ignored(desk.worktree, names)
    except GitError:  # one is behind a link, or in a submodule: then each is asked about alone
        return frozenset()


def _why_closed(desk: Desk, source: Source) -> str:
    """Why a file that is there is not among those that may be changed."""
    if why := why_content_is_off_limits(source.data or b""):
        return why
    return "git ignores it" if is_ignored_here(desk.bench, source.path) else ""


def _left_out(desk: Desk, names: Sequence[str]) -> str:
    """Of files that are not there: what to say where git has one of them, and leaves it out of the work tree."""
    known = read_entries(desk.worktree, names) if names else {}
    return next((left_out(name) for name, entry in known.items() if entry.skip_worktree), "")
