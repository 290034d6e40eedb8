"""How the project measures itself: suite, gallery, report, studies, other tuners. Nothing of the product imports it."""
