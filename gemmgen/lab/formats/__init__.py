"""Formats of other tuners for measured times of configs, written and read; and the space of a family.

results.py   the times of one problem's configs, read from gemmgen's own files
t4.py        T4: the results of auto-tuning as JSON
cache.py     Kernel Tuner's cache file
sheet.py     CSV, one line per config
t1.py        T1: a family's space as JSON
importing.py reads any of them into a file of measured times
"""
