"""Settings of graphs."""

disable_progress = True
verbose_progress = False
