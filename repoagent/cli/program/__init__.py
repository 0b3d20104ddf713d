"""What is there before and after every command: the table of commands, what each starts with, exit codes, signals.

app.py      the commands by name and group, loaded when they are used
command.py  a command with its options in groups, and the options that every command takes; help.py, `repoagent help`
session.py  what a command starts with: its options, the repository, the terminal
words.py    the words of a person, from a file or standard input
settle.py   what a killed run left behind is settled before anything is written
exits.py    whatever happens becomes one sentence and one exit code; report.py, for an error of our own
signals.py  being told to end is as ^C
"""
