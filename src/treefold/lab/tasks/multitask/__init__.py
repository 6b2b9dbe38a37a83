"""The PNA multi-task benchmark as a task; needs networkx, which other tasks do not."""
