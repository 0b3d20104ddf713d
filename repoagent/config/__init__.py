"""The layers of configuration, later wins, and where each value came from.

Defaults; `$XDG_CONFIG_HOME/repoagent/config.toml`; `.repoagent/config.toml`; `git config repoagent.*`;
`REPOAGENT_*`; flags. The options themselves stand in one table, `options.OPTIONS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.config.layers import load
    from repoagent.config.options import OPTIONS, Option, find, find_or_refuse
    from repoagent.config.settings import Setting, Settings
    from repoagent.config.sources import user_file
    from repoagent.config.write import set_value, unset_value

__all__ = [
    "OPTIONS",
    "Option",
    "Setting",
    "Settings",
    "find",
    "find_or_refuse",
    "load",
    "set_value",
    "unset_value",
    "user_file",
]

_HOMES = {
    "OPTIONS": "options",
    "Option": "options",
    "Setting": "settings",
    "Settings": "settings",
    "find": "options",
    "find_or_refuse": "options",
    "load": "layers",
    "set_value": "write",
    "unset_value": "write",
    "user_file": "sources",
}

__getattr__ = door(__name__, _HOMES)
