"""What an update is: trajectories, the learner, optimizers, checkpoints."""
