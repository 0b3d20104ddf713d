"""A patch as somebody handed it over, and what it says of itself: a chat's answer, a mail, the output of `git show`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.edit.landing.message import capitalised, compose, without_claims
from repoagent.errors import Refused, UsageError
from repoagent.patch import patch_spans
from repoagent.repo import FileChange, git

NAMED = 3  # files in a subject
STANDARD_INPUT = "standard input"

_MAIL = re.compile(rb"^From \S+ .*\d\d:\d\d:\d\d.* \d{4}\s*$", re.MULTILINE)
_HEADERS = re.compile(rb"(?:[A-Za-z][\w-]*:[ \t].*\r?\n(?:[ \t]+\S.*\r?\n)*)+(?=\r?\n)")
_SHOWN = re.compile(r"^commit [0-9a-f]{40,64}\b.*\n(?=(?:Merge|Author): )", re.MULTILINE)
_SHOWN_HEAD = re.compile(r"(?:[A-Z]\w*:[ \t]+(.*)\n)+\n((?:(?:    .*)?\n)*)")
_COMMIT = re.compile(r"<commit>(.*?)</commit>", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# What a chat says before it comes to the point: an assent, and sentences that only point at the patch.
_ASSENT = re.compile(
    r"(?:sure|certainly|of course|okay|ok|absolutely|yes|great)\b[^.!,:\n]{0,30}[.!,:]\s*", re.IGNORECASE
)
_POINTER = re.compile(
    r"(?:here(?:'s|\u2019s| is| are)|below|the following|this (?:is|diff|patch)|apply this|you can|let me"
    r"|i(?:'|\u2019)?(?:ll| will))\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])")


@dataclass(frozen=True)
class Given:
    """`name` is how to speak of it, `text` what holds the patch (bytes that are no UTF-8 as surrogates), `message` the
    commit message it brings along and `author` who wrote it, both "" where it does not say."""

    name: str
    text: str
    message: str = ""
    author: str = ""


def read_given(name: str, data: bytes, cwd: Path) -> Given:
    """Read the bytes of a patch. Raises UsageError for none, Refused for several commits: each has its own message."""
    if not data.strip():
        raise UsageError(f"{name} is empty: there is no patch in it")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # as a shell of Windows redirects it
        data = data.decode("utf-16", "replace").encode()
    data = data.removeprefix(b"\xef\xbb\xbf")
    mails = [match.start() for match in _MAIL.finditer(data) if _begins(data, match.start())]
    if len(mails) > 1 and mails[0] == 0:
        raise Refused(
            f"{name} holds {len(mails)} mails, and each is a commit of its own: apply them with `git am`, or one by "
            "one (`git mailsplit` parts them)"
        )
    if mails[:1] == [0] or _is_mail(data):
        return _mail(name, data, cwd)
    text = data.decode("utf-8", "surrogateescape")
    shown = list(_SHOWN.finditer(text))
    if len(shown) > 1 and shown[0].start() == 0:
        raise Refused(
            f"{name} holds {len(shown)} commits: give them one by one, or use `git format-patch` and `git am`"
        )
    if shown and shown[0].start() == 0:
        return _shown(name, text, shown[0].end())
    return Given(name, text, _from_prose(text))


def _begins(data: bytes, start: int) -> bool:
    return start == 0 or data[:start].endswith((b"\n\n", b"\n\r\n"))


def _is_mail(data: bytes) -> bool:
    head = _HEADERS.match(data)
    names = {line.partition(b":")[0].lower() for line in head[0].splitlines()} if head else set()
    return b"subject" in names and bool(names & {b"from", b"date"})


def _mail(name: str, data: bytes, cwd: Path) -> Given:
    """A mail as `git am` reads it: encodings of its transport undone, its message apart from its patch."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="repoagent-") as folder:
        message, patch = Path(folder, "message"), Path(folder, "patch")
        out = git(cwd, "mailinfo", "--encoding=UTF-8", str(message), str(patch), stdin=data)
        body = message.read_bytes().decode("utf-8", "replace")
        text = patch.read_bytes().decode("utf-8", "surrogateescape")
    fields = dict(line.split(": ", 1) for line in out.decode("utf-8", "replace").splitlines() if ": " in line)
    author = f"{fields.get('Author', '')} <{fields.get('Email', '')}>".strip()
    fence = re.search(r"\n(`{3,}.*)\n*\Z", body)  # the patch stands in a fence, and git has cut there
    text = f"{fence[1]}\n{text}" if fence else text
    body = body[: fence.start()] if fence else body
    if not text.strip():  # no unified diff: another form of change, in the body
        return Given(name, body, _steerless(fields.get("Subject", "")), author)
    return Given(name, text, _whole(fields.get("Subject", ""), body), author)


def _whole(subject: str, body: str) -> str:
    return _steerless(
        "\n\n".join(part for part in (subject.strip(), body.strip("\n").rstrip()) if part) + "\n"
    )


def _steerless(message: str) -> str:
    """The message of another commit: who signed it stays, as with `git am`."""
    return without_claims(message, people=False)


def _shown(name: str, text: str, start: int) -> Given:
    """What `git show` and `git log -p` print: the message is indented by four columns."""
    head = _SHOWN_HEAD.match(text, start)
    if head is None:
        return Given(name, text)
    lines = [line.removeprefix("    ") for line in head[2].split("\n")]
    author = re.search(r"^Author:\s+(.*)$", head[0], re.MULTILINE)
    words = "\n".join(lines).strip("\n").encode("utf-8", "replace").decode()
    return Given(
        name, text[head.end() :], _steerless(f"{words}\n") if words else "", author[1] if author else ""
    )


def _from_prose(text: str) -> str:
    """A message from the words around a patch: what stands in a `<commit>` tag, else the first sentence before the
    patch that says something, with the rest of its paragraph."""
    spans = patch_spans(text)
    before = text[: spans[0].start] if spans else text
    around = [text[one.end : other.start] for one, other in pairwise(spans)]
    rest = " ".join([before, *around, text[spans[-1].end :] if spans else ""])
    if tagged := _COMMIT.search(rest):
        return compose(_plain(tagged[1]), "") if tagged[1].strip() else ""
    for paragraph in re.split(r"\n\s*\n", _plain(before)):
        words = " ".join(paragraph.split()).strip("#* ")
        if (bare := _ASSENT.sub("", words)) != words:
            words = capitalised(bare)
        first, *more = _SENTENCE.split(words, maxsplit=1)
        if _POINTER.match(first) and more:
            first, *more = _SENTENCE.split(more[0], maxsplit=1)
        if _says_something(first):
            return compose("\n\n".join([first, *more]), "")
    return ""


def _says_something(sentence: str) -> bool:
    """Whether a sentence may stand for a change: words, and neither a pointer, a caption nor the line of a list."""
    if sentence.endswith(":") or re.match(r"[-*+>|`~<]|\d+[.)]|(?:diff|index|---|\+\+\+|@@)\b", sentence):
        return False
    return len(sentence.split()) > 1 and not _POINTER.match(sentence)


def _plain(text: str) -> str:
    return _CONTROL.sub("", text.encode("utf-8", "replace").decode())


def plain_message(name: str, changes: Sequence[FileChange]) -> str:
    """The message where nobody has said a word: which patch it is, and what it changes."""
    names = [change.name for change in changes]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    what = "a patch" if name == STANDARD_INPUT else Path(name).name
    return compose(f"Apply {what}: change {', '.join(names[:NAMED])}{more}", "")
