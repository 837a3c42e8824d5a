"""Any game that stable-retro knows: its start states are levels, its integration gives actions, reward and end."""
