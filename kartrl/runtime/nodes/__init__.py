"""Nodes of agents: actors of Ray on any machine, each with agents, predictors and a slab of its own."""
