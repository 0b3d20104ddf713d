"""Install git hooks that run reviews, uninstall them, and read the changes that they review.

A hook of another program or of the team is left alone; the error says which line to add to it. Earlier versions kept
an existing hook next to their own and ran it first; uninstalling restores it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from repoagent.errors import Refused, UsageError
from repoagent.git.process import git, git_output
from repoagent.git.worktree import WorkTree, is_full_id
from repoagent.storage.atomic import write_whole

if TYPE_CHECKING:
    from repoagent.review.change import Change

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
    if path.is_dir():
        return f"{path} is a folder, not a hook; move it away"
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


SECONDS = 60.0  # for a model, unless review.max_seconds is set: the user waits for git
MOST = 5  # branches of one push that are reviewed
REFS = 200  # most recent branches of the remote
_SCISSORS = re.compile(r"(?m)^\S+ -{8,} >8 -{8,}$")
_IGNORE = re.compile(r"(?im)^Review-Ignore\b.*$")


class PushedRef(NamedTuple):
    """A pushed branch or tag: from `base`, the last commit that the remote is known to have, to `head`."""

    name: str
    base: str
    head: str


def changes_of(
    name: str, arguments: Sequence[str], worktree: WorkTree, head: str | None, stdin: bytes
) -> tuple[list[tuple[Change, tuple[str, ...]]], list[str]]:
    """Return the changes for the git hook `name`, each with phrases for the parts that cannot be reviewed, and notes.

    The notes are for the user. For pre-push, the changes are the pushed commits that `stdin` lists. For any other hook,
    they are the commits that the `pre-commit` program passes in environment variables, or else the staged change; for
    commit-msg, the staged change has the message in the file `arguments[0]`. Raises UsageError if the message cannot be
    read, and what `read_change` raises.
    """
    from repoagent.review.finding import RULES
    from repoagent.review.read_diff import ChangeSelector, read_change

    def pushed(begin: str, end: str, title: str, *, own: bool) -> tuple[Change, tuple[str, ...]]:
        change, unseen = read_change(worktree, head, ChangeSelector("range", f"{begin}..{end}"))
        return replace(change, title=title, own=own), unseen

    if name == "pre-push":
        refs, notes = pushed_refs(worktree, arguments[0] if arguments else "origin", stdin)
        return [pushed(ref.base, ref.head, f"the push of {ref.name}", own=True) for ref in refs], notes
    # the `pre-commit` program passes the pushed commits in the environment
    begin, end = (os.environ.get(f"PRE_COMMIT_{side}_REF", "") for side in ("FROM", "TO"))
    if begin and end:
        own = "PRE_COMMIT_REMOTE_NAME" in os.environ
        return [pushed(begin, end, f"{begin[:12]}..{end[:12]}", own=own)], []
    change, unseen = read_change(worktree, head, ChangeSelector("staged"))
    if name != "commit-msg" or not arguments:
        return [(change, unseen)], []
    path = Path(arguments[0])
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"cannot read the commit message from {path}: {error.strerror}") from error
    text = _SCISSORS.split(text, maxsplit=1)[0]  # without the diff of `git commit -v`
    message = "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("#"))
    warnings = []
    for line in _IGNORE.findall(message):
        from repoagent.review.dismissals import ALL, ignore_trailers

        rules = [name.strip().lower() for rule, _ in ignore_trailers(line) for name in rule.split(",")]
        wrong = [name for name in rules if name not in RULES and name != ALL]
        if not rules or wrong:
            reason = f"unknown rule {wrong[0]!r}" if wrong else "the trailer names no rule"
            warnings.append(f"{line.strip()}: {reason}; the rules are: {', '.join(RULES)}")
    return [(replace(change, message=message), unseen)], warnings


def pushed_refs(worktree: WorkTree, remote: str, lines: bytes) -> tuple[list[PushedRef], list[str]]:
    """Return the refs of a push to `remote` (a name or a URL), and a sentence for each part that cannot be reviewed.

    Each of `lines` has the local ref, its object, the remote ref and its object. Skips deleted refs, objects that are
    not commits, and commits that the remote is known to have: nothing is fetched.
    """
    from repoagent.git.objects import resolve_commit
    from repoagent.review.read_diff import merge_base

    pushed: dict[tuple[str, str], PushedRef] = {}
    notes = []
    tips: list[str] | None = None
    for line in lines.decode("utf-8", "surrogateescape").splitlines():
        parts = line.split(" ")
        if len(parts) != 4 or not is_full_id(parts[1]) or not is_full_id(parts[3]) or not parts[1].strip("0"):
            continue
        local, oid, ref, remote_oid = parts
        name = (ref if local == "HEAD" else local).removeprefix("refs/heads/").removeprefix("refs/")
        head = resolve_commit(worktree.top, oid)
        if head is None:
            continue
        if tips is None:  # of the remote's branches; of all remotes if it is a URL
            order = ("for-each-ref", "--sort=-committerdate", f"--count={REFS}", "--format=%(objectname)")
            patterns = (f"refs/remotes/{remote}/", "refs/remotes/")
            listed = (git(worktree.top, *order, pattern).decode().split() for pattern in patterns)
            tips = next(filter(None, listed), [])
        known = resolve_commit(worktree.top, remote_oid) if remote_oid.strip("0") else None
        bases = list(dict.fromkeys([*filter(None, [known]), *tips]))
        base = merge_base(worktree.top, head, *bases) if bases else None
        if base is None:
            notes.append(f"{name} was not reviewed: the remote has no commit to compare it with")
        elif base != head:
            pushed.setdefault((base, head), PushedRef(name, base, head))
    refs = list(pushed.values())
    if len(refs) > MOST:
        omitted = f"{len(refs) - MOST} of {len(refs)} branches and tags were not reviewed"
        notes.append(f"{omitted}; the limit is {MOST} per push")
    return refs[:MOST], notes
