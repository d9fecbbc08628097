"""Steps as functions of lists of tensors."""

from rushlight.optim.adadelta import adadelta as adadelta
from rushlight.optim.adagrad import adagrad as adagrad
from rushlight.optim.adam import adam as adam
from rushlight.optim.adamax import adamax as adamax
from rushlight.optim.adamw import adamw as adamw
from rushlight.optim.asgd import asgd as asgd
from rushlight.optim.nadam import nadam as nadam
from rushlight.optim.radam import radam as radam
from rushlight.optim.rmsprop import rmsprop as rmsprop
from rushlight.optim.rprop import rprop as rprop
from rushlight.optim.sgd import sgd as sgd
