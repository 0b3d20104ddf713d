"""The commit message: the model's own account of the change, in the shape that git users expect."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from repoagent.repo.run import git

SUBJECT_WIDTH = 72
BODY_WIDTH = 72
EDIT_TRAILER = "Repoagent-Edit"
SOURCE_TRAILER = "Source-Blob"
# interpret-trailers puts trailers above trailing comment lines; in our text a `#` line is a line like any other
NO_COMMENT = "\x01"

# a git without any configuration, that of older versions too, and outside any repository
_NO_SETTINGS = {
    "GIT_DIR": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull, "HOME": os.devnull, "XDG_CONFIG_HOME": os.devnull,
    "GIT_CONFIG_COUNT": "0", "GIT_CONFIG_PARAMETERS": "",
}  # fmt: skip
_KEEP_AS_IS = re.compile(r"\s*([-*+#>|]|\d+[.)])\s|\s{2,}\S|\s*```|\S+: \S")
# Sequences that a terminal obeys, and what else it or a reader would take for something that it is not.
_CONTROL = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[\\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)|\x1b[ -/]*[0-~]"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
)
# Trailers that a model has no right to: who wrote, signed or reviewed (`...ed-by`), what steers programs (this one, CI,
# Gerrit, git send-email), and where a commit comes from.
_TRAILER = re.compile(r"[ \t]*(?:([A-Za-z][A-Za-z0-9-]{0,60})[ \t]*:|\(cherry picked from commit )")
_PEOPLE = re.compile(r"[a-z0-9-]*(?:ed|en|off|patch)-by|also-by|cc", re.ASCII)
_STEERING = {
    "review-ignore", SOURCE_TRAILER.lower(), "change-id", "reviewed-on", "git-svn-id", "skip-checks", "request-checks",
}  # fmt: skip
_CI = "ci|cd|actions|checks?|deploy|build|pipelines?|travis|netlify|vercel|appveyor|circle ?ci|azp|az(?:ure)?pipelines"
_SKIP_CI = re.compile(
    rf"(?i)[ \t]*(?:\[[ \t]*(?:(?:skip|no)[ -](?:{_CI})|(?:{_CI})[ -]skip)[ \t]*\]|\*\*\*NO_CI\*\*\*)"
)
_BOLD = re.compile(r"(?<!\w)\*\*(?=\S)(.+?)(?<=\S)\*\*(?!\w)")
_FILLER = re.compile(r"^(sure|certainly|okay|ok|of course)[,.!]\s*", re.IGNORECASE)


def compose(account: str, instruction: str, trailer: str = "") -> str:
    """Make subject and body of `account` (what the model wrote for the commit), or of the instruction without one.

    The subject is one line of at most 72 columns; what does not fit moves to the body, nothing is lost. Its case is
    the model's; an instruction gets a capital. Prose
    in the body is wrapped at 72; lists, quotes, indented and preformatted lines stay as they are. Control
    characters are left out, and of a model's account what `without_claims` takes out; `trailer` is the configured
    name of the trailer that names the model.
    """
    first, lines = "", without_claims(plain(account), trailer).strip().splitlines()
    while lines and not first:  # without its markup a line may be a trailer after all
        first = without_claims(_subject(lines.pop(0)), trailer)
    by_model = bool(first)
    if not by_model:
        first, *lines = plain(instruction).strip().splitlines() or ["Edit files"]
        first = capitalised(_subject(first))
    subject, rest = _cut(first.removesuffix(".").removesuffix(":"))
    # again once it is wrapped: that may put a trailer at the start of a line
    more = [wrap(rest), wrap("\n".join(lines).strip("\n"))]
    if by_model:
        more = [without_claims(part, trailer) for part in more]
    return "\n\n".join([subject, *filter(str.strip, more)]).rstrip() + "\n"


def without_claims(message: str, trailer: str = "", *, people: bool = True) -> str:
    """`message` without what a model must not say in a commit: trailers by which somebody vouches for it (unless
    `people` is False), trailers that steer programs, and requests to skip CI.

    Folded lines of such a trailer go with it. `trailer` is a further name to take out. `Fixes:`, `Closes:` and what
    else only describes the change stay.
    """
    kept: list[str] = []
    dropping = False
    for line in message.split("\n"):
        if dropping and line[:1] in (" ", "\t") and line.strip():
            continue
        dropping = _is_claim(line, trailer.lower(), people=people)
        if not dropping:
            kept.append(line)
    return _SKIP_CI.sub("", "\n".join(kept))


def _is_claim(line: str, trailer: str, *, people: bool) -> bool:
    match = _TRAILER.match(line)
    if match is None:
        return False
    name = (match[1] or "").lower()
    if not name:  # (cherry picked from commit ...)
        return people
    if name in _STEERING or name.startswith("repoagent-"):
        return True
    return people and (name == trailer or _PEOPLE.fullmatch(name) is not None)


def _subject(line: str) -> str:
    text = " ".join(_BOLD.sub(r"\1", line.strip().strip("#*")).split())
    bare = _FILLER.sub("", text)
    return bare if bare == text else capitalised(bare)


def plain(text: str) -> str:
    """`text` without terminal sequences, control characters and marks of direction."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def wrap(text: str) -> str:
    """Wrap the prose paragraphs of `text`; everything that has a shape of its own stays as it is."""
    paragraphs = re.split(r"\n[ \t]*\n", text)
    done = []
    for paragraph in paragraphs:
        lines = paragraph.splitlines()
        if any(_KEEP_AS_IS.match(line) for line in lines) or all(len(line) <= BODY_WIDTH for line in lines):
            done.append("\n".join(line.rstrip() for line in lines))
        else:
            done.append(
                textwrap.fill(
                    " ".join(line.strip() for line in lines),
                    BODY_WIDTH,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            )
    return "\n\n".join(part for part in done if part.strip())


def with_trailers(message: str, trailers: Sequence[tuple[str, str]], top: Path) -> str:
    """Add `trailers` as git does; a `---` line in the body is text (`--no-divider`).

    The user's `trailer.*` settings do not reach it: they could drop or respell what undo looks for, and run
    commands that nobody asked for.
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


def capitalised(subject: str) -> str:
    """The subject with a capital, unless its first word is spelled as code (`main()`, `foo_bar`, `fix:` prefixes)."""
    word = subject.split(" ", 1)[0]
    return subject[:1].upper() + subject[1:] if word.isalpha() and word.islower() else subject


def _cut(line: str) -> tuple[str, str]:
    """Split an overlong subject at a word; the subject ends in an ellipsis where it goes on in the body."""
    if len(line) <= SUBJECT_WIDTH:
        return line, ""
    head = line[: SUBJECT_WIDTH - 1]
    at = head.rfind(" ")
    if at < SUBJECT_WIDTH // 2:
        at = SUBJECT_WIDTH - 1
    return line[:at].rstrip(" ,;:") + "…", "…" + line[at:].strip()
