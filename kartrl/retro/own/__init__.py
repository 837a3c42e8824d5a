"""Games of the user's own: begun from a ROM, and checked for what stable-retro accepts in silence."""
