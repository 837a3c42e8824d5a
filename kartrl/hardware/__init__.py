"""Cores, memory, devices and streams."""
