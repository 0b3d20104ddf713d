"""What is kept of an edit, in the memory of its files and beside the repository, whenever it is broken off."""
