"""The message of a commit as `git commit -F` is given it."""

from __future__ import annotations

from repoagent.errors import Refused
from repoagent.repo.run import git
from repoagent.repo.worktree import WorkTree

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
            f"the commit message can't be written in {name}, as i18n.commitEncoding asks ({error}): "
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
