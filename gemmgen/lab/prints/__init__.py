"""The output and plots of this room's commands."""
