"""Products in which M or N is small. Templates: templates/skinny/."""
