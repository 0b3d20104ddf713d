"""Tools that others make: Python packages through entry points, and programs that describe themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.work.plugins.assemble import plugin_tools
    from repoagent.work.plugins.descriptions import Description, describe
    from repoagent.work.plugins.entry_points import GROUP, Context, PluginTool

__all__ = ["GROUP", "Context", "Description", "PluginTool", "describe", "plugin_tools"]

_HOME = {
    "Context": "entry_points",
    "Description": "descriptions",
    "GROUP": "entry_points",
    "PluginTool": "entry_points",
    "describe": "descriptions",
    "plugin_tools": "assemble",
}

__getattr__ = door(__name__, _HOME)
