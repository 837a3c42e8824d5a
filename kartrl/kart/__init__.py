"""The kart race: the game, its circuits, and everything built on them."""

KART = "kartrl/Kart-v0"  # its `environment.id`
