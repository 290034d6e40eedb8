"""`gemmgen report`: all kernels on file as one page that needs no network, and the plots that other pages use, too.

scale.py     an axis
ratios.py    ratios to the baseline, one strip of dots per group of problems
roofline.py  rates over intensity, below the card's limits
ladders.py   studies on file
tiles.py     the tiles of a kernel, to scale
measured_on.py  a comparison of the cards that measured
anchor.py    the anchor of a kernel on the page
page.py      collects all parts, and renders the page
"""
