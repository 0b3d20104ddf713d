"""The process between repoagent and a command: it confines and supervises the command. Read main.py first.

Each command has such a process of its own (`python -I -S`, see `confine`). To start in a few milliseconds, these
modules import only the standard library and, by relative names, each other.
"""
