"""Run the `--check` command, and test the preconditions of a commit before paying for a model call."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.edit.request import Check, EditRequest
from repoagent.errors import Busy, Refused, UsageError
from repoagent.git.files import Source
from repoagent.git.objects import refuse_invalid_branch, resolve_commit
from repoagent.git.process import git_output
from repoagent.git.transaction.journal import lock_path
from repoagent.git.transaction.plan import refuse_no_branch, sparse_advice
from repoagent.git.worktree import WorkTree, head_blobs
from repoagent.storage.atomic import read_regular
from repoagent.storage.secrets import without_secrets

OUTPUT_LIMIT = 8 * 1024  # bytes of the output of a failed check that a model sees
KEPT = 1024 * 1024  # bytes of the output to keep: the end of a longer one
UNCONFINED = (
    "It ran in the sandbox, without network and without write access outside the work tree: if that is the cause, "
    "use --check-unconfined or set check.unconfined in your own configuration."
)
# Messages of programs without network or write access, from libc, Python, Node, Go, Java and Rust.
_MISSED = re.compile(
    rb"read-only file system|permission denied|operation not permitted|network is (unreachable|down)|\bEROFS\b"
    rb"|\bEACCES\b|\bEPERM\b|\bENETUNREACH\b|\bEAI_AGAIN\b|\bENOTFOUND\b|could not resolve|couldn't resolve"
    rb"|name resolution|name or service not known|no such host|unknown ?host|failed to lookup address"
    rb"|getaddrinfo|connection refused|connect(ion)? timed out|\boffline\b|no route to host"
    rb"|address family not supported|socket: not allowed",
    re.IGNORECASE,
)
LOCK_SECONDS = 2.0  # git commands hold the index lock for a moment; an older lock is left from a killed one
LOCK_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    ended: the reason why the check was stopped; "" if it was not.
    confined: whether it ran in the sandbox.
    """

    command: str
    returncode: int
    output: bytes
    seconds: float
    ended: str = ""
    confined: bool = False

    @property
    def passed(self) -> bool:
        return self.returncode == 0 and not self.ended

    @property
    def how(self) -> str:
        """The failure as a predicate: "failed with ..."."""
        return self.ended or f"failed with exit code {self.returncode}"

    @property
    def advice(self) -> str:
        """A hint that the sandbox is the likely cause of the failure, or ""."""
        return UNCONFINED if self.confined and _MISSED.search(self.output) else ""

    def excerpt(self) -> str:
        """The output, with the middle omitted if it exceeds OUTPUT_LIMIT bytes."""
        if len(self.output) <= OUTPUT_LIMIT:
            return self.output.decode(errors="replace")
        head, tail = self.output[: OUTPUT_LIMIT // 4], self.output[-(OUTPUT_LIMIT - OUTPUT_LIMIT // 4) :]
        left_out = len(self.output) - len(head) - len(tail)
        return f"{head.decode(errors='replace')}\n[… {left_out} bytes omitted …]\n{tail.decode(errors='replace')}"


def run_check(
    check: Check,
    worktree: WorkTree,
    *,
    accepted: bool,
    running: Callable[[str, Path], None] = lambda command, output: None,
) -> CheckResult:
    """Run `check` in a shell at the top of the work tree, without standard input.

    `accepted` says that the user has accepted the change; otherwise the check runs in the sandbox if possible.
    `running` is called with the command and the file for its output. All processes of the check are killed on a timeout
    (which counts as a failure), on ^C, and if this program dies. Raises OSError if the check cannot be started.
    """
    import tempfile

    from repoagent.agent.exec.process import Command, Job
    from repoagent.agent.sandbox.confine import supervised_command

    shell = ["/bin/sh", "-c", check.command]
    with tempfile.TemporaryDirectory(prefix="repoagent-check-", ignore_cleanup_errors=True) as name:
        base = Path(name).resolve()
        confine = None if accepted else check.confine
        confined = confine(worktree, base / "scratch", shell) if confine is not None else None
        argv, env = confined or (supervised_command(shell), os.environ)
        command = Command(Job(check.command, worktree.top), argv, base / "output", env, KEPT)
        running(without_secrets(check.command), base / "output")
        try:
            if not command.wait(check.timeout):
                command.end(f"was stopped after {check.timeout:g} seconds, the limit set by check.timeout")
        except BaseException:
            command.end()
            raise
        output = without_secrets((base / "output").read_bytes().decode("utf-8", "surrogateescape"))
    return CheckResult(
        check.command, command.exit or 0, output.encode("utf-8", "surrogateescape"), command.seconds,
        command.stopped, confined is not None,
    )  # fmt: skip


def preflight(worktree: WorkTree, request: EditRequest) -> None:
    """Raise an error now if the commit would fail later, whatever the change is.

    Raises UsageError for an unknown revision or a missing identity, Refused for a branch that cannot be created, and
    Busy while another program locks the index.
    """
    if not request.commits:
        return
    refuse_no_branch(worktree)
    if request.commit.branch is not None:
        refuse_invalid_branch(worktree, request.commit.branch)
    revision = request.commit.fixup
    if revision is not None and resolve_commit(worktree.top, revision) is None:
        raise UsageError(f"--fixup: there is no commit {revision}")
    if git_output(worktree.top, "var", "GIT_COMMITTER_IDENT", ok=(0, 1, 128)).returncode:
        raise UsageError(
            "git does not know your identity: set it with `git config --global user.name NAME` and "
            "`git config --global user.email ADDRESS`"
        )
    path, deadline = lock_path(worktree), time.monotonic() + LOCK_SECONDS
    # the lock of an edit will be gone before the commit
    while path.exists() and not (read_regular(path) or b"").startswith(b"repoagent "):
        if time.monotonic() > deadline:
            raise Busy(
                f"{path} exists: another git command is running in this work tree. Try again when it is done; "
                "if none is running, remove that file"
            )
        time.sleep(LOCK_POLL_SECONDS)


def refuse_untracked(worktree: WorkTree, request: EditRequest, sources: Mapping[str, Source]) -> None:
    """Raise Refused if a requested file is not in the last commit, or is in that commit but missing from the work
    tree."""
    if not request.commits or request.commit.include_dirty:
        return
    committed = head_blobs(worktree, request.paths)
    for path in request.paths:
        exists = sources[path].data is not None
        if exists and path not in committed:
            raise Refused(
                f"{path} is not in the last commit, so the edit would commit the whole file: commit "
                "it first, or use --include-dirty to commit it whole, or --no-commit to only write it"
            )
        if path in committed and not exists:
            from repoagent.git.index import read_entries

            entry = read_entries(worktree, [path]).get(path)
            if entry is not None and entry.skip_worktree:
                raise Refused(sparse_advice(path))
            raise Refused(
                f"{path} is missing from the work tree but is in the last commit: restore it with "
                f"`git restore {shlex.quote(path)}`, or commit its removal first"
            )
