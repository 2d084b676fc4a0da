from .auxiliary import AUXILIARY
from .data import shapes
from .network import Trunk

__all__ = ["AUXILIARY", "Trunk", "shapes"]
