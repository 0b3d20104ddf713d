"""Whether there is anything that the `anthropic` package could take for credentials, said without importing it.

The package looks for a key or a token in the environment, then for a profile, an identity of the workload, and last for
a file of its own command in a folder of settings. Only where there is no trace of any of these is the answer certain,
so a variable of its family that is not known here counts as one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Variables of Anthropic's that are set by many and let nobody in.
_NO_CREDENTIALS = frozenset(
    f"ANTHROPIC_{name}"
    for name in (
        *("BASE_URL", "BEDROCK_BASE_URL", "BEDROCK_MANTLE_BASE_URL", "VERTEX_BASE_URL", "CUSTOM_HEADERS"),
        *("LOG", "MODEL", "SMALL_FAST_MODEL", "VERTEX_PROJECT_ID", "BETAS"),
    )
)


def any_sign() -> bool:
    """Whether the package may find credentials. Where this is false, it finds none."""
    for name, value in os.environ.items():
        if value and name.startswith("ANTHROPIC_") and name not in _NO_CREDENTIALS:
            return True
    try:
        folder = _folder()
        return any(os.path.lexists(folder / name) for name in ("active_config", "configs"))
    except RuntimeError:  # nobody knows where home is
        return True


def has_profile() -> bool:
    """Whether the profile that the package would take without being told to is there."""
    try:
        folder = _folder()
        named = (folder / "active_config").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        named = ""
    except (OSError, RuntimeError, UnicodeDecodeError):
        return False
    return (folder / "configs" / f"{named or 'default'}.json").is_file()


def _folder() -> Path:
    """Where its profiles are (ANTHROPIC_CONFIG_DIR moves it, and is a sign itself)."""
    if sys.platform == "win32":
        roaming = os.environ.get("APPDATA")
        return (Path(roaming) if roaming else Path.home() / "AppData" / "Roaming") / "Anthropic"
    return Path.home() / ".config" / "anthropic"
