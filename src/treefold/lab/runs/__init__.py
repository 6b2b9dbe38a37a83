"""Training: the loop, the world it runs in, scores, law violations, and state to go on from."""
