import argparse

import torch
import torch.nn.functional as F

from modeling import IntentClassifier


def intents(n, k, gen, vocab=200, length=20):
    """Each intent has ten words of its own, a third of a sentence comes from these."""
    y = torch.randint(0, k, (n,), generator=gen)
    ids = torch.randint(0, vocab, (n, length), generator=gen)
    own = y[:, None] * 10 + torch.randint(0, 10, (n, length), generator=gen)
    take = torch.rand(n, length, generator=gen) < 0.35
    return torch.where(take, own, ids), y


class Ema:
    def __init__(self, params, decay):
        self.params, self.decay = list(params), decay
        self.avg = [p.detach().clone() for p in self.params]

    @torch.no_grad()
    def step(self):
        torch._foreach_lerp_(self.avg, self.params, 1 - self.decay)


class FineTuner:
    def __init__(self, args):
        self.args = args
        self.model = IntentClassifier().freeze_encoder()
        self.configure_optimizers()
        self.setup_data()

    def configure_optimizers(self):
        params = [p for p in self.model.parameters() if p.requires_grad]
        self.opt = torch.optim.AdamW(params, lr=self.args.lr)
        self.sched = torch.optim.lr_scheduler.OneCycleLR(
            self.opt, self.args.lr, total_steps=self.args.epochs * self.args.steps)
        print(f"training {sum(p.numel() for p in params)} parameters")

    def setup_data(self):
        gen = torch.Generator().manual_seed(0)
        self.x, self.y = intents(1200, 8, gen)
        n_labels = int(self.y.max()) + 1
        if n_labels != self.model.classifier.out_features:
            self.model.set_num_labels(n_labels)

    def fit(self):
        a = self.args
        ema = Ema((p for p in self.model.parameters() if p.requires_grad), 0.95)
        for epoch in range(a.epochs):
            total = right = 0.0
            for _ in range(a.steps):
                idx = torch.randint(0, len(self.x), (a.batch_size,))
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    logits = self.model(self.x[idx])
                    loss = F.cross_entropy(logits, self.y[idx])
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                self.sched.step()
                ema.step()
                total += loss.item()
                right += (logits.argmax(-1) == self.y[idx]).float().mean().item()
            print(f"epoch {epoch} loss {total / a.steps:.4f} acc {right / a.steps:.3f} lr {self.sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=2e-2)
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--batch-size", type=int, default=64)
    torch.manual_seed(9)
    torch.set_num_threads(1)
    FineTuner(ap.parse_args()).fit()
