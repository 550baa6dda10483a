"""How people and programs reach the engine: the command line (and later the REST API)."""
