"""The update: learner, optimizers, schedules, divergence guard, checkpoints."""
