"""Process groups, under the module's name that libraries import them from."""

from rushlight import distributed as _distributed
from rushlight.distributed._groups import _get_default_store as _get_default_store

globals().update(
    {name: value for name, value in vars(_distributed).items() if not name.startswith("__")}
)
