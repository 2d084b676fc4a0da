import math

import torch
import torch.nn.functional as F

from agc import adaptive_clip_
from base_trainer import Trainer
from nfnet import TinyNF


def stripes(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 6, (n,), generator=g)
    t = torch.linspace(0, 4 * math.pi, 20)
    yy, xx = torch.meshgrid(t, t, indexing="ij")
    ang = y.view(-1, 1, 1) * math.pi / 6
    ph = 6.28 * torch.rand(n, 1, 1, generator=g)
    img = torch.sin(xx * torch.cos(ang) + yy * torch.sin(ang) + ph)
    return (img + 0.3 * torch.randn(n, 20, 20, generator=g)).unsqueeze(1), y


class StripeTrainer(Trainer):
    clip_factor = 0.05

    def __init__(self, *a, **kw):
        super().__init__(*a, **kw)
        self.ema_loss = None
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 40)

    def compute_loss(self, batch):
        x, y = batch
        return F.cross_entropy(self.model(x), y)

    def on_after_backward(self):
        body = [p for n, p in self.model.named_parameters() if not n.startswith("fc")]
        adaptive_clip_(body, self.clip_factor)

    def on_step_end(self, logs):
        self.sched.step()
        self.ema_loss = logs["loss"] if self.ema_loss is None else 0.9 * self.ema_loss + 0.1 * logs["loss"]
        if self.global_step % 5 == 0:
            print(f"{self.global_step:4d}  loss {self.ema_loss:.4f}  lr {self.sched.get_last_lr()[0]:.4f}"
                  f"  scale {logs['scale']:g}")


if __name__ == "__main__":
    torch.manual_seed(0)
    x, y = stripes(2560, 1)
    model = TinyNF(6)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    trainer = StripeTrainer(model, opt, accum=2).fit(zip(x.split(32), y.split(32)))
    xt, yt = stripes(600, 2)
    model.eval()
    with torch.inference_mode():
        acc = (model(xt).argmax(1) == yt).float().mean().item()
    print("steps", trainer.global_step, "test accuracy", round(acc, 3))
