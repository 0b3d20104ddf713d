"""The prompt for some files of an edit, composed of what was gathered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from repoagent.agent import Tool, protocol_text
from repoagent.agent.native import schemas
from repoagent.config import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.briefing import context
from repoagent.edit.briefing.forms import LOOSE, WHOLE_LINES, Asked, Form, fence_grammar, reminder
from repoagent.edit.briefing.masking import masked_prompt
from repoagent.edit.briefing.tools import Workbench
from repoagent.edit.context_files import Found, context_parts
from repoagent.edit.large.blocks import Around, long_files
from repoagent.edit.large.recent import Touched
from repoagent.edit.request import EditRequest
from repoagent.edit.small.excerpt import excerpt, whole_text
from repoagent.edit.small.windows import Window, find_models
from repoagent.edit.verify.scope import WhyNot
from repoagent.llm import estimate_tokens
from repoagent.memory import Memory
from repoagent.repo import Facts, Source, WorkTree


@dataclass(frozen=True)
class Gathered:
    """What is known before it is decided how a model is asked."""

    worktree: WorkTree
    settings: Settings
    request: EditRequest
    why_not: WhyNot
    sources: dict[str, Source]
    editable: set[str]
    facts: Facts
    memories: dict[str, Memory]
    history: str
    neighbors: str
    remembered: str
    earlier: str = ""
    uses: str = ""
    recent: Mapping[str, tuple[Touched, ...]] = field(
        default_factory=dict
    )  # lines, of files that may be too long
    asked: Asked = field(default_factory=Asked)
    context_files: Found = field(default_factory=Found)


def prompt_for(
    gathered: Gathered,
    bench: Workbench,
    tools: Sequence[Tool],
    paths: Sequence[str],
    marks: Mapping[str, str],
    *,
    note: str = "",
    plain: bool = False,
) -> context.Prompt:
    """The prompt for `paths`, all of the request's or one of them; `note` comes after the request. `plain` is another
    wording, for who gave the same bad answer twice."""
    request, sources, form, short = gathered.request, gathered.sources, bench.form, bench.short
    native = gathered.asked.native and not short
    windows = {path: bench.windows[path] for path in paths if path in bench.windows}
    others = {path for path in request.paths if path not in paths}
    last = reminder(form, paths, windows, marks, plain=plain) if short else ""
    alone = form in LOOSE and len(windows.get(paths[0], ())) < 2
    protocol = context.prompt_text("plain") if plain else _protocol(tools, form, short=short, native=native)
    repository = () if short else context_parts(gathered.context_files)
    facts = "" if short else context.repository_line(gathered.facts)
    subjects = "" if short else context.subjects_block(gathered.facts)
    rules = "" if short else context.rules_block(request, gathered.editable)
    history = "" if short else gathered.history
    neighbors = "" if short else gathered.neighbors
    excerpts = _excerpts(request, sources, paths, windows) if form in LOOSE else {}
    beside = (
        facts,
        history,
        neighbors,
        gathered.remembered,
        subjects,
        gathered.earlier,
        gathered.uses,
        rules,
        request.instruction,
        note,
        last,
    )
    texts = (protocol, *beside, *excerpts.values(), *(part.text for part in repository))
    shown = [source for source in sources.values() if source.path not in others]
    long = long_files(
        [source for source in shown if source.path in {*paths, *request.read} - {*excerpts}],
        request,
        Around(
            gathered.settings.whole("edit.inline_limit"),
            gathered.asked.window,
            gathered.asked.output_tokens,
            sum(map(estimate_tokens, texts)),
            short,
            gathered.recent,
        ),
    )
    for path, block in long.items():
        bench.seen[path] = [*bench.seen.get(path, ()), *block.lines]
    prompt = context.build(
        protocol=protocol,
        repository=repository,
        facts=facts,
        history=history,
        neighbors=neighbors,
        memory=gathered.remembered,
        sources=sorted(shown, key=lambda source: source.path in long),
        subjects=subjects,
        rules=rules,
        request=request,
        reminder=last,
        afresh=short,
        excerpts={**excerpts, **{path: block.text for path, block in long.items()}},
        about_files=context.prompt_text("large") + "\n" if long and not short else "",
        grammar=fence_grammar("" if plain else paths[0], marks[paths[0]]) if alone else "",
        note=note,
        earlier=gathered.earlier,
        uses=gathered.uses,
    )
    return masked_prompt(replace(prompt, tools=schemas(tools) if native else ()))


def _excerpts(
    request: EditRequest,
    sources: Mapping[str, Source],
    paths: Sequence[str],
    windows: Mapping[str, Sequence[Window]],
) -> dict[str, str]:
    found = {}
    for path in paths:
        source = sources[path]
        if path not in windows:
            found[path] = whole_text(source)
            continue
        models = find_models(path, source.data or b"", request.instruction, WHOLE_LINES)
        found[path] = excerpt(source, windows[path], models)
    return found


def _protocol(tools: Sequence[Tool], form: Form, *, short: bool, native: bool) -> str:
    if not short:
        return context.prompt_text("edit") + "\n" + protocol_text(tools, native=native)
    return (
        context.prompt_text(form)
        if form in LOOSE
        else context.prompt_text("short") + "\n" + context.prompt_text(form)
    )
