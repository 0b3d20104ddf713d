"""Write an accepted change, run its check and commit it, all or nothing; and compose the commit message."""

from __future__ import annotations

import os
import re
import secrets
import textwrap
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Literal

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.display_text import list_some
from repoagent.edit.checks import CheckResult, run_check
from repoagent.edit.draft import EditSession
from repoagent.edit.ui import Proposal, UserInterface
from repoagent.errors import Busy, CheckFailed, Refused
from repoagent.git.files import FileChange
from repoagent.git.index import read_status
from repoagent.git.process import git
from repoagent.git.transaction.results import CommitResult, HookFailed, InPlace, and_unchanged, restored_notes
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.worktree import WorkTree, head_blobs
from repoagent.storage.folders import SystemFailed
from repoagent.storage.secrets import without_secrets

NAMED = 3  # files in a remark
LOCK_SECONDS = 10.0  # to wait for another process that commits; its hooks may take a while
LOCK_POLL_SECONDS = 0.1
_OUTPUT = "Its output:\n"
_ADVICE = (
    "\n\nYour edit is kept as a draft and is not written yet: "
    "send only what must change in it for the check to pass."
)


def new_edit_id() -> str:
    """A unique id that sorts by time and is a valid file name and ref name."""
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(3)


@dataclass(frozen=True)
class CommitOutcome:
    proposal: Proposal
    written: bool = False  # not for a dry run
    commit: CommitResult | None = None
    check: CheckResult | None = None

    @property
    def kind(self) -> Literal["committed", "written", "proposed"]:
        if self.commit is not None:
            return "committed"
        return "written" if self.written else "proposed"

    @property
    def changes(self) -> tuple[FileChange, ...]:
        return self.proposal.changes

    @property
    def remarks(self) -> tuple[str, ...]:
        return (*self.proposal.remarks, *(commit_remarks(self.commit) if self.commit else ()))


class SentBack(Exception):
    """Raised if a change was not committed and the model should correct it. The text of the exception tells the model
    why.

    kind: "person", "check", "hook" or "sensitive".
    sentence: the reason, for the user.
    printed: the output of the check.
    """

    def __init__(self, kind: str, text: str, sentence: str | None = None, printed: str = "") -> None:
        from repoagent.llm.model import unfence

        super().__init__(text)
        self.kind, self.printed = kind, printed
        self.sentence = unfence(text) if sentence is None else sentence

    @property
    def shown(self) -> str:
        """The text for the user, "" if the user rejected the change."""
        return "" if self.kind == "person" else "\n".join(filter(None, [self.sentence, self.printed]))

    def failure(self, more: str = "") -> CheckFailed:
        """The error for the user if the model gets no further attempt."""
        gap = " " if self.sentence.endswith(".") else "\n"  # the output of a hook
        return CheckFailed(gap.join(filter(None, [self.sentence, more])), self.printed)


class CannotCommitNow(Refused):
    """The repository's current state does not allow the commit. A later run can resume from the model's saved
    answer."""


class CommitFailed(CheckFailed):
    """git could not commit, for a reason other than the change. A later run can resume from the model's saved
    answer."""


def commit(
    session: EditSession,
    proposal: Proposal,
    edit_id: str,
    ui: UserInterface,
    *,
    in_place: InPlace | None = None,
) -> CommitOutcome:
    """Write the change (unless it is already `in_place`), run the check and commit, as the request says.

    Raises FilesChanged if a file changed on disk, SentBack for a failed check or hook, and CannotCommitNow,
    CommitFailed, Busy or SystemFailed for other reasons. After an error the files are as before, except for what other
    programs saved.
    """
    request = session.request
    result: CheckResult | None = None
    made: CommitResult | None = None
    deadline, waiting = time.monotonic() + LOCK_SECONDS, False
    try:
        with ExitStack() as stack:
            while True:
                transaction = Transaction(
                    session.worktree, proposal.changes, request.commit, edit_id, listen=ui.output,
                    in_place=in_place,
                )  # fmt: skip
                try:
                    stack.enter_context(transaction)
                    break
                except Busy as error:  # another process commits
                    if time.monotonic() > deadline:
                        raise Busy(f"{error}\n{session.resume_hint}".rstrip()) from error
                    if not waiting:
                        ui.note("waiting for another process to finish its commit")
                    waiting = True
                    time.sleep(LOCK_POLL_SECONDS)
                except SystemFailed as error:
                    raise SystemFailed(f"{error}\n{session.resume_hint}".rstrip()) from error
                except Refused as error:
                    raise CannotCommitNow(f"{error}\n{session.resume_hint}".rstrip()) from error
            if request.check and (dirty := sorted(read_status(session.worktree).changed)):
                remark = f"the check also saw your uncommitted changes in {list_some(dirty, NAMED)}"
                proposal = replace(proposal, remarks=(*proposal.remarks, remark))
            transaction.write()
            if request.check:
                result = run_check(
                    request.check, session.worktree, accepted=proposal.accepted, running=ui.running
                )
                if not result.passed:
                    raise check_failure(result, session.worktree.top)
            ui.quiet()  # an editor, a hook or a passphrase may need the terminal
            if request.commit.no_commit:
                transaction.keep()
            else:
                try:
                    made = transaction.commit(proposal.message, at_once=not request.check)
                except HookFailed as error:
                    text = f"{without_secrets(str(error))}\n"
                    if not error.by_git:  # the model can react to a hook that refuses
                        raise SentBack("hook", text.removesuffix("\n")) from error
                    if request.commit.edit_message:  # git had the terminal, and printed the reason
                        text = f"the commit was not made{and_unchanged(error.remarks)}. "
                    raise CommitFailed(f"{text}{session.resume_hint}".rstrip()) from error
    except SentBack as setback:  # an error for the user if some files could not be restored
        if setback.kind == "check" and (left := transaction.other_changes.left):
            text = str(setback).removesuffix(_ADVICE)
            raise Refused(f"another program has changed {', '.join(left)}. {text}") from setback
        if transaction.left:
            raise Refused(str(setback)) from setback
        raise
    return CommitOutcome(proposal, True, made, result)


