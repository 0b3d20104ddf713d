"""`repoagent models`: the configured models and whether they can be reached; `models test` calls one."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.session import Session, find_layout, json_option, pass_session, write_json
from repoagent.cli.ui.output_style import Page
from repoagent.cli.ui.terminal_text import clean, display_width
from repoagent.errors import Exit
from repoagent.llm.model import display_name

if TYPE_CHECKING:
    from repoagent.llm.availability import StatusRow

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Show the configured models, the origin of their keys, and whether they can be reached.

    This costs nothing: it asks providers for their lists of models only.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(show, as_json=as_json)


@click.command()
@json_option
@pass_session
def show(session: Session, as_json: bool) -> None:
    """Print the models and providers."""
    from repoagent.llm.availability import configured_models, provider_rows
    from repoagent.llm.catalog import data_date, families

    settings, terminal = session.open(find_layout())
    with terminal.working("asking the providers"):
        rows, others = configured_models(settings), provider_rows(settings)
    if as_json:
        content = {
            "models": [_model_object(row) for row in rows],
            "providers": [_provider_object(row) for row in others],
            "families": families(),
            "prices_as_of": data_date(),
        }
        write_json(terminal, content)
        return
    page = Page.of(terminal)
    name_width = max(display_width(row.name) for row in [*rows, *others])
    terminal.styled("".join(_model_lines(row, name_width, page) for row in rows))
    ready = [row for row in others if row.status.tried and not row.status.problem]
    broken = [row for row in others if row.status.key and row.status.problem]
    if ready or broken:
        terminal.styled(f"\n{page.paint('providers', 'bold')}\n")
        terminal.styled("".join(_provider_line(row, name_width, page) for row in [*ready, *broken]))
    terminal.styled(f"\n{page.paint('short names, for the newest model of each family', 'bold')}\n")
    terminal.styled(_filled([f"{name}: {spec}" for name, spec in families().items()], 2, page))
    rest = ", ".join(row.name for row in others if row not in ready and row not in broken)
    terminal.note(f"\nwithout a key or a running server: {rest}", "dim")
    terminal.note(
        f"prices as of {data_date()}, in US dollars per million tokens; your bill may differ", "dim"
    )


@command.command("test", short_help="Test a model with a minimal call.")
@click.argument("name", required=False)
@json_option
@pass_session
def test(session: Session, name: str | None, as_json: bool) -> Exit:
    """Test the model NAME (a spec or an alias; by default the one for edits) with a minimal call."""
    from repoagent.edit.model_setup import model_setup
    from repoagent.llm.availability import smallest_request
    from repoagent.llm.usage import estimate

    settings, terminal = session.open(find_layout(), {"model": name} if name else None)
    started = time.monotonic()
    with terminal.working("asking the model") as working:
        ready = model_setup(settings, say=terminal.warn)
        request = smallest_request(ready.model.spec)
        ready.meter.before_attempt(estimate(request), ready.model.spec)
        first: list[float] = []

        def hear(piece: str) -> None:
            if not first:
                first.append(time.monotonic() - started)

        reply = ready.model.complete(request, hear)
        ready.meter.add(reply.usage, ready.model.spec)
        working.quiet()
    seconds = time.monotonic() - started
    usage, cost = ready.meter.usage, ready.meter.cost
    if as_json:
        content = {
            "model": display_name(ready.model.spec),
            "served_by": display_name(reply.model),
            "reply": reply.text,
            "usage": {
                "input": usage.total - usage.output,
                "output": usage.output,
                "estimated": usage.estimated,
            },
            "cost": cost,
            "first_token_seconds": round(first[0], 3) if first else None,
            "seconds": round(seconds, 3),
        }
        write_json(terminal, content)
        return Exit.DONE
    about = "about " if usage.estimated else ""
    price = "price unknown" if cost is None else f"${cost:.6f}"
    served = (
        f" (served by {clean(display_name(reply.model))})"
        if reply.model not in ("", ready.model.spec)
        else ""
    )
    terminal.result(
        f"{display_name(ready.model.spec)} answers{served}: {' '.join(reply.text.split())[:60]}\n"
        f"{seconds:.1f} s · {about}{usage.total - usage.output} + {usage.output} tokens · {price}\n"
    )
    return Exit.DONE


def _model_lines(row: StatusRow, width: int, page: Page) -> str:
    """Two lines: the model behind the name, and its state."""
    pad = " " * (width + 2)
    name = row.name + " " * (width - display_width(row.name) + 2)
    head = page.paint(name, "bold")
    if not row.spec:
        return f"{head}{_state(row, page)}\n"
    origin = f"  ({_short(row.origin)})" if row.origin else ""
    first = f"{head}{clean(display_name(row.spec))}{page.paint(clean(origin), 'dim')}\n"
    runs = f"{pad}runs: {clean(row.status.runs)}\n" if row.status.runs else ""
    return first + _filled([_state(row, page), *_facts(row)], len(pad), page) + runs


def _state(row: StatusRow, page: Page) -> str:
    how = row.status
    text, style = ("ok", "green") if not how.problem else (clean(how.problem), "red")
    if not how.problem and not how.tried:
        text, style = "not tested", "dim"
    return page.paint(text, style)


def _filled(pieces: list[str], indent: int, page: Page) -> str:
    """Pieces with a dot between them, on as many lines as they need, each indented."""
    lines = [""]
    for piece in pieces:
        joined = f"{lines[-1]} · {piece}" if lines[-1] else piece
        if page.width and lines[-1] and indent + display_width(_ESCAPE.sub("", joined)) > page.width:
            lines.append(piece)
        else:
            lines[-1] = joined
    return "".join(f"{' ' * indent}{line}\n" for line in lines)


def _facts(row: StatusRow) -> list[str]:
    """The window, the price, the edit format, where the key is from."""
    facts = []
    if row.context:
        facts.append(f"{row.context:,} tokens")
    price = row.known.price
    source = row.known.sources.get("price", "")
    if price is None:
        facts.append("price unknown")
    elif source != "free":
        facts.append(
            f"${price.input:g} in, ${price.output:g} out" + (" (yours)" if source == "configured" else "")
        )
    facts.append(f"edit format: {row.known.format}")
    if row.status.key:
        facts.append(f"key: {row.status.key}")
    return facts


def _provider_line(row: StatusRow, width: int, page: Page) -> str:
    pieces = [_state(row, page), *([f"key: {row.status.key}"] if row.status.key else [])]
    return row.name + _filled(pieces, width + 2, page)[len(row.name) :]


def _short(origin: str) -> str:
    home = f"file:{Path.home()}/"
    return f"~/{origin.removeprefix(home)}" if origin.startswith(home) else origin


def _model_object(row: StatusRow) -> dict[str, object]:
    price = row.known.price
    return {
        "name": row.name,
        "model": display_name(row.spec) or None,
        "origin": row.origin or None,
        "key": row.status.key or None,
        "reachable": _reachable(row),
        "problem": row.status.problem or None,
        "runs": row.status.runs or None,
        "context": row.context,
        "max_output": row.known.max_output,
        "format": row.known.format if row.spec else None,
        "price": None
        if price is None or not row.spec
        else {
            "input": price.input,
            "output": price.output,
            "cache_read": price.cache_read,
            "cache_write": price.cache_write,
            "source": row.known.sources.get("price"),
        },
    }


def _provider_object(row: StatusRow) -> dict[str, object]:
    return {
        "name": row.name,
        "key": row.status.key or None,
        "reachable": _reachable(row),
        "problem": row.status.problem or None,
    }


def _reachable(row: StatusRow) -> bool | None:
    """None if not tested."""
    if row.status.problem:
        return False
    return True if row.status.tried else None
