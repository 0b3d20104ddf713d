"""Run `git commit` with a temporary index, as if the user ran it.

HEAD, not the exit code, decides whether there is a commit: a hook may commit, and git may be killed.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from repoagent import tracing
from repoagent.errors import Busy, Refused
from repoagent.git.index import Entry, Status, put_entries, reset_to, staged_entries
from repoagent.git.objects import (
    Commit,
    changes_between,
    first_parents,
    head_commit,
    read_commit,
    switch_to_new,
)
from repoagent.git.process import GitError, Program, defer_signals, git
from repoagent.git.transaction import other_files
from repoagent.git.transaction.hook_changes import withdraw_commit
from repoagent.git.transaction.journal import COMMITTING, EditJournal
from repoagent.git.transaction.results import Options
from repoagent.git.worktree import WorkTree, current_branch

MESSAGE = "message"  # in the folder of the journal
_SCISSORS = b" ------------------------ >8 ------------------------"
_LOOK_BACK = 30  # commits that others may have made on top before the next repoagent command


def _encoding(worktree: WorkTree) -> str:
    return git(worktree.top, "config", "--get", "i18n.commitEncoding", ok=(0, 1)).decode().strip() or "UTF-8"


def encode_message(worktree: WorkTree, message: str | bytes, errors: str = "strict") -> bytes:
    """Encode a message in i18n.commitEncoding, as `git commit` expects it. Raises Refused if that is impossible."""
    if isinstance(message, bytes):
        return message
    if message.isascii():
        return message.encode()
    name = _encoding(worktree)
    try:
        return message.encode(name, errors)
    except (LookupError, UnicodeEncodeError) as error:
        raise Refused(
            f"cannot encode the commit message as {name} ({error}): change i18n.commitEncoding"
        ) from error


def prepare_commit(journal: EditJournal, status: Status, message: bytes, options: Options) -> None:
    """Durably save what hooks could lose, then write the message and an index with HEAD plus the change to the journal.

    Creates the new branch of `options`, if any.
    """
    worktree, branch = journal.worktree, options.branch
    own = {planned.path for planned in journal.record.planned}
    others = tuple(path for path in status.changed if path not in own)
    files = [path for path in others if not status.changed[path].submodule]
    switch = branch is not None and journal.record.new_branch is None
    journal.change(
        state=COMMITTING,
        uncommitted=others,
        saved=other_files.snapshot_files(worktree.top, journal.record.id, files),
        started=time.time_ns(),
        new_branch=branch,
        message=os.fsdecode(message),
    )
    record = journal.record
    try:
        journal.store_contents(record.saved)
        journal.store()
        other_files.save_pending_messages(journal)
        if options.fixup is not None:
            # as `git commit --fixup=REVISION -m TEXT`, which accepts no file, and an argument of at most 128 KiB
            command = ("log", "-n1", "--format=%s", f"--encoding={_encoding(worktree)}", "--end-of-options")
            subject = git(worktree.top, *command, options.fixup, "--").rstrip(b"\n")
            message = b"fixup! " + subject + b"\n\n" + message
        journal.path(MESSAGE).write_bytes(message)
        index = journal.path(other_files.COMMITTED)
        other_files.copy_user_index(worktree, index)
        if status.has_staged:
            reset_to(worktree, index, record.head)
        bits = {planned.path: planned.bits for planned in record.planned if planned.bits}
        put_entries(worktree, index, {planned.path: planned.commit for planned in record.planned}, bits)
        if switch and branch is not None:
            switch_to_new(worktree, branch, index, record.branch or record.head or "", record.id)
    except GitError as error:
        if error.returncode < 0:
            journal.remove_stale_ref_locks()
        elif switch and current_branch(worktree) != branch:  # a branch of this name, if any, is not ours
            journal.change(new_branch=None)
        raise


OnOutput = Callable[[bytes], None]


def run_commit(journal: EditJournal, options: Options, listen: OnOutput | None = None) -> tuple[int, bytes]:
    """Run `git commit` with the index and message of the journal; return its exit code and output.

    `listen` is called with the output as it arrives. The journal stays locked while git runs. After ^C, waits for git.
    """
    worktree, message = journal.worktree, journal.path(MESSAGE)
    # As few settings as possible, since hooks see them. Garbage collection would read our index instead of the user's,
    # and could remove blobs that are only staged there: another git command does it later. git and hooks write our
    # index; the shared part of a split index must not expire then. A program in `core.fsmonitor` must not run.
    settings = ["gc.auto=0", "maintenance.auto=false"]
    if any(worktree.git_dir.glob("sharedindex.*")):
        settings.append("splitIndex.sharedIndexExpire=never")
    if git(worktree.top, "config", "-z", "--get-all", "core.fsmonitor").count(b"\0") > 1:  # one value is ours
        settings.append("core.fsmonitor=false")
    arguments = ["--quiet", "-F", str(message)]
    if not options.edit_message:  # with commit.verbose git would cut at scissors without an editor too
        arguments += ["--cleanup=whitespace", "--no-verbose"]
    elif _SCISSORS in message.read_bytes():  # git would cut the message there
        arguments += ["--edit", "--cleanup=whitespace", "--no-verbose", "--no-status"]
    else:
        arguments += ["--edit", "--cleanup=scissors"]
    arguments += ["--signoff"] if options.signoff else []
    arguments += ["--no-verify"] if options.no_verify else []
    arguments += [f"--gpg-sign{options.sign and '='}{options.sign}"] if options.sign is not None else []
    flags = [argument for setting in settings for argument in ("-c", setting)]
    command = ["git", *flags, "commit", *arguments]
    began = tracing.begin()
    process = None
    try:
        with defer_signals():  # ^C during the start must not leave git running while the edit is rolled back
            process = subprocess.Popen(
                command,
                cwd=worktree.top,
                env=dict(os.environ, GIT_INDEX_FILE=str(journal.path(other_files.COMMITTED))),
                stdin=None if options.edit_message else subprocess.DEVNULL,
                stdout=None if options.edit_message else subprocess.PIPE,
                stderr=None if options.edit_message else subprocess.STDOUT,
                pass_fds=(journal.descriptor,),
            )
        output = bytearray()
        for data in Program(process).output(silence=0.1):
            output += data
            if listen is not None:
                listen(data)
        return process.wait(), bytes(output)
    except BaseException:
        if process is not None:
            with defer_signals():
                _stop(process)
        raise
    finally:
        if process is not None:
            tracing.command(began, command, process.poll())
            if process.stdout is not None:
                process.stdout.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End git, which without a terminal has not received ^C. Wait up to 5 s for a hook that outlives it: it may write
    files that are about to be restored."""
    for number, seconds in ((signal.SIGINT, 5.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, None)):
        if process.poll() is None:
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
    deadline = time.monotonic() + 5.0
    while process.stdout is not None and (remaining := deadline - time.monotonic()) > 0:
        readable, _, _ = select.select([process.stdout], [], [], remaining)
        if readable and not os.read(process.stdout.fileno(), 65536):
            break


