"""Install git hooks that run reviews, and uninstall them.

A hook of another program or of the team is left alone; the error says which line to add to it. Earlier versions kept
an existing hook next to their own and ran it first; uninstalling restores it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from repoagent.errors import Refused
from repoagent.git.process import git, git_output
from repoagent.git.worktree import WorkTree
from repoagent.storage.atomic import write_whole

HOOKS = ("pre-commit", "commit-msg", "pre-push")
MARK = "# repoagent hook"
BEFORE = ".before-repoagent"
FINDINGS = 6  # exit code of `repoagent hook run` for findings; no other failure stops git
VERSION = 2
LARGEST = 1_000_000  # bytes of a hook that are read

State = Literal["none", "ours", "changed", "foreign"]
Whose = Literal["repository", "team", "everywhere"]


class HookFile(NamedTuple):
    name: str
    path: Path
    state: State  # "changed": ours, edited by hand
    before: bool = False  # an earlier version kept the hook that ours replaced
    runs: bool = True  # it is executable: git ignores others


class Hooks(NamedTuple):
    folder: Path
    whose: Whose  # "team": git tracks it; "everywhere": other repositories share it
    setting: str  # core.hooksPath, "" if unset
    files: tuple[HookFile, ...]
    off: str = ""  # why git runs no hooks


_TEMPLATE = """\
#!/bin/sh
{mark}, version {version}: {name}. `repoagent hook uninstall` removes it.
if [ -x {program} ]; then
    {command} hook run{strict} {name} "$@" >&2
elif command -v repoagent >/dev/null 2>&1; then
    repoagent hook run{strict} {name} "$@" >&2
else
    echo 'repoagent: command not found, skipping the review ({name})' >&2
    exit {missing}
fi
status=$?
case $status in
    0 | 130) exit $status ;;
    {findings}) exit 1 ;;
esac
echo "repoagent: the review failed with exit code $status{goes_on}" >&2
exit {missing}
"""
_OURS = re.compile(rf"#!/bin/sh\n{MARK}, version \d+: ([a-z-]+)\. ")
_SUM = "# sum of the lines above: "
_WITH_SUM = re.compile(rf"(.*\n){_SUM}([0-9a-f]+)\n", re.DOTALL)


def hook_script(name: str, command: Sequence[str], *, strict: bool = False) -> str:
    """Return the text of the hook `name`.

    The hook runs `command` (a path and arguments) or, if that is missing, the program on PATH. With `strict`, any
    failure stops git. The last line is a checksum, by which any version of repoagent recognizes an edited hook.
    """
    text = _TEMPLATE.format(
        mark=MARK, version=VERSION, name=name, findings=FINDINGS, program=shlex.quote(command[0]),
        command=shlex.join(command), strict=" --strict" if strict else "", missing=1 if strict else 0,
        goes_on="" if strict else "; git continues",
    )  # fmt: skip
    return f"{text}{_SUM}{_sum(text)}\n"


def is_unchanged(text: str) -> bool:
    """Whether `text` is an unedited hook written by any version of repoagent."""
    match = _WITH_SUM.fullmatch(text)
    return bool(_OURS.match(text)) and match is not None and match[2] == _sum(match[1])


def _sum(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def inspect_hooks(worktree: WorkTree) -> Hooks:
    """The state of the repository's hooks folder and of each of HOOKS; writes nothing."""
    setting = git_output(worktree.top, "config", "-z", "--type=path", "--get", "core.hooksPath", ok=(0, 1))
    value = os.fsdecode(setting.stdout.removesuffix(b"\0"))
    folder = Path(os.path.realpath(worktree.top / value if value else worktree.common_dir / "hooks"))
    top, git_dir = (Path(os.path.realpath(path)) for path in (worktree.top, worktree.common_dir))
    is_inside = folder.is_relative_to(top)
    whose: Whose = "repository"
    if is_inside and folder != top and git(top, "ls-files", "-z", "--", str(folder.relative_to(top))):
        whose = "team"  # git tracks a file there
    elif not is_inside and not folder.is_relative_to(git_dir):
        whose = "everywhere"
    off = ""
    if setting.returncode == 0 and not value:
        off = "core.hooksPath is empty"
    elif os.path.lexists(folder) and not folder.is_dir():
        off = f"{folder} is not a folder"
    files = []
    for name in HOOKS:
        path = folder / name
        if not os.path.lexists(path):
            is_managed = ".husky" in folder.parts[-2:]  # which creates its files again
            files.append(HookFile(name, path, "foreign" if is_managed else "none"))
            continue
        text = ""
        with suppress(OSError):
            if path.is_file():  # not a pipe, which would wait for a writer
                with path.open("rb") as file:
                    text = file.read(LARGEST).decode("utf-8", "surrogateescape")
        state: State = "foreign"
        if _OURS.match(text):
            state = "ours" if is_unchanged(text) else "changed"
        before = os.path.lexists(f"{path}{BEFORE}")
        files.append(HookFile(name, path, state, before, os.access(path, os.X_OK)))
    return Hooks(folder, whose, value, tuple(files), off)


