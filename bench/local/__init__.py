"""What a small model can do: 20 editing tasks, done by the real program with a real model, and judged.

    python -m bench.local --model local/PATH.gguf --format whole --loop both

A task is a folder of tasks/: `task.toml`, the source tree `before/`, a solution `after/` (sometimes a mistake,
`wrong/`), and a judge that no model sees.
"""
