"""Imported to install the alias: a process that multiprocessing's fork server starts from."""

from rushlight._alias import install

install()