def commit_remarks(commit: CommitResult) -> tuple[str, ...]:
    """Sentences on how hooks changed the commit and the user's other files."""
    remarks = list(commit.notes)
    if commit.folded:
        remarks.append(f"{', '.join(commit.folded)} changed while hooks ran; the new version was committed")
    if commit.taken_out:
        remarks.append(
            f"a hook added changes in {', '.join(commit.taken_out)} to the commit; repoagent removed them"
        )
    return (*remarks, *restored_notes(commit.restored))


def check_failure(result: CheckResult, top: Path) -> SentBack:
    """The exception for a failed check. Its text has the output, with paths relative to `top`, and tells the model what
    to do next."""
    output = result.excerpt().replace(f"{top}/", "").rstrip()
    head = f"The check `{without_secrets(result.command)}` {result.how}"
    text = [f"{head} after your edit.", result.advice, f"{_OUTPUT}{output}{_ADVICE}"]
    sentence = " ".join(filter(None, [f"{head}.", result.advice]))
    return SentBack("check", " ".join(filter(None, text)), sentence, output)


def check_output(failure: str) -> str:
    """Extract the check's output from the text of a `check_failure`. If the text was edited, return all of it."""
    return failure.partition(_OUTPUT)[2].rpartition(_ADVICE)[0] or failure


SUBJECT_WIDTH = BODY_WIDTH = 72
EDIT_TRAILER = "Repoagent-Edit"
SOURCE_TRAILER = "Source-Blob"
# interpret-trailers inserts trailers above trailing comment lines; our messages have no comments
NO_COMMENT = "\x01"

# run git (older versions, too) without any configuration and outside any repository
_NO_SETTINGS = {
    "GIT_DIR": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull, "HOME": os.devnull, "XDG_CONFIG_HOME": os.devnull,
    "GIT_CONFIG_COUNT": "0", "GIT_CONFIG_PARAMETERS": "",
}  # fmt: skip
_KEEP_AS_IS = re.compile(r"\s*([-*+#>|]|\d+[.)])\s|\s{2,}\S|\s*```|\S+: \S")
# Terminal escape sequences, control characters, and invisible or direction characters.
_CONTROL = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[\\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)|\x1b[ -/]*[0-~]"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
)
# Trailers that a model must not write: who wrote, signed or reviewed the commit (`...ed-by`), instructions to programs
# (this one, CI, Gerrit, git send-email), and the origin of a commit.
_TRAILER = re.compile(r"[ \t]*(?:([A-Za-z][A-Za-z0-9-]{0,60})[ \t]*:|\(cherry picked from commit )")
_PEOPLE = re.compile(r"[a-z0-9-]*(?:ed|en|off|patch)-by|also-by|cc", re.ASCII)
_STEERING = {
    "review-ignore", SOURCE_TRAILER.lower(), "change-id", "reviewed-on", "git-svn-id", "skip-checks", "request-checks",
}  # fmt: skip
_CI = "ci|cd|actions|checks?|deploy|build|pipelines?|travis|netlify|vercel|appveyor|circle ?ci|azp|az(?:ure)?pipelines"
_SKIP_CI = re.compile(
    rf"(?i)[ \t]*(?:\[[ \t]*(?:(?:skip|no)[ -](?:{_CI})|(?:{_CI})[ -]skip)[ \t]*\]|\*\*\*NO_CI\*\*\*)"
)


