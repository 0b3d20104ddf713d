"""The memory of a change that no model has made, such as a patch: what was said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from repoagent.edit.dialogue import Dialogue
from repoagent.edit.landing.bench import Bench
from repoagent.edit.landing.commit import Landed
from repoagent.edit.remembering.pending import pending, to_remember
from repoagent.edit.remembering.remember import Story, remember
from repoagent.edit.request import Target, named_files
from repoagent.errors import RepoagentError
from repoagent.llm import Turn, Usage
from repoagent.memory import resolve
from repoagent.repo import layout
from repoagent.repo.run import uninterrupted
from repoagent.store import ensure
from repoagent.store.document import now


@contextmanager
def remembering(
    bench: Bench, edit_id: str, words: str, dialogue: Dialogue, *, kind: str
) -> Iterator[Callable[[Landed], None]]:
    """A function that has the memory of each file hear of what landed; `words` is what was said of it, `kind` what it
    is ("apply", "join").

    It is written down before anything lands, so that a kill does not lose it. What landed is done: no ^C and no memory
    that can't be written makes it look undone.
    """
    worktree, place = bench.worktree, layout(bench.worktree)
    before = dict(bench.draft.sources)
    files = [Target(change.name) for change in bench.draft.edits]
    meta = {"edit": edit_id, "time": now(), "kind": kind, **named_files(files)}
    story = Story(
        edit_id=edit_id, request=words, turns=(Turn("user", words, meta),), notes=(), ended="applied", answer="",
        landed=None, model="", usage=Usage(), cost=None,
    )  # fmt: skip
    found = {
        path: resolve(place, worktree, path, source.data)
        for path, source in before.items()
        if source.data is not None
    }
    memories = {path: memory for path, memory in found.items() if memory is not None}
    with pending(worktree, edit_id, "edit") as later:
        later.keep(memories, to_remember(story, bench.draft.edits, bench.placements))

        def tell(landed: Landed) -> None:
            with uninterrupted():
                try:
                    ensure(place)
                    remember(worktree, replace(story, landed=landed), before, memories, ())
                except (RepoagentError, OSError) as error:
                    dialogue.say(
                        f"warning: this change could not be remembered ({error}); the next command tries again"
                    )
                    return
                later.drop()

        yield tell
