"""How files are written and read; ``rushlight.serialization`` is the public part."""
