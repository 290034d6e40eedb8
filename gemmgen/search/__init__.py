"""The search for the fastest kernel: the space, the order of trials, the pick, and the tuner that joins them."""
