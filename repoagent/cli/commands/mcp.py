"""`repoagent mcp`: a Model Context Protocol server for other assistants."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from repoagent.cli.options import number_option
from repoagent.cli.session import Session, pass_session
from repoagent.errors import UsageError, install_extra

EXAMPLES = """\b
Examples:
  claude mcp add repoagent -- repoagent mcp
  codex mcp add repoagent -- repoagent mcp
  repoagent -C ~/src/project mcp --write

A client starts `repoagent mcp` in a repository, and speaks the Model Context
Protocol with it over standard input and output. To set up a client, see
`repoagent help docs/mcp.md`. Tools: files, uses, neighbors, history, outline,
read, recall, review, apply. Without --write, `apply` only checks whether and
where a patch fits."""


@click.command(epilog=EXAMPLES)
@click.option("--write", is_flag=True, help="Let `apply` change files and commit.")
@click.option("--model", metavar="SPEC", help="Let `review` ask this model, which costs money.")
@number_option(
    "--max-cost",
    type=click.FloatRange(min=0),
    metavar="USD",
    help="Spend at most this many dollars on a review.",
)
@pass_session
def command(session: Session, /, *, write: bool, model: str | None, max_cost: float | None) -> None:
    """Serve this repository's history, outlines, related files and more to another assistant.

    The server runs until its client closes it. It changes files only with --write.
    """
    if max_cost is not None and model is None:
        raise UsageError("--max-cost needs --model")
    # mcp_types exists from the required version of mcp on
    if find_spec("mcp") is None or find_spec("mcp_types") is None:
        raise UsageError(f"`repoagent mcp` needs the mcp package: {install_extra('mcp')}")
    terminal = session.terminal()
    if terminal.input_tty:
        terminal.note(
            "waiting for a client on standard input; stop with ^C, or see `repoagent help docs/mcp.md`"
        )
    from repoagent.cli import die_of_signal
    from repoagent.mcp.server import serve
    from repoagent.mcp.tool import Service

    serve(Service(Path.cwd(), write, model, max_cost), die_of_signal)
