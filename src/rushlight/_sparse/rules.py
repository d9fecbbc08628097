"""All rules: importing the files that define them fills the table."""

from rushlight._sparse import arithmetic as arithmetic
from rushlight._sparse import products as products
from rushlight._sparse import reductions as reductions
from rushlight._sparse import shapes as shapes
from rushlight._sparse.table import RULES as RULES
