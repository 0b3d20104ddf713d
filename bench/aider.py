"""aider doing the same edit, as the baseline; nothing in it needs the network."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.repositories import Edit

MODEL = "anthropic/claude-3-5-sonnet-20241022"  # one that aider knows and asks for search/replace blocks
_OPTIONS = (
    "--model", MODEL, "--edit-format", "diff", "--yes-always", "--no-gitignore", "--no-pretty", "--no-fancy-input",
    "--no-check-update", "--no-show-release-notes", "--no-show-model-warnings", "--no-detect-urls",
    "--analytics-disable",
)  # fmt: skip


def find(given: Path | None) -> Path | None:
    """The program `aider`: the one `given`, else that on PATH; None, with the reason printed, if there is none."""
    if given is not None and not given.exists():
        raise SystemExit(f"no such program: {given}")
    if found := given or shutil.which("aider"):
        return Path(found).resolve()
    print("leaving aider out: not installed; use `pipx install aider-chat`, or --aider")
    return None


def command(aider: Path, edit: Edit) -> list[str]:
    return [str(aider), *_OPTIONS, "--message", edit.request, edit.path]


def environment(url: str) -> dict[str, str]:
    key = {"ANTHROPIC_API_BASE": url, "ANTHROPIC_API_KEY": "sk-ant-bench"}
    return key | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def prepare(aider: Path, home: Path) -> None:
    """Give it the table of models that it would fetch each day, from its own installation."""
    name = "model_prices_and_context_window"
    for table in aider.parent.parent.glob(f"lib/python*/site-packages/litellm/{name}_backup.json"):
        caches = home / ".aider" / "caches"
        caches.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(table, caches / f"{name}.json")
