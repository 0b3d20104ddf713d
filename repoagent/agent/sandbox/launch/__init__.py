"""What runs between us and a command: the supervisor, and the confinement by the kernel's own means.

These modules run in a Python that is started for each command (`python -I -S launcher.py`). They import nothing but the
standard library and each other, by relative names, so that it starts in a few milliseconds.
"""