def verified_commit(journal: EditJournal) -> Commit | None:
    """The commit after a successful `git commit`; None if a hook removed the change from it.

    A commit without the change, or on the wrong parent, is withdrawn. Raises Busy if another program moved HEAD.
    """
    worktree, record = journal.worktree, journal.record
    tip = read_commit(worktree)
    made = tip if tip.parent == record.head else find_commit(journal)
    if made is None:
        if _is_commit_of(journal, tip):
            withdraw_commit(worktree, tip)
        raise Busy("another program moved HEAD during the commit: run the edit again")
    if made is tip and not any(planned.path in made.changed for planned in record.planned):
        withdraw_commit(worktree, made)
        return None
    return made


def find_commit(journal: EditJournal) -> Commit | None:
    """The commit that the transaction made on top of its starting commit; None if there is none."""
    worktree, began = journal.worktree, journal.record.head
    if head_commit(worktree) in (None, began):
        return None
    for oid, parent in first_parents(worktree, _LOOK_BACK):
        if parent == began:
            made = read_commit(worktree, oid)
            return made if _is_commit_of(journal, made) else None
    return None


def _is_commit_of(journal: EditJournal, made: Commit) -> bool:
    """Whether the commit has a planned entry, the id of the edit, or its message for a file that a hook took out."""
    if any(made.changed.get(p.path, p.in_head) == p.commit != p.in_head for p in journal.record.planned):
        return True
    text, message = git(journal.worktree.top, "cat-file", "commit", made.oid), journal.record.message or ""
    is_message = text.endswith(b"\n\n" + os.fsencode(message).strip() + b"\n")
    touched = any(p.path in made.changed for p in journal.record.planned)
    return journal.record.id.encode() in text or (touched and is_message)


def has_moved(journal: EditJournal) -> bool:
    """Whether HEAD was moved to `moves_to`, or to a commit on top of it."""
    target, began = journal.record.moves_to, journal.record.head
    head = head_commit(journal.worktree)
    if head is None or head in (target, began):
        return (head or "") == target
    history = [oid for oid, _ in first_parents(journal.worktree, _LOOK_BACK)]
    history.append("")  # before the first commit
    if target not in history:
        return False
    return began not in history or history.index(target) < history.index(began)


def committed_since(
    journal: EditJournal, made: Commit, stage: Mapping[str, Entry | None]
) -> dict[str, Entry | None]:
    """The entries that the user's index needs because hooks committed on top of `made`.

    A path is left out if something else is staged there. `stage` has the other planned entries.
    """
    worktree, index = journal.worktree, journal.path(other_files.COMMITTED)
    if head_commit(worktree) in (made.oid, None) or not index.exists():
        return {}
    since = changes_between(worktree, made.oid, "HEAD")
    by_hook, by_user = staged_entries(worktree, since, index), staged_entries(worktree, since)
    return {
        path: new
        for path, (old, new) in since.items()
        if by_hook.get(path) == new and (stage[path] if path in stage else by_user.get(path)) == old
    }
