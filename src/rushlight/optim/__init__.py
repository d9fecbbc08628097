"""Optimizers, learning rate schedules and averages of models."""

from rushlight.optim._adafactor import Adafactor as Adafactor
from rushlight.optim._muon import Muon as Muon
from rushlight.optim._stateless import (
    swap_in_optimizer_params_and_state as swap_in_optimizer_params_and_state,
)
from rushlight.optim.adadelta import Adadelta as Adadelta
from rushlight.optim.adagrad import Adagrad as Adagrad
from rushlight.optim.adam import Adam as Adam
from rushlight.optim.adamax import Adamax as Adamax
from rushlight.optim.adamw import AdamW as AdamW
from rushlight.optim.asgd import ASGD as ASGD
from rushlight.optim.lbfgs import LBFGS as LBFGS
from rushlight.optim.nadam import NAdam as NAdam
from rushlight.optim.optimizer import Optimizer as Optimizer
from rushlight.optim.radam import RAdam as RAdam
from rushlight.optim.rmsprop import RMSprop as RMSprop
from rushlight.optim.rprop import Rprop as Rprop
from rushlight.optim.sgd import SGD as SGD
from rushlight.optim.sparse_adam import SparseAdam as SparseAdam

TYPE_CHECKING = False  # type checkers read it as True; these are loaded when first used
if TYPE_CHECKING:
    from rushlight.optim import lr_scheduler as lr_scheduler
    from rushlight.optim import swa_utils as swa_utils


def __getattr__(name: str) -> object:
    if name in ("lr_scheduler", "swa_utils"):
        import importlib

        return importlib.import_module(f"rushlight.optim.{name}")
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.optim", name)
