"""Neural networks: parameters and the functional forms of layers and losses."""

from rushlight.nn import functional as functional
from rushlight.nn import parameter as parameter
from rushlight.nn.parameter import Parameter as Parameter
