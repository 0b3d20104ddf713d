"""Run `git commit` through a temporary index, as if the user ran it, and find the commit that came of it.

HEAD decides whether there is a commit, not the exit code: a hook may commit, and git may be killed.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from repoagent import tracing
from repoagent.errors import Busy, Refused
from repoagent.git.file_writer import Step
from repoagent.git.files import Content, look, same
from repoagent.git.index import Entry, Status, put_entries, reset_to, staged_entries
from repoagent.git.objects import (
    Commit,
    changes_between,
    first_parents,
    head_commit,
    read_commit,
    switch_to_new,
)
from repoagent.git.process import git, git_output, uninterrupted
from repoagent.git.transaction.hooks import withdraw
from repoagent.git.transaction.journal import COMMITTING, Record, keep_saved, keep_steps, save
from repoagent.git.transaction.other_files import (
    COMMITTED,
    copy_user_index,
    restore_mixed_files,
    save_pending_messages,
    snapshot_files,
)
from repoagent.git.transaction.results import Options, OtherChanges, step_after_hook
from repoagent.git.worktree import WorkTree
from repoagent.storage.journal import Journal

_SCISSORS = b" ------------------------ >8 ------------------------"
_COMMENT_SIGNS = b"#;@!$%^&|:"  # as core.commentChar=auto tries them
_NEVER_WRITTEN = b"\x01"


def encode(worktree: WorkTree, message: str | bytes, errors: str = "strict") -> bytes:
    """A message in i18n.commitEncoding, in which `git commit` expects it. Raises Refused if it can't be, and
    `errors` (as for `str.encode`) does not say what to do then."""
    if isinstance(message, bytes):
        return message
    if message.isascii():
        return message.encode()
    name = _encoding(worktree)
    try:
        return message.encode(name, errors)
    except (LookupError, UnicodeEncodeError) as error:
        raise Refused(
            f"cannot encode the commit message in {name}, which i18n.commitEncoding sets ({error}): "
            "change that setting"
        ) from error


def _encoding(worktree: WorkTree) -> str:
    return git(worktree.top, "config", "--get", "i18n.commitEncoding", ok=(0, 1)).decode().strip() or "UTF-8"


def fixup_message(worktree: WorkTree, revision: str, text: bytes) -> bytes:
    """The message that `git commit --fixup=REVISION -m TEXT` makes. With --fixup git takes no file, and an argument
    can't be longer than 128 KiB. Raises GitError when there is no such commit."""
    arguments = (
        "-n1",
        "--format=%s",
        f"--encoding={_encoding(worktree)}",
        "--end-of-options",
        revision,
        "--",
    )
    subject = git(worktree.top, "log", *arguments).rstrip(b"\n")
    return b"fixup! " + subject + b"\n\n" + text


def comment_sign(text: bytes) -> str | None:
    """A core.commentChar under which an editor is given all of `text`; None where the user's own does.

    What follows git's scissors is cut off: where the message has such a line of its own, other scissors are needed.
    """
    lines = text.splitlines()
    if not any(_SCISSORS in line for line in lines):
        return None
    begins = {line[:1] for line in lines}
    signs = (bytes((sign,)) for sign in _COMMENT_SIGNS)
    return next((sign for sign in signs if sign not in begins), _NEVER_WRITTEN).decode()


MESSAGE = "message"  # in the folder of the journal
WrittenFiles = dict[str, Content | None]  # what the files of the edit hold when hooks begin


def record_before_hooks(
    worktree: WorkTree, record: Record, status: Status, new_branch: str | None, message: bytes
) -> Record:
    """The record of a transaction whose hooks are about to run: with the user's other work, as `status` has it."""
    own = {planned.path for planned in record.planned}
    others = tuple(path for path in status.changed if path not in own)
    files = [path for path in others if not status.changed[path].submodule]
    return replace(
        record,
        state=COMMITTING,
        uncommitted=others,
        saved=snapshot_files(worktree.top, record.id, files),
        started=time.time_ns(),
        new_branch=new_branch,
        message=os.fsdecode(message),
    )


def save_before_hooks(worktree: WorkTree, journal: Journal, record: Record) -> None:
    """Write down, durably, what hooks could lose."""
    keep_saved(journal, record)
    save(journal, record)
    save_pending_messages(worktree, journal)


