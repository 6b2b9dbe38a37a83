"""Speed as ratios: to the floor, to the peer, and how cost grows."""
