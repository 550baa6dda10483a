"""The engine, usable as a library. Start reading at tuner/loop.py."""
