"""What the commands of this room print and plot."""
