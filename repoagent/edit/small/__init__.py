"""What a small model needs: to be shown only the part that it is to write, and to have its answer understood.

`windows` finds the part, `excerpt` shows it; `replies` says what each fence of an answer is for, with `fitting`,
`named`, `reindent` and `imports`; `unasked` and `remarks` put back what nobody asked to change.
"""
