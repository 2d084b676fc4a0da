"""LoRA adaptation of a sentence classifier to a shifted domain."""
import torch
import torch.nn.functional as F
from torch import nn

from lora import inject

CONFIG = {
    "vocab": 120, "dim": 32, "classes": 3, "length": 12, "batch": 32,
    "pretrain": {"steps": 80, "lr": 5e-3},
    "adapt": {"steps": 60, "lr": 1e-2, "targets": ("up", "down", "head"), "rank": 4},
}


class Mixer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Classifier(nn.Module):
    def __init__(self, vocab, dim, classes):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.blocks = nn.Sequential(Mixer(dim), Mixer(dim))
        self.head = nn.Linear(dim, classes)

    def forward(self, ids):
        return self.head(self.blocks(self.emb(ids)).mean(1))


class Corpus:
    def __init__(self, cfg, shift, seed):
        self.cfg, self.shift = cfg, shift
        self.g = torch.Generator().manual_seed(seed)

    def __call__(self):
        c = self.cfg
        y = torch.randint(c["classes"], (c["batch"],), generator=self.g)
        topic = y[:, None] * 40 + torch.randint(40, (c["batch"], c["length"]), generator=self.g)
        noise = torch.randint(c["vocab"], topic.shape, generator=self.g)
        ids = torch.where(torch.rand(topic.shape, generator=self.g) < 0.5, topic, noise)
        return (ids + self.shift) % c["vocab"], y


def loop(model, opt, batches, steps, tag):
    scaler = torch.amp.GradScaler("cpu")
    for step in range(steps):
        ids, y = batches()
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(ids)
            loss = F.cross_entropy(logits, y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 20 == 0 or step == steps - 1:
            acc = (logits.argmax(-1) == y).float().mean()
            print(f"{tag} {step:3d} loss {loss.item():.4f} acc {acc:.2f}")


def main(cfg):
    torch.manual_seed(0)
    model = Classifier(cfg["vocab"], cfg["dim"], cfg["classes"])
    pre, ada = cfg["pretrain"], cfg["adapt"]
    loop(model, torch.optim.AdamW(model.parameters(), lr=pre["lr"]), Corpus(cfg, 0, 1), pre["steps"], "pretrain")

    optimizer = torch.optim.AdamW(model.parameters(), lr=ada["lr"], weight_decay=0.0)
    model = inject(model, ada["targets"], ada["rank"])
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"trainable parameters: {trainable}")
    loop(model, optimizer, Corpus(cfg, 20, 2), ada["steps"], "adapt")


if __name__ == "__main__":
    main(CONFIG)
