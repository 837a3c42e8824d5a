"""Agents step environments, predictors run the network for them; both through the slab."""
