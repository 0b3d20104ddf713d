"""Review a change: findings from static checks, from the repository's history, and from a model.

Read `review` first, then `change` and `finding` for its input and output. `read_diff` and `stdin_diff` read the change,
`checks/` runs the rules that need no model, `llm/` asks a model. `untrusted_change` keeps a change by someone else from
relaxing its own review; `dismissals` hides findings, `fix` turns one into an edit, `report_formats` and
`report_markdown` write reports, `hooks` installs git hooks and reads what they review.
"""
