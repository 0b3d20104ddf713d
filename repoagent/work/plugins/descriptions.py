"""Programs that describe themselves: which one a name of `run.tools` is, and what it says of itself."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.work.programs import start
from repoagent.work.texts import cut, one_line

VERSION = 1
PATIENCE = 10.0  # seconds for a description
TIMEOUT = 60.0  # seconds for a call, unless it says otherwise
LONGEST_TIMEOUT = 3600.0
LONGEST = 500  # characters of its line in the prompt
NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_ARGUMENT = re.compile(r"[A-Za-z_][\w-]{0,39}")


@dataclass(frozen=True)
class Description:
    """What a program says of itself. `args` and `body` say what each is for; args None: any are taken. A `body` of ""
    means that it takes none."""

    name: str
    text: str
    args: Mapping[str, str] | None = field(default_factory=dict)
    body: str = ""
    reads_only: bool = False
    timeout: float = TIMEOUT

    @property
    def prompt(self) -> str:
        """The line of the prompt: the tag as it is written, and what it does."""
        if self.text.startswith(f"<{self.name}"):
            return self.text
        args = "".join(f' {name}="{_plain(what)}"' for name, what in (self.args or {}).items())
        tag = (
            f"<{self.name}{args}>{_plain(self.body)}</{self.name}>" if self.body else f"<{self.name}{args}/>"
        )
        return f"{tag} {self.text}"


def program(entry: str, top: Path) -> Path:
    """The program that an entry of `run.tools` names: a whole path, one from the home (`~/…`), or a name on PATH.

    Raises Refused, worded as the end of a sentence. What stands in the work tree is refused: a run could change it, and
    it runs outside of the sandbox.
    """
    given = Path(os.path.expanduser(entry))  # noqa: PTH111  (a Path raises for an unknown user)
    found = str(given) if given.is_absolute() else None if "/" in entry else shutil.which(entry)
    if found is None:
        raise Refused("is no whole path and no program on PATH")
    path = Path(os.path.normpath(found))
    if not path.is_absolute():
        raise Refused("is found through a folder on PATH that is not a whole path")
    real = Path(os.path.realpath(path))
    if real.is_relative_to(os.path.realpath(top)) or path.is_relative_to(top):
        raise Refused("stands in the work tree, where a run could change it: keep it elsewhere")
    if not real.is_file():
        raise Refused("is not there")
    if not os.access(real, os.X_OK):
        raise Refused(f"can't be run: `chmod +x {path}`")
    return path


def describe(path: Path, top: Path) -> Description:
    """Ask the program at `path` with `--description`. Raises Refused, worded as the end of a sentence."""
    ran = start([str(path), "--description"], top=top, timeout=PATIENCE)
    if not ran.ok:
        said = cut(one_line(ran.errors or ran.output), 200)
        how = ran.ended or f"failed with exit code {ran.code}"
        raise Refused(f"{how} when it was asked with --description" + (f": {said}" if said else ""))
    try:
        record = json.loads(ran.output)
    except (ValueError, RecursionError) as error:
        raise Refused("answers --description with what is no JSON") from error
    return _checked(record)


def _checked(record: object) -> Description:
    if not isinstance(record, dict):
        raise Refused("answers --description with JSON that is no object")
    version = record.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise Refused(
            f"has a description of version {version}; this repoagent knows {VERSION}: update repoagent"
        )
    name, text = record.get("name"), record.get("text")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Refused("has a description without a name (small letters, digits, dashes; 40 at most)")
    if not isinstance(text, str) or not one_line(text):
        raise Refused("has a description without a text")
    body = record.get("body", "")
    if not isinstance(body, str):
        raise Refused("has a description whose body is no text")
    reads_only, timeout = record.get("reads_only", False), record.get("timeout", TIMEOUT)
    if not isinstance(reads_only, bool):
        raise Refused("has a description whose reads_only is neither true nor false")
    number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if not (number and math.isfinite(timeout) and 0 < timeout <= LONGEST_TIMEOUT):
        raise Refused(f"has a description whose timeout is no number of seconds up to {LONGEST_TIMEOUT:g}")
    return Description(
        name,
        cut(one_line(text), LONGEST),
        _args(record.get("args")),
        cut(one_line(body), LONGEST),
        reads_only,
        float(timeout),
    )


def _args(given: object) -> dict[str, str] | None:
    if given is None:
        return None
    if not isinstance(given, dict) or len(given) > 20:
        raise Refused("has a description whose args are no object of names and what they are for")
    args: dict[str, str] = {}
    for name, what in given.items():
        if not _ARGUMENT.fullmatch(name) or name == "id" or not isinstance(what, str):
            raise Refused(f"has a description with the argument {name!r}, which can't be one")
        args[name] = cut(one_line(what), 120)
    return args


def _plain(text: str) -> str:
    """A text for a place in an example of a tag."""
    return re.sub(r'[<>"]', "'", text)
