"""One file per package whose calls become effects of a run: its name as ``PACKAGE``, and ``install``.

``install()`` patches the package's own seam, once the package is imported, and returns what undoes it. A patched seam
calls the original for code that is no run's own. Nothing here imports its package before that.
"""
