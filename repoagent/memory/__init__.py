"""What repoagent remembers about a file: notes, edits, conversations, summaries.

Read identity/record.py first (the data), then identity/resolve.py (which memory belongs to a file). notes.py,
edit_records.py and conversations.py read and write the contents; conversation_log.py records and undoes changes to
conversations, compaction.py archives old exchanges. prompt.py selects the text for a prompt. lookup.py and listing.py
serve the `memory` commands, editing.py edits, clears and restores texts. file_summaries.py lets models write summaries,
file_summary_store.py stores them. search/ finds passages; archive.py exports and imports, gc.py archives memories
without a file and removes old conversations.
"""
