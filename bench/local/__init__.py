"""Measure how many of 20 editing tasks a small model solves through the real program.

    python -m bench.local --model local/PATH.gguf --format whole --loop both

A task is a folder of tasks/: `task.toml`, the source tree `before/`, a solution `after.patch`, for most tasks a
mistake `wrong.patch`, and a judge that no model sees.
"""
