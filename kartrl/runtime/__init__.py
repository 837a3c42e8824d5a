"""Scheduling: the server's processes and threads, and the shared memory between them."""
