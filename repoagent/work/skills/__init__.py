"""Skills: folders with a SKILL.md, named in the prompt in a line each and read when a model asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.work.skills.find import Skill, find_skills, skill_places
    from repoagent.work.skills.prompt import skills_block
    from repoagent.work.skills.tool import skill_tool

__all__ = ["Skill", "find_skills", "skill_places", "skill_tool", "skills_block"]

_HOME = {
    "Skill": "find",
    "find_skills": "find",
    "skill_places": "find",
    "skill_tool": "tool",
    "skills_block": "prompt",
}

__getattr__ = door(__name__, _HOME)