def prepare(
    worktree: WorkTree, journal: Journal, record: Record, options: Options, *, reset: bool, switch: bool
) -> None:
    """Put the message, and HEAD with the change as an index, into the journal's folder for git.

    `reset` says that the user has something staged, `switch` that the new branch of `options` is to be made.
    """
    text = os.fsencode(record.message or "")
    if options.fixup is not None:
        text = fixup_message(worktree, options.fixup, text)
    journal.path(MESSAGE).write_bytes(text)
    index = journal.path(COMMITTED)
    copy_user_index(worktree, index)
    if reset:
        reset_to(worktree, index, record.head)
    bits = {planned.path: planned.bits for planned in record.planned if planned.bits}
    put_entries(worktree, index, {planned.path: planned.commit for planned in record.planned}, bits)
    if switch and options.branch is not None:
        switch_to_new(worktree, options.branch, index, record.branch or record.head or "", record.id)


def restore_own_files(
    worktree: WorkTree, journal: Journal, record: Record, written: WrittenFiles
) -> OtherChanges:
    """Put the user's work back that hooks have lost in the files of the edit.

    A file that was not as we had `written` it when hooks began, because somebody else has saved it, is left alone.
    """
    ours = tuple(step for step in record.steps if _is_ours(step, written))
    return restore_mixed_files(worktree, journal, replace(record, steps=ours))


def adopt_hook_changes(worktree: WorkTree, journal: Journal, record: Record, written: WrittenFiles) -> Record:
    """The record, which is saved, with what is in our files after hooks: it is committed in the next try. It may be a
    save of the user's, so each step says what it `wrote` itself."""
    steps = []
    for step in record.steps:
        now = look(worktree.top, step.path)
        if step.new is not None and _is_ours(step, written) and not same(now, step.new):
            wrote = step.wrote or step.new
            step = step_after_hook(worktree, step, now) if record.in_place else replace(step, new=now)
            step = replace(step, wrote=wrote)
        steps.append(step)
    record = replace(record, steps=tuple(steps))
    keep_steps(journal, record)
    save(journal, record)
    return record


def _is_ours(step: Step, written: WrittenFiles) -> bool:
    """Whether the file was as the step has written it when hooks began."""
    return step.path in written and same(written[step.path], step.new)


OnOutput = Callable[[bytes], None]


def run_commit(
    worktree: WorkTree,
    index: Path,
    message: Path,
    options: Options,
    *,
    listen: OnOutput | None = None,
    inherit: int | None = None,
) -> tuple[int, bytes]:
    """`git commit` of the index file `index` with the message in `message`: its exit code and all it printed.

    It runs as if the user ran it: same environment, hooks, signing, identity. `listen` is given the output as
    it comes. The descriptor `inherit` is left open for it. On ^C git is waited for; HEAD says what it did.
    """
    command = ["git", *_settings(worktree, message, options), "commit", *_arguments(message, options)]
    began = tracing.begin()
    process = subprocess.Popen(
        command,
        cwd=worktree.top,
        env=dict(os.environ, GIT_INDEX_FILE=str(index)),
        stdin=None if options.edit_message else subprocess.DEVNULL,
        stdout=None if options.edit_message else subprocess.PIPE,
        stderr=None if options.edit_message else subprocess.STDOUT,
        pass_fds=() if inherit is None else (inherit,),
    )
    try:
        output = _listen(process, listen)
        return process.wait(), output
    except BaseException:
        with uninterrupted():
            _end(process)
        raise
    finally:
        tracing.command(began, command, process.poll())
        if process.stdout is not None:
            process.stdout.close()


def collect_garbage(worktree: WorkTree) -> None:
    """What `git commit` does at its end, with the user's own index in place: collect garbage if it is time to, unless
    `maintenance.auto` is off. It is not needed, so it may fail or be interrupted.

    Where nothing is configured `git maintenance` would only run `git gc`, under a lock that it leaves when it is
    killed, and no maintenance runs again.
    """
    listed = git_output(worktree.top, "config", "-z", "--get-regexp", r"^maintenance\.", ok=range(256)).stdout
    if listed:
        asked = ("config", "--type=bool", "--default=true", "--get", "maintenance.auto")
        if git_output(worktree.top, *asked, ok=range(256)).stdout != b"true\n":
            return
    command = ["git", *(("maintenance", "run") if listed else ("gc",)), "--auto", "--quiet"]
    nothing = subprocess.DEVNULL
    process = None
    with suppress(KeyboardInterrupt):
        try:
            with uninterrupted():  # a ^C right after the start must find the process to end
                process = subprocess.Popen(
                    command, cwd=worktree.top, stdin=nothing, stdout=nothing, stderr=nothing
                )
            process.wait()
        finally:
            if process is not None:
                with uninterrupted():
                    _end(process)


