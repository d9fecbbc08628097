"""Parts of programs of several processes that are put together."""
