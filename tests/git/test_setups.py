"""The commit contains only the change, for any setup of the repository: settings, index formats, storage."""

from __future__ import annotations

import pytest

from tests.conftest import GitRepo
from tests.git.edits import lines, staged
from tests.git.only import only

LINES = lines()

SETTINGS = [
    {"index.version": "4"},
    {"index.version": "4", "core.splitIndex": "true"},
    {"index.skipHash": "true", "feature.manyFiles": "true"},
    {"core.splitIndex": "true", "splitIndex.maxPercentChange": "0"},
    {"core.splitIndex": "true", "splitIndex.sharedIndexExpire": "now"},
    {"core.untrackedCache": "true"},
    {"core.preloadIndex": "false", "core.checkStat": "minimal", "core.trustctime": "false"},
    {"core.ignoreStat": "true"},
    {"core.fsync": "all", "core.fsyncMethod": "fsync"},
    {"core.ignoreCase": "true", "core.precomposeUnicode": "true", "core.longpaths": "true"},
    {"core.protectHFS": "true", "core.protectNTFS": "true"},
    {"core.fileMode": "false"},
    {"core.quotePath": "true", "core.symlinks": "false", "core.bigFileThreshold": "1"},
    {"core.safecrlf": "true", "core.autocrlf": "input"},
    {"core.whitespace": "trailing-space,cr-at-eol", "apply.whitespace": "error"},
    {"core.commentChar": "l"},
    {"commit.verbose": "true", "commit.template": "/nowhere", "commit.status": "false", "commit.cleanup": "strip"},
    {"status.showUntrackedFiles": "no", "status.branch": "true", "status.short": "true", "status.showStash": "true"},
    {"diff.noprefix": "true", "diff.external": "false", "diff.algorithm": "patience", "diff.renames": "copies"},
    {"diff.interHunkContext": "9", "diff.context": "0", "diff.mnemonicPrefix": "true", "color.ui": "always"},
    {"diff.ignoreSubmodules": "all", "log.showSignature": "true", "log.date": "human", "format.pretty": "oneline"},
    {"gc.auto": "1", "gc.autoDetach": "false", "gc.pruneExpire": "now"},
    {"gc.auto": "1"},
    {"merge.conflictStyle": "zdiff3", "merge.renames": "false", "rerere.enabled": "true"},
    {"core.logAllRefUpdates": "false"},
    {"alias.repoagent": "!false", "alias.commit": "!false", "alias.update-index": "!false"},
    {"help.autocorrect": "immediate", "advice.detachedHead": "false", "core.editor": "false", "core.pager": "false"},
    {"core.attributesFile": "/nowhere", "core.excludesFile": "/nowhere", "core.abbrev": "4"},
    {"extensions.worktreeConfig": "true", "core.repositoryFormatVersion": "1"},
    {"trailer.sign.key": "Signed-off-by", "commit.gpgSign": "false", "i18n.logOutputEncoding": "latin1"},
    {"push.default": "nothing", "submodule.recurse": "true", "fetch.recurseSubmodules": "true"},
]  # fmt: skip


# many at once for every day, and each alone
TOGETHER = [dict(pair for one in SETTINGS[start::5] for pair in one.items()) for start in range(5)]
ALONE = [pytest.param(one, marks=pytest.mark.soak) for one in SETTINGS]


@pytest.mark.soak
@pytest.mark.parametrize("settings", [*TOGETHER, *ALONE], ids=lambda settings: next(iter(settings)))
def test_with_settings(repo: GitRepo, settings: dict[str, str]) -> None:
    """The file has other staged and unstaged work, and there is more work in other files."""
    for key, value in settings.items():
        repo.git("config", key, value)
    repo.write("b.txt", "b\n")
    repo.commit("more")
    messy(repo)
    was_staged = staged(repo, "a.txt")  # core.ignoreStat makes `git add` blind
    only(repo, "a.txt", "line 2", "LINE 2")
    assert staged(repo, "a.txt") == was_staged.replace("line 2", "LINE 2")
    repo.git("commit", "-qm", "what was staged")


def test_a_file_that_is_assumed_to_be_unchanged_and_is_not(repo: GitRepo) -> None:
    """Another change of it is staged as well, so that git must put HEAD into the index for the commit."""
    repo.write("README.md", "staged\n")
    repo.git("add", "README.md")
    repo.git("update-index", "--assume-unchanged", "README.md")
    repo.write("README.md", "behind git's back\n")
    only(repo, "a.txt", "line 2", "LINE 2")
    assert staged(repo, "README.md") == "staged\n"


def messy(repo: GitRepo) -> None:
    """Work of every kind."""
    repo.write("a.txt", LINES.replace("line 9", "staged 9"))
    repo.git("add", "a.txt")
    repo.write("a.txt", LINES.replace("line 9", "staged 9").replace("line 6", "unstaged 6"))
    repo.write("README.md", "mine\n")
    repo.git("rm", "-q", "--cached", "b.txt")
    repo.write("added.txt", "added\n")
    repo.git("add", "added.txt")
    repo.write("intended.txt", "intended\n")
    repo.git("add", "-N", "intended.txt")
    repo.write("untracked.txt", "untracked\n")
