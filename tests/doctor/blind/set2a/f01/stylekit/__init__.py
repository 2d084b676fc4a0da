from .nets import Encoder, StyleGenerator
from .objectives import OBJECTIVES, build_objectives
from .images import texture_batch

__all__ = ["Encoder", "StyleGenerator", "OBJECTIVES", "build_objectives", "texture_batch"]
