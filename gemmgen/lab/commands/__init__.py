"""The commands of this room; gemmgen.cli finds them by name."""
