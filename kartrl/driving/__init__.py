"""Runs a policy on levels."""
