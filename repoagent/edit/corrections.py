"""What a small model is asked after its edit has failed a check, or when it says the same again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from repoagent.agent import fence
from repoagent.edit.briefing.assemble import Prepared
from repoagent.edit.briefing.compose import prompt_for
from repoagent.edit.briefing.context import Prompt, warmth
from repoagent.edit.briefing.forms import LOOSE, UNCHANGED
from repoagent.edit.landing.check_output import start_of
from repoagent.edit.landing.commit import output_of
from repoagent.edit.small.excerpt import fence_mark, shown_text
from repoagent.edit.small.windows import Window, rows_now
from repoagent.llm import Turn
from repoagent.patch import decode
from repoagent.repo import Source


def next_prompts(prepared: Prepared, turns: Sequence[Turn]) -> tuple[tuple[Prompt, ...], bool, float | None]:
    """What is asked next; whether without what was said before; and at what temperature."""
    last = turns[-1]
    if prepared.form not in LOOSE:
        return prepared.prompts, False, None
    said = [turn.text for turn in turns if turn.role == "assistant"]
    same = said.count(said[-1]) if said else 0
    if same > 1 or last.text.startswith(UNCHANGED):
        return reworded(prepared), True, None if same < 3 else warmth(turns)
    if last.meta.get("kind") == "check" and prepared.bench.draft.edits:
        output = fence(start_of(output_of(last.text)), "output")
        return corrections(prepared, output), True, warmth(turns)
    return prepared.prompts, False, None


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
