"""Trainers turn finished unrolls into updates."""
