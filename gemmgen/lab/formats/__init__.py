"""Measured times of configs in the formats of the field, out and in; and the space of a family.

results.py   the times of one problem's configs, and which of gemmgen's own files hold some
t4.py        T4: the results of auto-tuning as JSON
cache.py     Kernel Tuner's cache file
sheet.py     CSV, a line a config
t1.py        T1: a family's space as JSON
importing.py any of them, back into a file of measured times
"""
