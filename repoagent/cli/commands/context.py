"""`repoagent context`: the prompt that an edit would send, as a table of its blocks, as text or as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.session import Session, json_option, pass_session
from repoagent.dataclass import dataclass
from repoagent.errors import Exit, ModelError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.request import EditRequest
    from repoagent.git.worktree import WorkTree
    from repoagent.llm.model import Part, Request, Schema

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
@click.option("--create", is_flag=True, help="Create files that do not exist.")
@click.option(
    "--conversation", type=click.Choice(["continue", "fresh"]), default="continue", metavar="HOW",
    help="Use earlier exchanges about the files (continue, the default) or not (fresh).",
)  # fmt: skip
@click.option("--full", is_flag=True, help="Print the text of each block.")
@click.option("--count", is_flag=True, help="Send the prompt to the provider to count its tokens.")
@json_option
@pass_session
def command(session: Session, /, arguments: tuple[str, ...], **options: Any) -> Exit:
    """Show the prompt that an edit of FILEs would send: its blocks, their tokens, what is cached.

    It needs no model and no key, and sends nothing except with --count. An INSTRUCTION selects the relevant parts of
    long files.
    """
    from dataclasses import replace

    from repoagent.edit.request import EditRequest, parse_target, split_arguments
    from repoagent.git.worktree import layout, open_worktree, relative

    cwd = Path.cwd()
    if not arguments:
        raise UsageError('no file: use repoagent context FILE ["INSTRUCTION"]')
    worktree = open_worktree(cwd)
    settings, terminal = session.open(layout(worktree), {"model": options["model"]})
    files, text = split_arguments(arguments, instruction_elsewhere=False, cwd=cwd, create=options["create"])
    if not files:
        raise UsageError('no file: use repoagent context FILE ["INSTRUCTION"]')
    named = [parse_target(file, cwd) for file in files]
    request = EditRequest(
        instruction=(text or "").strip(),
        targets=tuple(replace(target, path=relative(worktree, target.path, cwd)) for target in named),
        read=tuple(relative(worktree, path, cwd) for path in options["read"]),
        create=options["create"],
        scope=settings.text("edit.scope"),
        fresh=options["conversation"] == "fresh",
        dry_run=True,
    )
    with terminal.working("reading the repository"):
        found = prompt_of(worktree, request, settings, count=options["count"])
    if options["as_json"] or options["full"]:
        show_texts(found, terminal, as_json=options["as_json"], count=options["count"])
    else:
        show_table(found, terminal, count=options["count"])
    return Exit.DONE


VERSION = 1
BAR, LEAST_NAME = 12, 24  # columns
_SOURCES = {
    "protocol": "repoagent",
    "tools": "repoagent",
    "question": "repoagent",
    "long files": "repoagent",
    "rules": "repoagent",
    "facts": "git",
    "subjects": "git",
    "history": "git log",
    "neighbors": "git log",
    "uses": "git grep",
    "memory": ".repoagent/memory",
    "earlier": ".repoagent/memory",
    "request": "you",
    "system": "you",
}


@dataclass(frozen=True)
class Block:
    """A block: its role, its text, and whether it is before the last cache breakpoint."""

    role: str
    part: Part
    tokens: int
    cached: bool

    @property
    def source(self) -> str:
        """Where the text comes from, in a word or two."""
        name = self.part.name
        if name.startswith("context /"):
            return "your file"
        return _SOURCES.get(name, "work tree")

    def as_object(self) -> dict[str, object]:
        return {
            "role": self.role,
            "name": self.part.name,
            "source": self.source,
            "tokens": self.tokens,
            "cache": self.part.cache,
            "cached": self.cached,
            "text": self.part.text,
        }


@dataclass(frozen=True)
class ShownPrompt:
    """The blocks that the first call would send to `model`, in order. `counted`: tokens as counted by the provider."""

    model: str
    window: int | None
    blocks: tuple[Block, ...]
    warnings: tuple[str, ...] = ()
    asks_first: bool = False
    counted: int | None = None

    @property
    def tokens(self) -> int:
        return sum(block.tokens for block in self.blocks)

    @property
    def masked(self) -> int:
        """The number of distinct masked keys and tokens; each line of a private key counts."""
        from repoagent.storage.secrets import placeholders, unmask

        return len(
            {name for block in self.blocks for name in placeholders(block.part.text) if unmask(name) != name}
        )

    def as_object(self) -> dict[str, Any]:
        """The data of `--json`."""
        return {
            "version": VERSION,
            "model": self.model,
            "window": self.window,
            "tokens": self.tokens,
            "counted": self.counted,
            "masked": self.masked,
            "warnings": list(self.warnings),
            "blocks": [block.as_object() for block in self.blocks],
        }


def blocks_of(request: Request) -> tuple[Block, ...]:
    """The blocks of a request; images and PDFs as lines that describe them."""
    from dataclasses import replace

    from repoagent.llm.model import Part, tools_text
    from repoagent.llm.usage import estimate_tokens

    pairs: list[tuple[str, Part]] = [("system", part) for part in request.system]
    if request.tools:
        pairs.insert(0, ("tools", Part(tools_text(request.tools), "tools")))
    pairs += [(message.role, part) for message in request.messages for part in message.parts]
    last = max((place for place, (_, part) in enumerate(pairs) if part.cache), default=-1)
    blocks = []
    for place, (role, part) in enumerate(pairs):
        tokens = estimate_tokens(part.text) + (part.media.tokens if part.media else 0)
        blocks.append(Block(role, replace(part, text=part.in_words, media=None), tokens, place <= last))
    return tuple(blocks)


def prompt_of(worktree: WorkTree, request: EditRequest, settings: Settings, *, count: bool) -> ShownPrompt:
    """What the first call for `request` would send, with estimated tokens; `count` asks the provider for the total.

    Raises what preparing the edit raises.
    """
    from dataclasses import replace

    from repoagent.edit.model_setup import answer_format, wants_tools
    from repoagent.edit.prompt.gather import prepare
    from repoagent.llm.model import Part, display_name, tools_text
    from repoagent.llm.registry import open_model
    from repoagent.llm.usage import estimate_tokens

    spec = spec_of(settings)
    native = wants_tools(settings, spec) and "tools" in open_model(settings, spec=spec).takes
    asked = replace(answer_format(settings, spec), native=native)
    prepared = prepare(worktree, request, settings, asked)
    if prepared.question:
        pairs = [("user", Part(prepared.question, "question"))]
    else:
        pairs = [("system", part) for prompt in prepared.prompts[:1] for part in prompt.system]
        pairs += [("user", part) for prompt in prepared.prompts for part in prompt.opening]
        if tools := tools_text(prepared.prompts[0].tools):
            pairs.insert(0, ("tools", Part(tools, "tools")))
    last = max((place for place, (_, part) in enumerate(pairs) if part.cache), default=-1)
    blocks = [
        Block(role, part, estimate_tokens(part.text), place <= last)
        for place, (role, part) in enumerate(pairs)
    ]
    counted = _by_provider(settings, blocks, prepared.prompts[0].tools) if count else None
    warnings = prepared.context.context_files.warnings
    return ShownPrompt(
        display_name(spec), asked.window, tuple(blocks), warnings, bool(prepared.question), counted
    )


def show_texts(found: ShownPrompt, terminal: Terminal, *, as_json: bool, count: bool) -> None:
    """Write the exact texts to standard output, and a list of the blocks to standard error."""
    _warn(found, terminal)
    if as_json:
        terminal.result(json.dumps(found.as_object(), indent=2) + "\n")
        return
    for block in found.blocks:
        terminal.result(block.part.text)
    terminal.note("")
    for block in found.blocks:
        breakpoint_ = "  cache breakpoint" if block.part.cache else ""
        terminal.note(f"{block.tokens:>8,}  {block.role:<6}  {block.part.name}{breakpoint_}")
    terminal.note(f"{found.tokens:>8,}  total tokens, estimated")
    if count:
        terminal.note(_counted(found))


def show_table(found: ShownPrompt, terminal: Terminal, *, count: bool) -> None:
    """Write the blocks as a table: tokens, what a provider can cache, and the sources."""
    from repoagent.cli.ui.sanitize import clean, paint
    from repoagent.cli.ui.table import bar, columns, shorten
    from repoagent.cli.ui.terminal import has_utf8

    _warn(found, terminal)
    plain = not has_utf8(os.environ)
    width = terminal.width if terminal.shows else 100
    most = max(1, *(block.tokens for block in found.blocks))
    figures = max(6, len(f"{found.tokens:,}"))
    sources = max(4, *(len(block.source) for block in found.blocks))
    names = [clean(block.part.name) for block in found.blocks]
    longest = max(5, *map(columns, names)) if names else 5
    room = width - figures - len("  cached") - 2
    with_bar = room - BAR - 2 >= LEAST_NAME
    room -= BAR + 2 if with_bar else 0
    with_source = room - sources - 2 >= LEAST_NAME
    room -= sources + 2 if with_source else 0
    room = max(8, min(room, longest)) if terminal.shows else longest

    def line(name: str, tokens: str, drawn: str, cached: str, source: str) -> str:
        cells = [name + " " * (room - columns(name)), tokens.rjust(figures)]
        cells += [drawn] if with_bar else []
        cells += [cached.ljust(6)]
        return "  ".join([*cells, source] if with_source else cells).rstrip()

    def write(text: str, *styles: str) -> None:
        terminal.styled((paint(text, *styles) if terminal.color else text) + "\n")

    write(line("block", "tokens", " " * BAR, "cache", "from"), "bold")
    for name, block in zip(names, found.blocks, strict=True):
        drawn = bar(block.tokens / most, BAR, ascii_only=plain)
        short = shorten(name, room, "." if plain else "…")
        write(line(short, f"{block.tokens:,}", drawn, "cached" if block.cached else "", block.source))
        if block.part.cache:
            label = "cache breakpoint"
            mark = "-" if plain else "─"
            write(f"{mark * 2} {label} {mark * max(2, min(width, 60) - len(label) - 4)}", "dim")
    share = f", {_share(found.tokens / found.window)} of its context window" if found.window else ""
    write(line("total", f"{found.tokens:,}", " " * BAR, "", ""), "bold")
    if found.asks_first:
        terminal.note("This small model first chooses the part of the file that matters.", "dim")
    terminal.note(f"estimated for {found.model}{share}", "dim")
    if masked := found.masked:
        what = "1 key or token" if masked == 1 else f"{masked} keys and tokens"
        terminal.note(f"{what} masked here, and restored in the diff of the model", "dim")
    if count:
        terminal.note(_counted(found).strip(), "dim")


def _share(part: float) -> str:
    return f"{part:.0%}" if part >= 0.01 else "less than 1%"


def _warn(found: ShownPrompt, terminal: Terminal) -> None:
    for warning in found.warnings:
        terminal.warn(warning)


def _counted(found: ShownPrompt) -> str:
    if not found.counted:
        return "the provider of this model does not count tokens"
    return f"{found.counted:>8,}  as counted by the provider"


def _by_provider(settings: Settings, blocks: list[Block], tools: tuple[Schema, ...]) -> int | None:
    from repoagent.llm.model import Message, Request
    from repoagent.llm.registry import count_tokens, open_model

    system = tuple(block.part for block in blocks if block.role == "system")
    message = Message("user", tuple(block.part for block in blocks if block.role == "user"))
    return count_tokens(open_model(settings), Request(system, (message,), tools=tools))


def spec_of(settings: Settings) -> str:
    """The model whose prompt is shown; it needs no key, since nothing is sent."""
    from repoagent.config.options import DEFAULT_MODEL
    from repoagent.llm.registry import choose_model

    try:
        return choose_model(settings).spec
    except ModelError:
        return DEFAULT_MODEL
