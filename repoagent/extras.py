"""How to install an optional dependency, in the way that repoagent itself was installed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE = "git-repoagent"
_EXTRAS = re.compile(rf'name = "{PACKAGE}"[^}}]*extras = \[([^\]]*)\]')


def install_extra(extra: str) -> str:
    """The command that adds an extra of repoagent: `pip install 'git-repoagent[local]'`."""
    receipt = Path(sys.prefix, "uv-receipt.toml")
    if receipt.is_file():
        return f"uv tool install {_for_uv(receipt, extra)}"
    return install_package(f"'{PACKAGE}[{extra}]'")


def install_package(requirement: str) -> str:
    """The command that installs `requirement`, quoted for a shell, in the environment of repoagent."""
    receipt = Path(sys.prefix, "uv-receipt.toml")
    if receipt.is_file():
        return f"uv tool install {_for_uv(receipt)} --with {requirement}"
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return f"pipx inject {PACKAGE} {requirement}"
    return f"pip install {requirement}"


def _for_uv(receipt: Path, *more: str) -> str:
    """repoagent with its extras: `uv tool install` drops those that are not named again."""
    installed = _EXTRAS.search(receipt.read_text("utf-8", "replace"))
    extras = sorted({*more, *re.findall(r"[\w-]+", installed[1] if installed else "")})
    return f"'{PACKAGE}[{','.join(extras)}]'" if extras else PACKAGE
