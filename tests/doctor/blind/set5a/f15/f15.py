"""Image-text contrastive pretraining (toy CLIP) driven by a config dictionary."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

CONFIG = {
    "seed": 0,
    "steps": 32,
    "batch": 48,
    "optim": {"lr": 2e-3, "betas": (0.9, 0.98), "weight_decay": 0.01},
    "model": {"dim": 32, "width": 96, "temperature": 0.07},
    "amp": {
        "dtype": "float16",
        "init_scale": 2e16,
        "growth_interval": 500,
    },
    "log_every": 4,
}


class ImageTower(nn.Module):
    def __init__(self, width, dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.GELU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.GELU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, width), nn.GELU(), nn.Linear(width, dim),
        )

    def forward(self, x):
        return self.net(x)


class TextTower(nn.Module):
    def __init__(self, vocab, width, dim):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab, width, mode="mean")
        self.proj = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, dim))

    def forward(self, ids):
        return self.proj(self.emb(ids))


class ToyClip(nn.Module):
    def __init__(self, width, dim, temperature):
        super().__init__()
        self.image = ImageTower(width, dim)
        self.text = TextTower(64, width, dim)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / temperature)))

    def forward(self, img, txt):
        a = F.normalize(self.image(img).float(), dim=-1)
        b = F.normalize(self.text(txt).float(), dim=-1)
        return self.logit_scale.exp() * a @ b.t()


def pairs(n, g):
    """Colour of each quadrant, described by one word per quadrant."""
    color = torch.randint(0, 8, (n, 4), generator=g)
    rgb = torch.stack([(color >> k) & 1 for k in range(3)], dim=1).float()
    img = rgb.view(n, 3, 2, 2).repeat_interleave(8, 2).repeat_interleave(8, 3)
    img = img + 0.1 * torch.randn(img.shape, generator=g)
    words = color + 8 * torch.arange(4)
    return img, words


def contrastive(logits):
    target = torch.arange(len(logits))
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))


def train(cfg):
    torch.manual_seed(cfg["seed"])
    g = torch.Generator().manual_seed(cfg["seed"])
    model = ToyClip(**cfg["model"])
    opt = torch.optim.AdamW(model.parameters(), **cfg["optim"])
    amp = cfg["amp"]
    scaler = torch.amp.GradScaler("cpu", init_scale=amp["init_scale"], growth_interval=amp["growth_interval"])
    dtype = getattr(torch, amp["dtype"])
    for step in range(cfg["steps"]):
        img, txt = pairs(cfg["batch"], g)
        with torch.autocast("cpu", dtype=dtype):
            loss = contrastive(model(img, txt))
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        if step % cfg["log_every"] == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")


if __name__ == "__main__":
    train(CONFIG)
