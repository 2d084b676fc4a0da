import contextlib

import torch
import torch.nn.functional as F


class Trainer:
    def __init__(self, model, opt, precision="16-mixed", clip=1.0):
        self.model, self.opt, self.clip = model, opt, clip
        self.stack = contextlib.ExitStack()
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12, enabled=precision == "16-mixed")
        self.dtype = {"16-mixed": torch.float16, "bf16-mixed": torch.bfloat16}.get(precision)
        if self.dtype is not None:
            self.stack.enter_context(torch.autocast("cpu", dtype=self.dtype))
        self.history = []

    def training_step(self, x):
        rec, mu, logvar = self.model(x)
        rec_loss = F.binary_cross_entropy_with_logits(rec, x, reduction="none").flatten(1).sum(1).mean()
        kl = -0.5 * (1 + logvar - mu.float().square() - logvar.float().exp()).sum(1).mean()
        return rec_loss + 0.2 * kl, rec_loss, kl

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            self.model.train()
            tot, n = [0.0, 0.0, 0.0], 0
            for (x,) in loader:
                parts = self.training_step(x)
                self.opt.zero_grad(set_to_none=True)
                self.scaler.scale(parts[0]).backward()
                self.scaler.unscale_(self.opt)
                norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
                self.scaler.step(self.opt)
                self.scaler.update()
                tot = [a + b.item() for a, b in zip(tot, parts)]
                n += 1
            self.history.append(tot[0] / n)
            print(f"[{epoch}] elbo loss {tot[0] / n:.3f} rec {tot[1] / n:.3f} kl {tot[2] / n:.3f} |g| {norm:.2f}")

    def teardown(self):
        self.stack.close()
