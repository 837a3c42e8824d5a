"""Optional: several learners, whose gradients are summed."""
