"""A kernel as something that another product vendors. One module an export form; so far one form, a folder."""

from gemmgen.export.folder import export

__all__ = ["export"]
