"""What `auto` chooses, what memory that takes, which settings contradict each other."""
