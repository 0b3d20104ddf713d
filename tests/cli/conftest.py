"""The fixtures of the tests of commands."""

from tests.cli.applying import here

__all__ = ["here"]