def _settings(worktree: WorkTree, message: Path, options: Options) -> tuple[str, ...]:
    """As few as can be, for hooks see them.

    A collection of garbage would look at our index in the place of the user's, and could drop what is only
    staged there: `tidy` does it afterwards. Git, and what hooks stage, writes our index: where the user's is a
    split one, its shared part must not expire with that. A program in `core.fsmonitor` is not run.
    """
    settings = ["gc.auto=0", "maintenance.auto=false"]
    if any(worktree.git_dir.glob("sharedindex.*")):
        settings.append("splitIndex.sharedIndexExpire=never")
    watching = git(worktree.top, "config", "-z", "--get-all", "core.fsmonitor").count(b"\0")
    if watching > 1:  # one is our own
        settings.append("core.fsmonitor=false")
    sign = comment_sign(message.read_bytes()) if options.edit_message else None
    if sign is not None:
        settings.append(f"core.commentChar={sign}")
    return tuple(argument for setting in settings for argument in ("-c", setting))


def _arguments(message: Path, options: Options) -> list[str]:
    found = ["--quiet", "-F", str(message)]
    # with commit.verbose git would cut at scissors without an editor too
    found += (
        ["--edit", "--cleanup=scissors"] if options.edit_message else ["--cleanup=whitespace", "--no-verbose"]
    )
    found += ["--signoff"] if options.signoff else []
    found += ["--no-verify"] if options.no_verify else []
    found += [f"--gpg-sign{options.sign and '='}{options.sign}"] if options.sign is not None else []
    return found


def _listen(process: subprocess.Popen[bytes], listen: OnOutput | None) -> bytes:
    """All output to its end, or to that of the process: what a hook left running may hold the pipe."""
    if process.stdout is None:
        return b""
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if selector.select(0.1):
                data = os.read(process.stdout.fileno(), 65536)
                if not data:
                    return bytes(output)
                output += data
                if listen is not None:
                    listen(data)
            elif process.poll() is not None:
                return bytes(output)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for git to end; it has had the ^C of the terminal, and gets ours where there is none."""
    for number, seconds in ((signal.SIGINT, 5.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, None)):
        if process.poll() is None:
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)


_LOOK_BACK = 30  # commits that somebody may have made on top before the next repoagent command


def verified_commit(worktree: WorkTree, record: Record) -> Commit | None:
    """The commit, when git says that it has made one; None when a hook has taken the change out of it again, and
    it is withdrawn.

    Raises Busy when HEAD was moved meanwhile; a commit of ours on another commit than planned is withdrawn.
    """
    tip = read_commit(worktree)
    made = tip if tip.parent == record.head else find_commit(worktree, record)
    if made is None:
        if is_commit_of(worktree, record, tip):
            withdraw(worktree, tip)
        raise Busy("another program moved HEAD during the commit: run the edit again")
    if made is tip and not any(planned.path in made.changed for planned in record.planned):
        withdraw(worktree, made)
        return None
    return made


def find_commit(worktree: WorkTree, record: Record) -> Commit | None:
    """The commit on top of that on which the transaction began; None where there is none, or it is not ours."""
    now = head_commit(worktree)
    if now is None or now == record.head:
        return None
    for oid, parent in first_parents(worktree, _LOOK_BACK):
        if parent == record.head:
            made = read_commit(worktree, oid)
            return made if is_commit_of(worktree, record, made) else None
    return None


def is_commit_of(worktree: WorkTree, record: Record, made: Commit) -> bool:
    """Whether the commit has what was planned, or says that it is this edit."""
    if any(made.changed.get(p.path, p.in_head) == p.commit != p.in_head for p in record.planned):
        return True
    return record.id.encode() in git(worktree.top, "cat-file", "commit", made.oid)


def has_moved(worktree: WorkTree, record: Record) -> bool:
    """Whether HEAD was set to `moves_to`: it is on it, or on what was committed on top since."""
    now = head_commit(worktree)
    if now is None or now in (record.moves_to, record.head):
        return (now or "") == record.moves_to
    line = [
        *(oid for oid, _ in first_parents(worktree, _LOOK_BACK)),
        "",
    ]  # "" is what comes before a first commit
    if record.moves_to not in line:
        return False
    return record.head not in line or line.index(record.moves_to) < line.index(record.head)


def committed_since(
    worktree: WorkTree, index: Path, made: Commit, stage: Mapping[str, Entry | None]
) -> dict[str, Entry | None]:
    """What the user's index is to have for the commits that stand on `made`.

    A hook that commits stages in `index`, the one that git gave it, and the user's is to follow as it would
    have; unless something else is staged there. `stage` is what it is to have besides.
    """
    tip = head_commit(worktree)
    if tip in (made.oid, None) or not index.exists():
        return {}
    since = changes_between(worktree, made.oid, "HEAD")
    theirs, mine = staged_entries(worktree, since, index), staged_entries(worktree, since)
    return {
        path: new
        for path, (old, new) in since.items()
        if theirs.get(path) == new and (stage[path] if path in stage else mine.get(path)) == old
    }
