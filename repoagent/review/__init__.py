"""Review a change: findings from static checks, from the history of the repository, and from a model.

Read `review` first, then `change` and `finding` for its input and output. `diff/` reads the change, `checks/` runs the
rules that need no model, `llm/` asks one. `rules` is the table of rules. `untrusted_change` keeps a change by someone
else from relaxing its own review; `dismissals` hides findings, `fix` turns one into an edit, `output/` writes reports,
and `hooks/` installs and runs git hooks.
"""
