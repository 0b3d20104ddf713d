"""Run between us and a command: a supervisor, and confinement by the kernel. Read main.py first.

A separate Python (`python -I -S launcher.py`) starts for each command. To start in a few milliseconds, these modules
import only the standard library and, by relative names, each other.
"""
