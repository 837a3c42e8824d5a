"""Tuning: an Optuna study whose trials are trainings side by side, its storage, its objective and its report."""
