"""What a change needs on its way from a proposal to a commit, whoever made it."""

from __future__ import annotations

import secrets
import time
from typing import Protocol

from repoagent.edit.draft import Draft
from repoagent.edit.request import EditRequest
from repoagent.patch import Placement
from repoagent.repo import WorkTree


class Bench(Protocol):
    """A change on the table: `draft` and `placements` become others when a file is saved meanwhile.

    `goes_on` is said where the change could not be committed now: what is kept for a later run, or "".
    """

    worktree: WorkTree
    request: EditRequest
    draft: Draft
    placements: list[Placement]
    goes_on: str


def new_edit_id() -> str:
    """An id that sorts by time, is a legal file and ref name, and is not met twice."""
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(3)
