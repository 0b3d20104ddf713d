"""A file of the last commit that is missing from the work tree: the advice in the error restores it."""

from __future__ import annotations

import re
import shlex

import pytest

from repoagent.edit.checks import refuse_untracked
from repoagent.edit.request import EditRequest, Target
from repoagent.errors import Refused
from repoagent.git.files import read_source
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo

PATH = "lib/two words.txt"


@pytest.mark.parametrize("how", ["removed", "sparse cone", "sparse patterns", "skip-worktree"])
def test_the_advice_helps(repo: GitRepo, how: str) -> None:
    repo.write(PATH, "x\n")
    repo.commit("folders")
    if how.startswith("sparse"):
        kind = "--cone" if how == "sparse cone" else "--no-cone"
        repo.git("sparse-checkout", "set", kind, *(["src"] if kind == "--cone" else ["/src/"]))
    else:
        (repo.top / PATH).unlink()
    if how == "skip-worktree":
        repo.git("update-index", "--skip-worktree", PATH)
    worktree = open_worktree(repo.top)
    request = EditRequest("x", (Target(PATH),))
    with pytest.raises(Refused) as caught:
        refuse_untracked(worktree, request, {PATH: read_source(worktree, PATH)})
    assert ("excluded by the sparse checkout" in str(caught.value)) == (how != "removed")
    (advised,) = re.findall(r"`git (restore .*?)`", str(caught.value))
    repo.git(*shlex.split(advised))
    assert repo.read(PATH) == b"x\n"
    refuse_untracked(worktree, request, {PATH: read_source(worktree, PATH)})
