"""The subcommands of kartrl, a module each."""
