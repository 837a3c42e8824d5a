"""Nodes of agents: Ray actors on any machine, each with its own agents, predictors and slab."""
