"""One file per command. Each reads its options, asks the engine or the database, and prints."""
