"""Steps of maps. Each is a class, and a method of every map."""

from rushlight.utils.data.datapipes.map.callable import MapperMapDataPipe as Mapper
from rushlight.utils.data.datapipes.map.combinatorics import ShufflerIterDataPipe as Shuffler
from rushlight.utils.data.datapipes.map.combining import (
    ConcaterMapDataPipe as Concater,
    ZipperMapDataPipe as Zipper,
)
from rushlight.utils.data.datapipes.map.grouping import BatcherMapDataPipe as Batcher
from rushlight.utils.data.datapipes.map.utils import SequenceWrapperMapDataPipe as SequenceWrapper

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]
