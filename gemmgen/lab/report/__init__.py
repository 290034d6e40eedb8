"""`gemmgen report`: what is on file as one page that needs no network, and the plots that stand elsewhere, too.

scale.py     an axis
ratios.py    ratios to the baseline, a strip of dots for each group of problems
roofline.py  rates over intensity, beneath what a card allows
ladders.py   studies on file
tiles.py     the tiles of a kernel, to scale
measured_on.py  the cards that measured, beside each other
pipeline.py  when its loads and stores are under way
anchor.py    where a kernel is on the page
page.py      collects all of it, and renders it
"""
