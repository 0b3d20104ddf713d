"""The fixtures of the tests of commands."""

from tests.cli.applying import here, in_process

__all__ = ["here", "in_process"]
