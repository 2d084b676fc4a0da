import torch
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Loop:
    def __init__(self, model, lr, accumulate, max_norm, ema_decay):
        self.model = model
        self.averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(ema_decay))
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95))
        self.scaler = torch.amp.GradScaler("cpu")
        self.accumulate, self.max_norm = accumulate, max_norm
        self.bad = 0

    def loss(self, net, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = net(x)
        return F.cross_entropy(logits.float().flatten(0, 1), y.flatten())

    def update(self, micro):
        self.model.train()
        total = 0.0
        self.opt.zero_grad(set_to_none=True)
        for x, y in micro:
            loss = self.loss(self.model, x, y) / self.accumulate
            if not torch.isfinite(loss):
                self.bad += 1
                continue
            self.scaler.scale(loss).backward()
            total += loss.item()
        self.scaler.unscale_(self.opt)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.scaler.step(self.opt)
        self.scaler.update()
        self.averaged.update_parameters(self.model)
        return total

    @torch.no_grad()
    def evaluate(self, x, y):
        self.averaged.eval()
        return self.loss(self.averaged, x, y).item()

    def state_dict(self):
        return {k: getattr(self, k).state_dict() for k in ("model", "averaged", "opt", "scaler")}

    def load_state_dict(self, state):
        for k, v in state.items():
            getattr(self, k).load_state_dict(v)
