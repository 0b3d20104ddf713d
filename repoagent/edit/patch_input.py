"""Read a patch from a file, an email, a chat's answer or the output of `git show`."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from repoagent.dataclass import dataclass
from repoagent.edit.commit import without_claims
from repoagent.errors import Refused, UsageError
from repoagent.git.process import git

STANDARD_INPUT = "standard input"
_MAIL = re.compile(
    rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From \S+ .*\d\d:\d\d:\d\d.* \d{4}\s*$", re.MULTILINE
)  # the first line of a mail in a mailbox
_HEADERS = re.compile(rb"(?:[A-Za-z][\w-]*:[ \t].*\r?\n(?:[ \t]+\S.*\r?\n)*)+(?=\r?\n)")
_SHOWN = re.compile(r"^commit [0-9a-f]{40,64}\b.*\n(?=(?:Merge|Author): )", re.MULTILINE)
_SHOWN_HEAD = re.compile(r"(?:[A-Z]\w*:[ \t]+(.*)\n)+\n((?:(?:    .*)?\n)*)")


@dataclass(frozen=True)
class PatchInput:
    """A patch as read: its `name` in messages to the user, the `text` that contains it (bytes that are not UTF-8 as
    surrogates), and the commit `message` and `author`, "" if unknown."""

    name: str
    text: str
    message: str = ""
    author: str = ""


def read_patch_input(name: str, data: bytes, cwd: Path) -> PatchInput:
    """Separate the patch in `data` from its commit message and author. Raises UsageError for an empty input, Refused
    for several commits."""
    if not data.strip():
        raise UsageError(f"{name} is empty: it contains no patch")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # redirected by a Windows shell
        data = data.decode("utf-16", "replace").encode()
    data = data.removeprefix(b"\xef\xbb\xbf")
    mails = [match.start() for match in _MAIL.finditer(data)]
    if len(mails) > 1 and mails[0] == 0:
        raise Refused(
            f"{name} contains {len(mails)} emails, each a separate commit: apply them with `git am`, or one by "
            "one (`git mailsplit` splits them)"
        )
    headers = _HEADERS.match(data)
    fields = {line.partition(b":")[0].lower() for line in headers[0].splitlines()} if headers else set()
    if mails[:1] == [0] or (b"subject" in fields and fields & {b"from", b"date"}):
        with TemporaryDirectory(prefix="repoagent-") as folder:  # decode and split the mail as `git am` does
            words_file, patch_file = Path(folder, "message"), Path(folder, "patch")
            out = git(cwd, "mailinfo", "--encoding=UTF-8", str(words_file), str(patch_file), stdin=data)
            body = words_file.read_bytes().decode("utf-8", "replace")
            text = patch_file.read_bytes().decode("utf-8", "surrogateescape")
        rows = out.decode("utf-8", "replace").splitlines()
        info = dict(row.split(": ", 1) for row in rows if ": " in row)
        author = f"{info.get('Author', '')} <{info.get('Email', '')}>".strip()
        subject = info.get("Subject", "")
        fence = re.search(r"\n(`{3,}.*)\n*\Z", body)
        if fence:  # git split the mail inside the fence around the patch
            text, body = f"{fence[1]}\n{text}", body[: fence.start()]
        if text.strip():
            subject = "\n\n".join(filter(None, [subject.strip(), body.strip("\n").rstrip()])) + "\n"
        else:  # no unified diff: the body may contain another format
            text = body
        # keep Signed-off-by and the like, as `git am` does
        return PatchInput(name, text, without_claims(subject, people=False), author)
    text = data.decode("utf-8", "surrogateescape")
    commits = list(_SHOWN.finditer(text))
    if not commits or commits[0].start() != 0:
        return PatchInput(name, text)
    if len(commits) > 1:
        raise Refused(
            f"{name} contains {len(commits)} commits: apply them one by one, or use `git format-patch` and `git am`"
        )
    head = _SHOWN_HEAD.match(text, commits[0].end())
    if head is None:
        return PatchInput(name, text)
    # `git show` and `git log -p` indent the message by four columns
    words = "\n".join(line.removeprefix("    ") for line in head[2].split("\n")).strip("\n")
    words = words.encode("utf-8", "replace").decode()
    written_by = re.search(r"^Author:\s+(.*)$", head[0], re.MULTILINE)
    message = without_claims(f"{words}\n", people=False) if words else ""
    return PatchInput(name, text[head.end() :], message, written_by[1] if written_by else "")
