"""What a run is given to work with: which tools there are, what each may touch, and in what commands are confined."""
