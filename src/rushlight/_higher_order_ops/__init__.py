"""Ops of functions: loops, branches and scans."""

from rushlight._higher_order_ops.associative_scan import associative_scan as associative_scan
from rushlight._symbolic import cond as cond
from rushlight._symbolic import while_loop as while_loop
