"""Plans become text: the templates' values, names, and kernels that are rendered again."""
