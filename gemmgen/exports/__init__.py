"""Files that gemmgen writes and reads back: kernel files and their records, exported folders, certificates."""
