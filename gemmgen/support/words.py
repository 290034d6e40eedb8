"""How a count reads, in kernels' headers and in every report."""


def plural(count: float, noun: str) -> str:
    """ "1 step", "1,234 candidates", "0.5 reads"."""
    number = f"{count:,}" if isinstance(count, int) else f"{count:g}"
    return f"{number} {noun}" if count == 1 else f"{number} {noun}s"
