"""Floor 2: servers of models, and one request to them: addresses, keys, clients, back-off, and what is answered."""
