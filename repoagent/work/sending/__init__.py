"""What a run sends: a beginning that stays the same, the conversation as it grows, a checkpoint when it is long."""
