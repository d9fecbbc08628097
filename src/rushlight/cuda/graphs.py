"""Recorded work of CUDA devices: names, which raise when used."""

from rushlight import cuda as _cuda

CUDAGraph = _cuda.CUDAGraph
graph = _cuda.graph
graph_pool_handle = _cuda.graph_pool_handle
is_current_stream_capturing = _cuda.is_current_stream_capturing
make_graphed_callables = _cuda.make_graphed_callables
