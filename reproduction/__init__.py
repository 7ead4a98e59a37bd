"""The four papers' evaluations, run again on this library: ``python -m reproduction``.

A module or two for each paper makes experiments (:mod:`.study`) of its tables and figures. They are listed in
:mod:`.experiments`; :mod:`.runner` computes and stores them, :mod:`.results` writes what was found. They only
use what the library offers everybody, and so are also examples of how to do research with it.
"""
