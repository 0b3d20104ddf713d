"""The fixtures of the tests of what an edit shows: a repository, and a scripted model."""

from tests.edit.conftest import run, script

__all__ = ["run", "script"]
