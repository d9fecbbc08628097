"""What steps of streams and of maps have in common."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from rushlight.utils.data.datapipes.datapipe import DataChunk
from rushlight.utils.data.sampler import draw_seed


class Shuffling:
    """A random order that can be turned off and has a seed for each pass."""

    def __init__(self) -> None:
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()

    def set_shuffle(self, shuffle: bool = True) -> Any:
        """Turns it on or off."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Any:
        """The seed of the next pass."""
        self._seed = seed
        return self

    def reset(self) -> None:
        """Takes the seed that was set, or draws one."""
        if self._enabled:
            self._rng.seed(draw_seed() if self._seed is None else self._seed)
            self._seed = None


class Batching:
    """Lists of some samples each."""

    def __init__(
        self,
        datapipe: Any,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable[[list[Any]], Any] = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise AssertionError(
                f"Batch size is required to be larger than 0! Got batch_size={batch_size}"
            )
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class
