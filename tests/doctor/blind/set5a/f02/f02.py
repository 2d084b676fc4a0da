"""Speaker-like embedding training against running class prototypes."""
import math
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(11)

NUM_CLASSES = 12
FEAT = 40
EMB = 32
STEPS = 120
BATCH = 96
AMP = True


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(FEAT, 128), nn.GELU(),
            nn.Linear(128, 128), nn.GELU(),
        )
        self.proj = nn.Linear(128, EMB)

    def forward(self, x):
        return self.proj(self.body(x))


class PrototypeBank(nn.Module):
    """Mean embedding per class over everything seen so far."""

    def __init__(self, num_classes, dim, dtype):
        super().__init__()
        self.register_buffer("sums", torch.zeros(num_classes, dim, dtype=dtype))
        self.register_buffer("sq_sums", torch.zeros(num_classes, dim, dtype=dtype))
        self.register_buffer("counts", torch.zeros(num_classes, dtype=torch.long))

    @torch.no_grad()
    def observe(self, emb, labels):
        emb = emb.to(self.sums.dtype)
        self.sums.index_add_(0, labels, emb)
        self.sq_sums.index_add_(0, labels, emb * emb)
        self.counts += torch.bincount(labels, minlength=len(self.counts))

    def means(self):
        n = self.counts.clamp(min=1).unsqueeze(1)
        return self.sums / n

    def spread(self):
        n = self.counts.clamp(min=1).unsqueeze(1)
        return (self.sq_sums / n).sum(1)


def batches(centers, steps):
    for _ in range(steps):
        y = torch.randint(0, NUM_CLASSES, (BATCH,))
        x = centers[y] + torch.randn(BATCH, FEAT) * 0.7
        yield x, y


def main():
    centers = torch.randn(NUM_CLASSES, FEAT) * 2.0
    enc = Encoder()
    bank = PrototypeBank(NUM_CLASSES, EMB, torch.float16 if AMP else torch.float32)
    opt = torch.optim.Adam(enc.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=AMP)

    for step, (x, y) in enumerate(batches(centers, STEPS)):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16, enabled=AMP):
            z = enc(x) * math.sqrt(EMB)
            bank.observe(z.detach(), y)
            protos = bank.means()
            scale = bank.spread().float().mean().sqrt()
            d = z.unsqueeze(1) - protos.unsqueeze(0)
            dist = (d / scale.to(d.dtype)).pow(2).sum(-1)
            logits = -dist.float()
            loss = F.cross_entropy(logits, y) + 1e-3 * z.float().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 10 == 0 or step == STEPS - 1:
            acc = (logits.argmax(1) == y).float().mean()
            print(f"step {step:3d} loss {loss.item():.4f} acc {acc:.3f}")


main()
