"""Evaluations of checkpoints while a run trains: a process that drives them, what it writes, when it is asked."""
