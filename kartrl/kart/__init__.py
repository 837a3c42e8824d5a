"""The kart race: the game, its circuits, and what is made of them."""
