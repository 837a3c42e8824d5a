"""Starting, watching and ending processes; pipes and shared memory between them. Knows nothing of learning."""
