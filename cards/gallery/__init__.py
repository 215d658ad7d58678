"""The review gallery: one offline HTML page on which a person judges rows before anybody trains on them."""