def compose_message(account: str, instruction: str, trailer: str = "") -> str:
    """Compose a commit message from the model's text (`account`) or, if that is empty, from `instruction`.

    The subject has at most 72 columns; the rest of the first line moves to the body, where prose is wrapped. Control
    characters are removed, and from the model's text also the claims that `without_claims` removes. `trailer` is the
    name of the trailer for the model.
    """
    first, lines = "", without_claims(without_controls(account), trailer).strip().splitlines()
    while lines and not first:  # a line may turn out to be a trailer once its markup is removed
        first = without_claims(" ".join(lines.pop(0).strip().strip("#*").split()), trailer)
    by_model = bool(first)
    if not by_model:
        first, *lines = without_controls(instruction).strip().splitlines() or ["Edit files"]
        first = " ".join(first.strip().strip("#*").split())
        word = first.partition(" ")[0]
        if word.isalpha() and word.islower():  # not if it looks like code
            first = first[:1].upper() + first[1:]
    first, rest = first.removesuffix(".").removesuffix(":"), ""
    if len(first) > SUBJECT_WIDTH:
        space = first.rfind(" ", 0, SUBJECT_WIDTH - 1)
        at = space if space >= SUBJECT_WIDTH // 2 else SUBJECT_WIDTH - 1
        first, rest = first[:at].rstrip(" ,;:") + "…", "…" + first[at:].strip()
    more = [_wrapped(rest), _wrapped("\n".join(lines).strip("\n"))]
    if by_model:  # wrapping may move a trailer to the start of a line
        more = [without_claims(part, trailer) for part in more]
    return "\n\n".join([first, *filter(str.strip, more)]).rstrip() + "\n"


def without_claims(message: str, trailer: str = "", *, people: bool = True) -> str:
    """Remove from `message` what a model must not claim.

    These are trailers that instruct programs, requests to skip CI and, with `people`, trailers that vouch for the
    change and the trailer named `trailer`. Trailers that describe the change (`Fixes:`) are kept.
    """
    lines: list[str] = []
    dropping = False
    for line in message.split("\n"):
        if dropping and line[:1] in (" ", "\t") and line.strip():
            continue
        match = _TRAILER.match(line)
        name = (match[1] or "").lower() if match else ""
        vouches = people and (name in ("", trailer.lower()) or _PEOPLE.fullmatch(name) is not None)
        dropping = match is not None and (vouches or name in _STEERING or name.startswith("repoagent-"))
        if not dropping:
            lines.append(line)
    return _SKIP_CI.sub("", "\n".join(lines))


def without_controls(text: str) -> str:
    """Remove escape sequences, control characters and direction marks, and convert all line ends to newlines."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _wrapped(text: str) -> str:
    """Wrap paragraphs of prose, but not lists, quotes and preformatted text."""
    paragraphs = []
    for paragraph in re.split(r"\n[ \t]*\n", text):
        lines = paragraph.splitlines()
        if all(len(line) <= BODY_WIDTH for line in lines) or any(map(_KEEP_AS_IS.match, lines)):
            paragraphs.append("\n".join(line.rstrip() for line in lines))
        else:
            prose = " ".join(line.strip() for line in lines)
            paragraphs.append(
                textwrap.fill(prose, BODY_WIDTH, break_long_words=False, break_on_hyphens=False)
            )
    return "\n\n".join(part for part in paragraphs if part.strip())


def with_own_trailers(
    message: str,
    worktree: WorkTree,
    settings: Settings,
    changes: Sequence[FileChange],
    *,
    edit_id: str,
    model: str = "",
) -> str:
    """Add repoagent's trailers to `message`, unless the settings turn them off. They name the model (unless `model` is
    ""), the edit and the original blobs."""
    if not settings.switch("commit.trailers"):
        return message
    paths = [change.old_path for change in changes if change.old_path is not None]
    blobs = head_blobs(worktree, paths)
    trailers = [(settings.text("commit.trailer"), f"repoagent:{model}")] if model else []
    trailers += [(EDIT_TRAILER, edit_id), *((SOURCE_TRAILER, blobs[path]) for path in paths if path in blobs)]
    return with_trailers(message, trailers, worktree.top)


def with_trailers(message: str, trailers: Sequence[tuple[str, str]], top: Path) -> str:
    """Add `trailers` to a message with `git interpret-trailers`. A `---` line in the message is text, not a divider.

    The user's `trailer.*` settings are ignored: they could drop the trailers that undo looks for, and run commands.
    """
    if not trailers:
        return message
    options = [f"--trailer={name}: {value}" for name, value in trailers]
    out = git(
        top, "-c", f"core.commentChar={NO_COMMENT}", "interpret-trailers", "--no-divider",
        "--if-exists=addIfDifferent", *options,
        stdin=message.encode("utf-8", "replace"), env=_NO_SETTINGS,
    )  # fmt: skip
    return out.decode("utf-8", "replace")
