"""Where a symbol is used, as plain values. Withheld files are left out for every caller: answers end in prompts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repoagent.repo import WorkTree
    from repoagent.uses import Answer


def uses_of(
    worktree: WorkTree, what: str, *, limit: int = 20, path_of: Callable[[str], str] = lambda text: text
) -> Answer:
    """The uses of `what`: a name, `Class.method`, `FILE:NAME`, or a FILE, for all that it defines. Raises as
    `uses.answer` does."""
    from repoagent.edit.verify.scope import gate
    from repoagent.uses import answer

    return answer(worktree, what, gate(worktree.top, ()), limit=limit, path_of=path_of)
