"""The commits behind an answer, as a person reads them: one `git log` for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.repo.run import git

_FORMAT = "%H%x00%h%x00%aN%x00%cI%x00%s"
_FIELDS = 5


@dataclass(frozen=True)
class Told:
    """One commit. `date` is the committer's, ISO 8601; `author` is the name that `.mailmap` gives."""

    commit: str
    short: str
    author: str
    date: str
    subject: str


def tell(top: Path, ids: Iterable[str]) -> dict[str, Told]:
    """The commits with these full ids; those that are not here (pruned, say) are left out.

    Text that is no UTF-8 has replacement characters. Raises GitError.
    """
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        return {}
    data = git(
        top, "log", "--no-walk=unsorted", "--ignore-missing", "--stdin", "-z", "--encoding=UTF-8", "--no-color",
        f"--format={_FORMAT}", stdin="".join(f"{commit}\n" for commit in wanted).encode(),
    )  # fmt: skip
    tokens = [token.decode("utf-8", "replace") for token in data.split(b"\0")[:-1]]
    found = (Told(*tokens[place : place + _FIELDS]) for place in range(0, len(tokens), _FIELDS))
    return {told.commit: told for told in found}
