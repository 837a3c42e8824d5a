"""A window and its loop, for any environment."""
