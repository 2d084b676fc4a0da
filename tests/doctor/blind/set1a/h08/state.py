import os
import tempfile

import torch


class Ema:
    def __init__(self, model, decay=0.97):
        self.decay = decay
        self.avg = {k: torch.empty_like(v) for k, v in model.state_dict().items()}
        self.started = False

    @torch.no_grad()
    def update(self, model):
        for k, v in model.state_dict().items():
            if self.started:
                self.avg[k].lerp_(v, 1 - self.decay)
            else:
                self.avg[k].copy_(v)
        self.started = True


class Checkpointer:
    def __init__(self, name="dual.pt"):
        self.path = os.path.join(tempfile.mkdtemp(prefix="dual_"), name)

    def save(self, **objs):
        torch.save({k: o if isinstance(o, (int, float, dict)) else o.state_dict() for k, o in objs.items()}, self.path)

    def load(self, **objs):
        blob = torch.load(self.path, weights_only=True)
        for k, o in objs.items():
            o.load_state_dict(blob[k])
        return blob
