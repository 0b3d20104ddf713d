"""What git, run by a command that nobody is asked about, shows of files that no model is to see: that they differ.

It is told to take them for binary, by their names, in the file of attributes that holds for all repositories. So what
old commits have of them is left out of patches too. A `.gitattributes` that says otherwise wins.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from repoagent.edit.verify.scope import HARMLESS_NAMES, SECRET_NAMES, SECRET_PATHS
from repoagent.repo import WorkTree
from repoagent.repo.run import git_output
from repoagent.store import write_whole
from repoagent.store.atomic import read_regular


def unshown(
    worktree: WorkTree, file: Path, excluded: Iterable[str], env: Mapping[str, str]
) -> dict[str, str]:
    """The variables for git, with which it obeys `file`, which is written: the attributes of the user, and that secrets
    and what is `excluded` are binary. `env` is what they are added to."""
    lines = [_users_own(worktree)]
    lines += [f"{_any_case(name)} -diff" for name in SECRET_NAMES]
    lines += [f"**/{_any_case(path)} -diff" for path in SECRET_PATHS]
    lines += [f"{name} !diff" for name in HARMLESS_NAMES]
    lines += [f"{_quoted(path)} -diff" for path in excluded]
    write_whole(file, "\n".join([*lines, ""]).encode("utf-8", "surrogateescape"))
    number = int(env.get("GIT_CONFIG_COUNT", "0"))
    return {
        f"GIT_CONFIG_KEY_{number}": "core.attributesFile",
        f"GIT_CONFIG_VALUE_{number}": str(file),
        "GIT_CONFIG_COUNT": str(number + 1),
    }


def are_blobs(worktree: WorkTree, names: Sequence[str]) -> bool:
    """Whether one of `names` is that of a blob, which git would show whatever file it is of. One call of git."""
    if any("\n" in name for name in names):
        return True
    asked = "".join(f"{name}^{{}}\n" for name in names).encode("utf-8", "surrogateescape")
    check = "--batch-check=%(objecttype)"
    return b"blob" in git_output(worktree.top, "cat-file", check, stdin=asked).stdout.split(b"\n")


def _users_own(worktree: WorkTree) -> str:
    named = git_output(
        worktree.top, "config", "--type=path", "--get", "core.attributesFile", ok=(0, 1)
    ).stdout
    usual = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "attributes"
    data = read_regular(Path(os.fsdecode(named.rstrip(b"\n"))) if named else usual)
    return (data or b"").decode("utf-8", "surrogateescape")


def _any_case(pattern: str) -> str:
    """A pattern that matches capitals too: where case counts for git, it does not for a secret."""
    return "".join(f"[{char}{char.upper()}]" if char.islower() else char for char in pattern)


def _quoted(path: str) -> str:
    """A path from the top as a pattern of one file."""
    plain = "".join(f"\\{char}" if char in "\\*?[" else char for char in path)
    text = "".join(f"\\{char}" if char in '\\"' else char for char in f"/{plain}")
    return '"' + text.replace("\t", "\\t").replace("\n", "\\n") + '"'
