"""Formats of other programs for measured times of configs, written and read.

results.py   the times of one problem's configs, read from gemmgen's own files
cache.py     Kernel Tuner's cache file
sheet.py     CSV, one line per config
importing.py reads either of them into a file of measured times
"""
