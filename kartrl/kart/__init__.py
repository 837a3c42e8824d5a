"""The kart race: the game, its circuits, and what is made of them."""

KART = "kartrl/Kart-v0"  # its `environment.id`
