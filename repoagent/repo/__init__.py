"""The git work tree: open it, read it, plan and make a commit, recover, undo.

Here     run.py is the one door to git; worktree.py finds the work tree; source.py, content.py and paths.py read files,
         facts.py, commits.py, status.py, index.py, blobs.py and branches.py read and write what git keeps of them;
         change.py is the change of a file, merge.py and project.py carry one over to another version
write/   gives a file new bytes, whole or not at all
transaction/  makes a change of files one commit, or nothing at all; recovers after a crash
undo/    takes an edit back, or makes it again
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.repo.change import FileChange
    from repoagent.repo.facts import Facts, gather, head, head_blobs
    from repoagent.repo.options import Options
    from repoagent.repo.run import GitError, git, git_output, git_stream
    from repoagent.repo.source import Source, blob_hash, read_source
    from repoagent.repo.transaction import CommitResult, HookFailed, InPlace, Inseparable, Transaction
    from repoagent.repo.worktree import WorkTree, layout, open_worktree, relative
    from repoagent.repo.write import Moved

_HOME = {
    "CommitResult": "transaction",
    "Facts": "facts",
    "FileChange": "change",
    "GitError": "run",
    "HookFailed": "transaction",
    "InPlace": "transaction",
    "Inseparable": "transaction",
    "Moved": "write",
    "Options": "options",
    "Source": "source",
    "Transaction": "transaction",
    "WorkTree": "worktree",
    "blob_hash": "source",
    "gather": "facts",
    "git": "run",
    "git_output": "run",
    "git_stream": "run",
    "head": "facts",
    "head_blobs": "facts",
    "layout": "worktree",
    "open_worktree": "worktree",
    "read_source": "source",
    "relative": "worktree",
}

__all__ = [
    "CommitResult",
    "Facts",
    "FileChange",
    "GitError",
    "HookFailed",
    "InPlace",
    "Inseparable",
    "Moved",
    "Options",
    "Source",
    "Transaction",
    "WorkTree",
    "blob_hash",
    "gather",
    "git",
    "git_output",
    "git_stream",
    "head",
    "head_blobs",
    "layout",
    "open_worktree",
    "read_source",
    "relative",
]

__getattr__ = door(__name__, _HOME)
