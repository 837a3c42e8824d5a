"""Races of policies, recorded drives and the scripted driver against each other, as ghosts."""
