"""D1, Vectorize, Workers AI and the Worker's requests. JavaScript values stay inside `convert`."""
