"""Which kernel is the fastest: the space, the order of trials, the pick, and the tuner that joins them."""
