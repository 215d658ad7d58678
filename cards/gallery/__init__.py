"""The review gallery: one offline HTML page on which a person judges rows before anybody trains on them.

``data`` makes it of a build: ``units`` (what could be looked at), ``sample`` (some of each kind), ``found`` (what they
are made of), ``items`` and ``context`` (as the page shows them), ``fitting`` (what there is room for). ``page`` and
``static`` are the page itself.
"""
