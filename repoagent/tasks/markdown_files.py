"""Markdown files with YAML front matter, read safely: links that lead out of a repository are refused.

All scalars are text. Unquoted text may contain a colon and a space ("description: Use when: …"), which YAML forbids.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import check_path, open_location
from repoagent.llm.model import printable

LARGEST = 16 * 1024  # characters of a front matter
ENTRIES = 200  # of a folder are read
_FRONT = re.compile(r"\ufeff?---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_UNQUOTED = re.compile(r"^( *[A-Za-z_][\w.-]*: +)([^\s\"'\[{|>&*!%@`#].*(?:\n+[ \t]+.*)*)", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|[ \t])#.*", re.MULTILINE)

WhyNot = Callable[[str], "str | None"]
T = TypeVar("T")


def front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Split `text` into its front matter and the rest. Raises Refused if the front matter is missing or malformed,
    worded as the end of a sentence ("has no front matter")."""
    text = text.replace("\r\n", "\n")
    front = _FRONT.match(text)
    if front is None:
        raise Refused("has no front matter: it must start with a `---` line and end with another")
    if len(front[1]) > LARGEST:
        raise Refused(f"has front matter of more than {LARGEST:,} characters")
    return _parse(front[1]), text[front.end() :]


def _parse(text: str, *, quoted: bool = False) -> dict[str, Any]:
    import yaml

    try:
        fields = yaml.load(text, Loader=yaml.BaseLoader)  # the only loader that makes all scalars text
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        problem = getattr(error, "problem", None) or one_line(str(error))
        if "mapping values" in problem and not quoted:
            return _parse(_UNQUOTED.sub(_quote_colons, text), quoted=True)
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 2}: " if mark else ""
        raise Refused(f"has invalid front matter ({where}{problem})") from error
    if not isinstance(fields, dict | None):
        raise Refused("has invalid front matter: it must consist of `key: value` lines")
    return fields or {}


def _quote_colons(match: re.Match[str]) -> str:
    value = _COMMENT.sub("", match[2]).rstrip()
    return match[0] if not re.search(r":\s", value) else match[1] + "'" + value.replace("'", "''") + "'"


def text_field(fields: Mapping[str, Any], key: str) -> str:
    """The field as one line, "" for none. Raises Refused, worded as the end of a sentence, if it is not text."""
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise Refused(f"has a {key} that is not text")
    return one_line(value.encode("utf-8", "replace").decode())


@dataclass(frozen=True)
class MarkdownFolder:
    """A folder of Markdown files.

    top: the top of the repository that contains the folder, which links may not leave; None for a folder of the user
    why_not: says which files of the repository are hidden, by their path relative to `top`
    option: the option that names the folder, which must then exist; "" for a default folder
    """

    path: Path
    top: Path | None = None
    why_not: WhyNot | None = None
    option: str = ""

    @property
    def own(self) -> bool:
        """Whether the folder belongs to the user. The text in a repository's folder is treated as data, not as
        instructions."""
        return self.top is None

    def shown(self, path: Path) -> str:
        """`path` for a message: relative to the top of the repository, or as `~/...` if it is in the user's home."""
        for start, prefix in ((self.top, ""), (Path(os.environ.get("HOME") or "/nowhere"), "~/")):
            if start is not None and path.is_relative_to(start):
                return prefix + path.relative_to(start).as_posix()
        return str(path)

    def hides(self, path: Path) -> str | None:
        """Why `path` is hidden from models; None if it is not."""
        if self.why_not is None or self.top is None or not path.is_relative_to(self.top) or path == self.top:
            return None
        return self.why_not(path.relative_to(self.top).as_posix())

    def inside(self, path: Path) -> Path:
        """The real path of `path`. Raises Refused, worded as the end of a sentence, if it is outside of the repository
        or hidden from models."""
        real = Path(os.path.realpath(path))
        if self.top is None:
            return real
        top = Path(os.path.realpath(self.top))
        if not real.is_relative_to(top):
            raise Refused("is a link that leads outside the repository")
        for candidate in {path, self.top / real.relative_to(top)} - {self.top}:
            if candidate.is_relative_to(self.top):
                try:
                    check_path(candidate.relative_to(self.top).as_posix())
                except Refused as error:
                    raise Refused(f"cannot be used: {error}") from error
            if reason := self.hides(candidate):
                raise Refused(f"is hidden from models: {reason.rstrip('.')}")
        return real

    def read(self, path: Path, limit: int, *, within: Path | None = None) -> str | None:
        """The text of `path`; None if the file does not exist. Raises Refused, worded as the end of a sentence ("is not
        text"), if it has more than `limit` bytes, is a link out of `within`, or may not be read."""
        real = self.inside(path)
        if within is not None and not real.is_relative_to(os.path.realpath(within)):
            raise Refused("is a link that leads outside its folder")
        base = Path(os.path.realpath(self.top)) if self.top else real.parent
        try:
            # does not follow links: one that appears after the path was resolved is an OSError
            with open_location(base, real.relative_to(base).as_posix()) as location:
                descriptor = location.open(location.name, os.O_RDONLY)
                with os.fdopen(descriptor, "rb") as file:
                    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                        raise Refused("is not a regular file")
                    data = file.read(limit + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Refused(f"could not be read ({error.strerror})") from error
        if len(data) > limit:
            raise Refused(f"is larger than {limit:,} bytes")
        try:
            text = data.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            raise Refused("is not UTF-8") from error
        if "\0" in text:
            raise Refused("is not text")
        return text


def read_all(
    folder: MarkdownFolder, kind: str, read: Callable[[Path], T | None], warn: Callable[[str], None]
) -> Iterator[T]:
    """Yield the result of `read` for each entry of the folder, sorted by name. Warns about each entry that `read`
    refuses."""
    option, shown = folder.option, folder.shown(folder.path)
    if option and not (folder.path.is_absolute() and folder.path.is_dir()):
        warn(f"{option} lists {shown}, which is not the absolute path of a folder; skipped its {kind}s")
        return
    try:
        real = folder.inside(folder.path) if os.path.lexists(folder.path) else folder.path
        names = sorted(name for name in os.listdir(real) if not name.startswith("."))  # noqa: PTH208  (names only)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, Refused) as error:
        reason = f"could not be listed ({error.strerror})" if isinstance(error, OSError) else error
        warn(f"{shown} {reason}; skipped its {kind}s")
        return
    if len(names) > ENTRIES:
        warn(f"{shown} has {len(names)} entries; only the first {ENTRIES} are read")
    for name in names[:ENTRIES]:
        try:
            item = read(folder.path / name)
        except Refused as error:
            warn(f"the {kind} {folder.shown(folder.path / name)} {error}; skipped it")
        else:
            if item is not None:
                yield item


def one_line(text: str) -> str:
    """`text` with single spaces, and without control characters."""
    return " ".join(printable(text).split())


def cut_at_word(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, cut at the end of a word, with an ellipsis."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    at = head.rfind(" ")
    return (head[:at] if at > limit // 2 else head).rstrip(" ,;:") + "…"
