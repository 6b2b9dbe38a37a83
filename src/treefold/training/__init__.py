"""Training: the loop, the world it runs in, scores, checkpoints."""
