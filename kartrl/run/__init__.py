"""One run: its folder, server, logger and evaluator."""