def install(
    hooks: Hooks,
    names: Sequence[str],
    command: Sequence[str],
    *,
    strict: bool = False,
    everywhere: bool = False,
) -> list[str]:
    """Install the hooks `names`, which run `command` (see `hook_script`); return a sentence for each.

    Raises Refused, with the remedy, before anything is written: if another program's or the team's hook is there, if
    git would not run the hook, or if all repositories share the folder (unless `everywhere`). Also raises Refused if a
    hook cannot be written.
    """
    if hooks.off:
        raise Refused(f"git runs no hooks here: {hooks.off}; fix that first")
    chosen = [hook for hook in hooks.files if hook.name in names]
    for hook in chosen:
        if reason := _why_not(hooks, hook, everywhere=everywhere):
            raise Refused(reason)
    sentences = []
    for hook in chosen:
        new = hook.path.with_name(f"{hook.name}.new-repoagent")
        write_whole(new, os.fsencode(hook_script(hook.name, command, strict=strict)), private=False)
        try:
            mode = new.stat().st_mode & 0o777
            new.chmod(mode | (mode & 0o444) >> 2)  # executable by everyone who can read it
            new.replace(hook.path)  # atomic: the hook is never missing or incomplete
        except OSError as error:
            new.unlink(missing_ok=True)
            raise Refused(f"cannot write {hook.path}: {error.strerror}") from error
        sentences.append(f"{'updated' if hook.state == 'ours' else 'installed'} {hook.path}")
    return sentences


def _why_not(hooks: Hooks, hook: HookFile, *, everywhere: bool) -> str:
    """Why the hook cannot be installed, and what to do instead; "" if it can."""
    path = hook.path
    line = f"repoagent hook run {hook.name}" + {"commit-msg": ' "$1"', "pre-push": ' "$@"'}.get(hook.name, "")
    if hooks.whose == "team":
        return f"{hooks.folder} is tracked by git and shared with everyone; add this line to {hook.name} there: {line}"
    if hooks.whose == "everywhere" and not everywhere:
        return (
            f"core.hooksPath is set to {hooks.setting} for all your repositories; use --everywhere to install the hook "
            f"for all of them, or add this line to {path}: {line}"
        )
    if hook.state == "changed":
        return f"{path} is repoagent's hook, but was edited by hand; remove your lines"
    if hook.state == "foreign":
        return f"{path} belongs to another program; add this line to it, or to your hook manager: {line}"
    if hook.before:
        return (
            f"{path}{BEFORE} was left by an earlier repoagent hook; restore it with `repoagent hook "
            f"uninstall`, or rename it and add this line to it: {line}"
        )
    return ""


def uninstall(hooks: Hooks, names: Sequence[str]) -> list[str]:
    """Remove repoagent's hooks among `names` and restore the hooks that they replaced; return a sentence for each.

    Raises Refused before anything is removed if a hook was edited by hand, and also if a hook cannot be removed.
    """
    chosen = [hook for hook in hooks.files if hook.name in names]
    for hook in chosen:
        if hook.state == "changed":
            raise Refused(f"{hook.path} was edited by hand; remove your lines first")
    sentences = []
    for hook in chosen:
        if hook.state != "ours":
            continue
        try:
            if hook.before:
                hook.path.with_name(f"{hook.name}{BEFORE}").replace(hook.path)
            else:
                hook.path.unlink()
        except OSError as error:
            raise Refused(f"cannot remove {hook.path}: {error.strerror}") from error
        sentences.append(f"{'restored' if hook.before else 'removed'} {hook.path}")
    return sentences
