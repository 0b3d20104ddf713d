"""The plan of a run: a Markdown checklist that the model and the user edit. Read document.py first."""
