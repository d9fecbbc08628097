"""Data pipes: datasets that are put together of steps, each of which takes the one before it.

>>> from rushlight.utils.data.datapipes.iter import IterableWrapper
>>> list(IterableWrapper(range(5)).map(lambda x: x * x).batch(2))
[[0, 1], [4, 9], [16]]
"""

from rushlight.utils.data.datapipes import iter as iter, map as map
