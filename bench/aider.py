"""The baseline of `bench.edit`: aider making the same edit, without the network."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.repositories import Edit

MODEL = "anthropic/claude-3-5-sonnet-20241022"  # known to aider, which asks it for search/replace blocks
_OPTIONS = (
    "--model", MODEL, "--edit-format", "diff", "--yes-always", "--no-gitignore", "--no-pretty", "--no-fancy-input",
    "--no-check-update", "--no-show-release-notes", "--no-show-model-warnings", "--no-detect-urls",
    "--analytics-disable",
)  # fmt: skip


def find(program: Path | None) -> Path | None:
    """Return the path of `program`, by default aider on PATH. If there is none, print a note and return None."""
    if program is not None and not program.exists():
        raise SystemExit(f"no such program: {program}")
    if path := program or shutil.which("aider"):
        return Path(path).resolve()
    print("not measuring aider: not installed; run `pipx install aider-chat`, or use --aider")
    return None


def command(aider: Path, edit: Edit) -> list[str]:
    return [str(aider), *_OPTIONS, "--message", edit.request, edit.path]


def environment(url: str) -> dict[str, str]:
    key = {"ANTHROPIC_API_BASE": url, "ANTHROPIC_API_KEY": "sk-ant-bench"}
    return key | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def prepare(aider: Path, home: Path) -> None:
    """Copy the model table of aider's installation into its cache under `home`, so that it does not download one."""
    name = "model_prices_and_context_window"
    for table in aider.parent.parent.glob(f"lib/python*/site-packages/litellm/{name}_backup.json"):
        caches = home / ".aider" / "caches"
        caches.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(table, caches / f"{name}.json")
