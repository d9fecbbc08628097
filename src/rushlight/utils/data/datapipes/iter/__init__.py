"""Steps of streams. Each is a class, and a method of every stream."""

from rushlight.utils.data.datapipes.iter.callable import (
    CollatorIterDataPipe as Collator,
    MapperIterDataPipe as Mapper,
)
from rushlight.utils.data.datapipes.iter.combinatorics import (
    SamplerIterDataPipe as Sampler,
    ShufflerIterDataPipe as Shuffler,
)
from rushlight.utils.data.datapipes.iter.combining import (
    ConcaterIterDataPipe as Concater,
    MultiplexerIterDataPipe as Multiplexer,
    ZipperIterDataPipe as Zipper,
)
from rushlight.utils.data.datapipes.iter.files import (
    FileListerIterDataPipe as FileLister,
    FileOpenerIterDataPipe as FileOpener,
    StreamReaderIterDataPipe as StreamReader,
)
from rushlight.utils.data.datapipes.iter.grouping import (
    BatcherIterDataPipe as Batcher,
    GrouperIterDataPipe as Grouper,
    UnBatcherIterDataPipe as UnBatcher,
)
from rushlight.utils.data.datapipes.iter.selecting import FilterIterDataPipe as Filter
from rushlight.utils.data.datapipes.iter.sharding import (
    ShardingFilterIterDataPipe as ShardingFilter,
)
from rushlight.utils.data.datapipes.iter.splitting import (
    DemultiplexerIterDataPipe as Demultiplexer,
    ForkerIterDataPipe as Forker,
)
from rushlight.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe as IterableWrapper

__all__ = [
    "Batcher", "Collator", "Concater", "Demultiplexer", "FileLister", "FileOpener", "Filter",
    "Forker", "Grouper", "IterableWrapper", "Mapper", "Multiplexer", "Sampler", "ShardingFilter",
    "Shuffler", "StreamReader", "UnBatcher", "Zipper",
]  # fmt: skip
