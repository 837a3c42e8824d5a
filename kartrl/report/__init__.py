"""A page about runs to send to somebody: one HTML file that needs nothing else."""
