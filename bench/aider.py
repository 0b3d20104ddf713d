"""aider doing the same edit, as the baseline: from an environment of its own, with nothing that needs the network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bench.repositories import CACHE, Edit

MODEL = "anthropic/claude-3-5-sonnet-20241022"  # one that aider knows and asks for search/replace blocks
_OPTIONS = (
    "--model", MODEL, "--edit-format", "diff", "--yes-always", "--no-gitignore", "--no-pretty", "--no-fancy-input",
    "--no-check-update", "--no-show-release-notes", "--no-show-model-warnings", "--no-detect-urls",
    "--analytics-disable",
)  # fmt: skip
_PYTHONS = ("python3.12", "python3.11", "python3.10")  # aider-chat does not install on newer ones


def find(given: Path | None) -> Path | None:
    """The program `aider`: the one `given`, else that of bench/.cache/aider, which is made when it is missing.

    None, with the reason printed, where it can't be had.
    """
    aider = given or CACHE / "aider" / "bin" / "aider"
    if aider.exists():
        return aider
    if given is not None:
        raise SystemExit(f"no such program: {given}")
    found = filter(None, map(shutil.which, _PYTHONS))
    python = sys.executable if sys.version_info < (3, 13) else next(found, None)
    if python is None:
        print("leaving aider out: no Python 3.10 to 3.12 on PATH")
        return None
    print("installing aider-chat in bench/.cache/aider (once)", flush=True)
    pip = [
        aider.with_name("python"),
        *["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "aider-chat"],
    ]
    for command in ((python, "-m", "venv", CACHE / "aider"), pip):
        if subprocess.run(command, check=False).returncode:
            shutil.rmtree(CACHE / "aider", ignore_errors=True)
            print("leaving aider out: pip could not install it")
            return None
    return aider


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
