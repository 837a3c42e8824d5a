"""The subcommands of kartrl, one module each."""
