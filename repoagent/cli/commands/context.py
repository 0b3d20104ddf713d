"""`repoagent context`: the prompt that an edit would send, as a table of its blocks, as text or as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from repoagent.cli.session import (
    Session,
    json_option,
    open_repository,
    pass_session,
    select_fields,
    write_json,
)
from repoagent.cli.ui.table import Cell, Column, Page
from repoagent.display_text import sanitize
from repoagent.errors import ModelError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.request import EditRequest
    from repoagent.git.worktree import WorkTree
    from repoagent.llm.model import Part, Request, ToolSchema

EPILOG = """\b
Examples:
  repoagent context src/app.py
  repoagent context src/app.py "return a default" --full
  repoagent context src/app.py --json | jq '.blocks[] | [.tokens, .name]'
"""


@click.command(epilog=EPILOG)
@click.argument("arguments", nargs=-1, metavar="FILE... [INSTRUCTION]")
@click.option("--model", metavar="SPEC", help="Show the prompt for this model.")
@click.option("--read", multiple=True, metavar="FILE", help="Show FILE to the model, read-only. Repeatable.")
@click.option("--create", is_flag=True, help="Allow FILEs that do not exist yet.")
@click.option(
    "--conversation", type=click.Choice(["continue", "fresh"]), default="continue", metavar="HOW",
    help="Use earlier exchanges about the files (continue, the default) or not (fresh).",
)  # fmt: skip
@click.option("--full", is_flag=True, help="Print the text of each block.")
@json_option
@pass_session
def command(session: Session, /, **values: Any) -> None:
    """Show the prompt that an edit of FILEs would send: its blocks, their tokens, and what is cached.

    context needs neither a model nor a key, and sends nothing. An INSTRUCTION selects the relevant parts of long files.
    """
    from repoagent.edit.request import EditRequest, parse_target, split_arguments

    options = SimpleNamespace(**values)
    repo = open_repository(session, {"model": options.model})
    files, text = split_arguments(
        options.arguments, instruction_elsewhere=False, cwd=repo.cwd, create=options.create
    )
    if not files:
        raise UsageError('no file: use repoagent context FILE ["INSTRUCTION"]')
    named = [parse_target(file, repo.cwd) for file in files]
    request = EditRequest(
        instruction=(text or "").strip(),
        targets=tuple(replace(target, path=repo.relative(target.path)) for target in named),
        read=tuple(map(repo.relative, options.read)),
        create=options.create,
        scope=repo.settings.text("edit.scope"),
        fresh=options.conversation == "fresh",
        dry_run=True,
    )
    with repo.terminal.working("reading the repository"):
        prompt = prompt_of(repo.worktree, request, repo.settings)
    if options.as_json or options.full:
        show_texts(prompt, repo.terminal, as_json=options.as_json)
    else:
        _show_table(prompt, repo.terminal)


_SOURCES = {
    **dict.fromkeys(("protocol", "tools", "question", "long files", "rules"), "repoagent"),
    **dict.fromkeys(("facts", "subjects"), "git"),
    **dict.fromkeys(("history", "neighbors"), "git log"),
    "uses": "git grep",
    **dict.fromkeys(("memory", "earlier"), ".repoagent/memory"),
    **dict.fromkeys(("request", "system"), "you"),
}


class PromptBlock(NamedTuple):
    """A part of the prompt. `cached`: whether it is before the last cache breakpoint."""

    role: str
    part: Part
    tokens: int
    cached: bool

    @property
    def source(self) -> str:
        """The origin of the text, in a word or two."""
        name = self.part.name
        return "your file" if name.startswith("context /") else _SOURCES.get(name, "work tree")


class ShownPrompt(NamedTuple):
    """The prompt that the first call would send to `model`. `blocks` are in order; `window` is the model's context
    window in tokens, None if unknown."""

    model: str
    window: int | None
    blocks: tuple[PromptBlock, ...]
    warnings: tuple[str, ...] = ()
    asks_first: bool = False

    @property
    def tokens(self) -> int:
        return sum(block.tokens for block in self.blocks)

    @property
    def masked(self) -> int:
        """The number of distinct masked keys and tokens; each line of a private key counts separately."""
        from repoagent.storage.secrets import placeholders, unmask

        names = {name for block in self.blocks for name in placeholders(block.part.text)}
        return sum(unmask(name) != name for name in names)


def blocks_of(request: Request) -> tuple[PromptBlock, ...]:
    """The blocks of a request; images and PDFs become lines that describe them."""
    messages = ((message.role, part) for message in request.messages for part in message.parts)
    return blocks_from([*(("system", part) for part in request.system), *messages], request.tools)


def blocks_from(
    parts: Iterable[tuple[str, Part]], tools: Sequence[ToolSchema] = ()
) -> tuple[PromptBlock, ...]:
    """The blocks of one call, from its tools and (role, part) pairs."""
    from repoagent.llm.model import Part, tools_text
    from repoagent.llm.usage import estimate_tokens

    parts = [*([("tools", Part(tools_text(tools), "tools"))] if tools else []), *parts]
    last = max((number for number, (_, part) in enumerate(parts) if part.cache), default=-1)
    blocks = []
    for number, (role, part) in enumerate(parts):
        tokens = estimate_tokens(part.text) + (part.media.tokens if part.media else 0)
        blocks.append(
            PromptBlock(role, replace(part, text=part.in_words, media=None), tokens, number <= last)
        )
    return tuple(blocks)


def prompt_of(worktree: WorkTree, request: EditRequest, settings: Settings) -> ShownPrompt:
    """The prompt of the first call for `request`, with estimated tokens. Raises what preparing the edit raises."""
    from repoagent.edit.model_setup import answer_format, wants_tools
    from repoagent.edit.prompt.build import prepare_prompt
    from repoagent.llm.model import Part, display_name
    from repoagent.llm.open_model import open_model

    spec = spec_of(settings)
    native = wants_tools(settings, spec) and "tools" in open_model(settings, spec=spec).takes
    form = replace(answer_format(settings, spec), native=native)
    prepared = prepare_prompt(worktree, request, settings, form)
    if prepared.question:
        blocks = blocks_from([("user", Part(prepared.question, "question"))])
    else:
        parts = [("system", part) for prompt in prepared.prompts[:1] for part in prompt.system]
        parts += [("user", part) for prompt in prepared.prompts for part in prompt.opening]
        blocks = blocks_from(parts, prepared.prompts[0].tools)
    warnings = prepared.context.warnings
    return ShownPrompt(display_name(spec), form.window, blocks, warnings, bool(prepared.question))


def show_request(request: Request, settings: Settings, terminal: Terminal, *, as_json: bool) -> None:
    """Show the prompt of a request other than an edit. Nothing is sent, so no key is needed."""
    from repoagent.edit.model_setup import answer_format
    from repoagent.llm.model import display_name

    spec = spec_of(settings)
    prompt = ShownPrompt(display_name(spec), answer_format(settings, spec).window, blocks_of(request))
    show_texts(prompt, terminal, as_json=as_json)


def show_texts(prompt: ShownPrompt, terminal: Terminal, *, as_json: bool) -> None:
    """Write the exact text of the blocks to standard output, and a list of them to standard error."""
    for warning in prompt.warnings:
        terminal.warn(warning)
    if as_json:
        blocks = [
            {
                **select_fields(block, "role", "source", "tokens", "cached"),
                **select_fields(block.part, "name", "cache"),
                "text": block.part.text,
            }
            for block in prompt.blocks
        ]
        head = select_fields(prompt, "model", "window", "tokens", "masked", "warnings")
        write_json(terminal, {**head, "blocks": blocks})
        return
    for block in prompt.blocks:
        terminal.result(block.part.text)
    terminal.note("")
    for block in prompt.blocks:
        breakpoint_ = "  cache breakpoint" if block.part.cache else ""
        terminal.note(f"{block.tokens:>8,}  {block.role:<6}  {block.part.name}{breakpoint_}")
    terminal.note(f"{prompt.tokens:>8,}  total tokens (estimated)")


_COLUMNS = (
    Column("block", cut="middle", least=24),
    Column("tokens", right=True),
    Column("cache"),
    Column("from", dropped=1),
)


def _show_table(prompt: ShownPrompt, terminal: Terminal) -> None:
    """Write the blocks as a table: tokens, cache breakpoint and sources."""
    for warning in prompt.warnings:
        terminal.warn(warning)
    page = Page.of(terminal)
    label = "cache breakpoint"
    ruler = f"── {label} {'─' * max(2, min(page.width or 60, 60) - len(label) - 4)}"
    rows: list[tuple[Cell, ...]] = []
    below = {}
    for number, block in enumerate(prompt.blocks):
        cached = "cached" if block.cached else ""
        rows.append(((sanitize(block.part.name),), (f"{block.tokens:,}",), (cached,), (block.source,)))
        if block.part.cache:
            below[number] = [page.paint(ruler, "dim")]
    rows.append((("total", "bold"), (f"{prompt.tokens:,}", "bold"), ("",), ("",)))
    page.write(page.table(_COLUMNS, rows, below), terminal)
    if prompt.asks_first:
        terminal.note("The model is small, so it first selects the relevant part of the file.", "dim")
    part = prompt.tokens / prompt.window if prompt.window else 0.0
    share = f"{part:.0%}" if part >= 0.01 else "less than 1%"
    share = f", {share} of its context window" if prompt.window else ""
    terminal.note(f"estimated for {prompt.model}{share}", "dim")
    if masked := prompt.masked:
        secrets = "1 key or token" if masked == 1 else f"{masked} keys and tokens"
        terminal.note(f"{secrets} masked in the prompt, and restored in the model's diff", "dim")


def spec_of(settings: Settings) -> str:
    """The model whose prompt is shown; no key is needed."""
    from repoagent.config.options import DEFAULT_MODEL
    from repoagent.llm.open_model import choose_model

    try:
        return choose_model(settings).spec
    except ModelError:
        return DEFAULT_MODEL
