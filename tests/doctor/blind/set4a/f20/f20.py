"""Conditional VAE on small glyphs, fp16 autocast, YAML-like config."""
import torch
import torch.nn as nn
import torch.nn.functional as F

CONFIG = {
    "data": {"size": 12, "classes": 6, "noise": 0.05},
    "model": {"latent": 6, "hidden": 64},
    "optim": {"name": "Adam", "lr": 2e-3, "steps": 100, "batch": 48},
    "amp": {"init_scale": 2.0**30, "growth_interval": 200, "backoff_factor": 0.98},
}


def glyphs(n, cfg, gen):
    s, k = cfg["size"], cfg["classes"]
    y = torch.randint(k, (n,), generator=gen)
    img = torch.zeros(n, s, s)
    for i, c in enumerate(y.tolist()):
        o = int(torch.randint(0, 3, (1,), generator=gen))
        if c == 0:
            img[i, :, 4 + o] = 1
        elif c == 1:
            img[i, 4 + o, :] = 1
        elif c == 2:
            img[i].fill_diagonal_(1)
        elif c == 3:
            img[i, 2 + o : 9, 2 + o : 9] = 1
        elif c == 4:
            img[i, 3 + o, 2:10] = img[i, 2:10, 3 + o] = 1
        else:
            img[i, 2:10, 2 + o] = img[i, 2:10, 7 + o] = 1
    img = (img + cfg["noise"] * torch.rand(img.shape, generator=gen)).clamp(0, 1)
    return img.flatten(1), F.one_hot(y, k).float()


class CVAE(nn.Module):
    def __init__(self, pixels, classes, latent, hidden):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(pixels + classes, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent))
        self.dec = nn.Sequential(nn.Linear(latent + classes, hidden), nn.ReLU(), nn.Linear(hidden, pixels))

    def forward(self, x, y):
        mu, logvar = self.enc(torch.cat([x, y], 1)).float().chunk(2, 1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(torch.cat([z, y], 1)), mu, logvar


def elbo(logits, x, mu, logvar):
    rec = F.binary_cross_entropy_with_logits(logits.float(), x, reduction="none").sum(1)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1)
    return (rec + kl).mean()


def train(cfg):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    d, m, o = cfg["data"], cfg["model"], cfg["optim"]
    model = CVAE(d["size"] ** 2, d["classes"], m["latent"], m["hidden"])
    optimizer = getattr(torch.optim, o["name"])(model.parameters(), lr=o["lr"])
    scaler = torch.amp.GradScaler("cpu", **cfg["amp"])
    history = []
    for step in range(o["steps"]):
        x, y = glyphs(o["batch"], d, gen)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits, mu, logvar = model(x, y)
            loss = elbo(logits, x, mu, logvar)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        scaler.step(optimizer)
        scaler.update()
        history.append(loss.item())
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} elbo {sum(history[-20:]) / 20:.3f}")
    return history


if __name__ == "__main__":
    train(CONFIG)
