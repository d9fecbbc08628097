"""Settings of tools on top of graphs."""

enrich_profiler_metadata = False
meta_nonzero_assume_all_nonzero = False
translation_validation = False
use_duck_shape = True
