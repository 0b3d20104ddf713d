"""What repoagent remembers about a file: notes, edits, conversations, summaries.

Read identity/record.py first (what a memory is), then identity/resolve.py (which memory belongs to a file). notes.py,
edit_records.py and conversations.py hold what a memory contains; conversation_changes.py records and undoes changes of
conversations, compaction.py archives old exchanges. prompt.py selects what goes into a prompt. lookup.py and listing.py
serve the `memory` commands, editing.py edits and clears. file_summaries.py asks models for summaries,
file_summary_store.py keeps them. search/ finds passages; archive/ exports, imports and collects garbage; both indexes
are opened by database.py.
"""
