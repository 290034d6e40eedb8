"""The project's measurements of itself: suite, gallery, report, studies, other tuners. Nothing in the product imports
it."""
