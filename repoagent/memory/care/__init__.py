"""What a person does to a memory: notes it, corrects it, takes parts of it away and brings them back.

note.py   a note of a person
edit.py   a text that somebody changed in an editor, checked and joined with what came meanwhile
clear.py  parts put away in the archive, and brought back from there
"""
