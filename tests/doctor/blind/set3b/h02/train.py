import sys

import torch
import torch.nn.functional as F

from blocks import Decoder

PAD, VOCAB = 0, 12


def batches(seed, size=8, longest=12):
    """Arithmetic sequences modulo a prime, of different lengths."""
    g = torch.Generator().manual_seed(seed)
    while True:
        start = torch.randint(0, 11, (size, 1), generator=g)
        delta = torch.randint(1, 4, (size, 1), generator=g)
        ids = (start + delta * torch.arange(longest + 1)) % 11 + 1
        length = torch.randint(4, longest + 1, (size, 1), generator=g)
        ids[torch.arange(longest + 1) > length] = PAD
        yield ids[:, :-1], ids[:, 1:]


class Accumulator:
    def __init__(self, model, lr, every, limit):
        self.model, self.every, self.limit = model, every, limit
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.LinearLR(self.opt, 0.2, 1.0, 10)
        self.scaler = torch.amp.GradScaler("cpu")
        self.micro = 0

    def __call__(self, ids, target):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.model(ids, ids == PAD)
            loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)
        self.scaler.scale(loss / self.every).backward()
        self.micro += 1
        if self.micro % self.every == 0:
            self.scaler.unscale_(self.opt)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.limit)
            self.scaler.step(self.opt)
            before = self.scaler.get_scale()
            self.scaler.update()
            self.opt.zero_grad(set_to_none=True)
            if self.scaler.get_scale() >= before:
                self.sched.step()
        return loss.item()


def main(micro_steps=100):
    torch.manual_seed(0)
    step = Accumulator(Decoder(VOCAB), lr=1e-2, every=2, limit=1.0)
    best, stream = float("inf"), batches(0)
    for i in range(1, micro_steps + 1):
        best = min(best, step(*next(stream)))
        if i % 20 == 0:
            print(f"{i:4d} best {best:.4f} scale {step.scaler.get_scale():.0f}", file=sys.stderr)


if __name__ == "__main__":
    main()
