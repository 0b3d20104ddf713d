"""A change of files that becomes one commit, or none at all.

Read writing.py and transaction.py first. Then, in the order in which they are needed:

the plan      plan.py, made against versions.py; refusals.py says where there is none; in_place.py is for changes that
              the files hold already
the lock      lock.py, git's own; left_locks.py for those that a killed git leaves
the journal   record.py is what it says, journaled.py how
the attempt   attempt.py prepares it, message.py its message, git_commit.py runs git, find.py looks for the commit
after hooks   hooks.py judges, swept_in.py and recommit.py take out of the commit what does not belong there;
              other_files.py, other_lines.py and waiting.py give the user back what hooks, or git, have taken
the end       settle.py or roll_back.py; user_index.py, archive.py; results.py is what the caller hears
a crash       recover.py
"""

from __future__ import annotations

from repoagent.repo.transaction.in_place import InPlace
from repoagent.repo.transaction.results import CommitResult, HookFailed, InHead, Inseparable, Unsettled
from repoagent.repo.transaction.transaction import Transaction
from repoagent.repo.transaction.writing import new_edit_id

__all__ = [
    "CommitResult",
    "HookFailed",
    "InHead",
    "InPlace",
    "Inseparable",
    "Transaction",
    "Unsettled",
    "new_edit_id",
]
