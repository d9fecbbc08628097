"""How long collectives wait for the other processes."""

from rushlight.distributed._groups import default_pg_timeout as default_pg_timeout

__all__ = ["default_pg_timeout"]
