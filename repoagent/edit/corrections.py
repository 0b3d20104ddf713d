"""What a small model is asked after its edit has failed a check, or when it says the same again."""

from __future__ import annotations

from dataclasses import replace

from repoagent.edit.assemble import Prepared, prompt_for
from repoagent.edit.context import Prompt
from repoagent.edit.small.excerpt import fence_mark, shown_text
from repoagent.edit.small.windows import Window, rows_now
from repoagent.patch import decode
from repoagent.repo import Source


def corrections(prepared: Prepared, output: str) -> tuple[Prompt, ...]:
    """The prompts after a check has failed with `output`: to correct the first try, which stands in place of the file.

    Of several files only those are asked for that the output names, if it names any. Told in a conversation what is
    wrong with its answer, Qwen2.5-Coder-1.5B gives the same answer again; shown it as a file that is not right yet,
    it corrects what it understands.
    """
    bench, gathered = prepared.bench, prepared.gathered
    texts = bench.draft.texts()
    tried = {
        path: replace(source, data=texts[path].data)
        for path, source in gathered.sources.items()
        if path in texts
    }
    windows = {
        path: tuple(_moved(window, gathered.sources[path], tried[path]) for window in parts)
        for path, parts in bench.windows.items()
        if path in tried
    }
    paths = [path for path in gathered.request.paths if path in tried]
    named = [path for path in paths if path.rpartition("/")[2] in output]
    now = replace(gathered, sources={**gathered.sources, **tried})
    changed = replace(bench, windows=windows)
    marks = {path: fence_mark(shown_text(tried[path], windows.get(path, ()))) for path in paths}
    note = f"\nIt was tried already, as it stands above, and is not right yet. The check says:\n{output}\nCorrect it.\n"
    return tuple(
        prompt_for(now, changed, prepared.tools, [path], marks, note=note) for path in named or paths
    )


def reworded(prepared: Prepared) -> tuple[Prompt, ...]:
    """The first prompts in other words: at the same ones a small model stays with its answer, warm or not."""
    bench, gathered = prepared.bench, prepared.gathered
    paths = gathered.request.paths
    marks = {
        path: fence_mark(shown_text(gathered.sources[path], bench.windows.get(path, ()))) for path in paths
    }
    return tuple(prompt_for(gathered, bench, prepared.tools, [path], marks, plain=True) for path in paths)


def _moved(window: Window, before: Source, now: Source) -> Window:
    """The window where it is in the text that was made of the file."""
    old, new = decode(before.data or b""), decode(now.data or b"")
    if old is None or new is None:
        return window
    first, last = rows_now(window, old.lines, new.lines)
    return replace(window, first=first + 1, last=max(last, first + 1))
