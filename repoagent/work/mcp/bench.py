"""Where the tools work: the repository of the server's folder, and what of it may be shown to a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from repoagent.dataclass import dataclass
from repoagent.errors import Refused

if TYPE_CHECKING:
    from repoagent.config import Settings
    from repoagent.edit.verify.scope import WhyNot
    from repoagent.repo import WorkTree
    from repoagent.work.mcp.offer import Call, Service

MOST = 24 * 1024  # characters of a text in an answer
ROOM = 4096  # around such a text
ITEMS = 500  # of a list in it


@dataclass(frozen=True)
class Bench:
    """The work tree, looked up anew for each call, and the gate of `.repoagentignore` and of names of secrets."""

    worktree: WorkTree
    why_not: WhyNot

    def path(self, given: str, *, folder: bool = False) -> str:
        """A path from the top, as the client wrote it. Raises Refused for one that leads elsewhere or may not be shown;
        with `folder` it may be one, "." for the top."""
        from repoagent.repo.paths import check_path

        path = given.removeprefix("./").rstrip("/") or given
        if folder and path in (".", "./"):
            return "."
        check_path(path)
        self.refuse_hidden(path)
        return path

    def refuse_hidden(self, path: str) -> None:
        if reason := self.why_not(path):
            raise Refused(reason)

    def settings(self, flags: Mapping[str, object] | None = None) -> Settings:
        from repoagent.config import load
        from repoagent.repo import layout

        return load(layout(self.worktree), cwd=self.worktree.top, flags=flags)


def bench_of(service: Service) -> Bench:
    """Raises UsageError where the folder is in no work tree."""
    from repoagent.edit.verify.scope import gate
    from repoagent.repo import open_worktree

    worktree = open_worktree(service.cwd)
    return Bench(worktree, gate(worktree.top, ()))


def bench(call: Call) -> Bench:
    return bench_of(call.service)


def sent(value: Any) -> Any:
    """JSON data as it may be sent: its texts UTF-8 and without keys and tokens, nothing of it endless."""
    from repoagent.store.masking import mask

    if isinstance(value, str):
        return clipped(mask(sendable(value)), MOST + ROOM)
    if isinstance(value, Mapping):
        return {key: sent(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [sent(item) for item in value[:ITEMS]]
    return value


def sendable(text: str) -> str:
    """The text with U+FFFD for what no UTF-8 can say: a byte of a name that is in another encoding."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def clipped(text: str, most: int = MOST) -> str:
    """The text, or as much of its lines as there is room for, with a line that says so."""
    if len(text) <= most:
        return text
    cut = text.rfind("\n", 0, most) + 1 or most
    return f"{text[:cut]}[… {len(text) - cut:,} more characters are left out …]\n"
