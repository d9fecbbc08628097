"""Which names of torch a program uses, and which of them rushlight lacks; nothing is run."""

from rushlight._compat.names import Names as Names
from rushlight._compat.names import Report as Report
from rushlight._compat.scan import Scan as Scan
from rushlight._compat.sources import sources as sources
