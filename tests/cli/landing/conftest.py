"""Fixtures for the output of an edit: a repository and a scripted model."""

from tests.edit.conftest import run, script

__all__ = ["run", "script"]
