import copy
import torch


class EMA:
    def __init__(self, model, decay=0.95):
        self.decay = decay
        self.shadow = copy.deepcopy(model).eval()
        for p in self.shadow.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.state_dict().values(), model.state_dict().values()):
            if s.is_floating_point():
                s.lerp_(p, 1 - self.decay)
            else:
                s.copy_(p)
