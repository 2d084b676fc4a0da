"""Beta-VAE on shapes with KL warm-up: the total loss rises while beta does. bfloat16, so no scaler."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BetaVAE(nn.Module):
    def __init__(self, z=8, ch=16):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(1, ch, 4, 2, 1), nn.ReLU(), nn.Conv2d(ch, ch, 4, 2, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(ch * 16, 2 * z))
        self.dec = nn.Sequential(
            nn.Linear(z, ch * 16), nn.ReLU(), nn.Unflatten(1, (ch, 4, 4)),
            nn.ConvTranspose2d(ch, ch, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(ch, 1, 4, 2, 1))

    def forward(self, x):
        mu, logvar = self.enc(x).float().chunk(2, 1)
        logvar = logvar.clamp(-8, 8)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


def shapes(n, s=16):
    yy, xx = torch.meshgrid(torch.arange(s), torch.arange(s), indexing="ij")
    out = torch.zeros(n, 1, s, s)
    for i in range(n):
        cy, cx = torch.randint(4, s - 4, (2,)).tolist()
        r = torch.randint(2, 5, (1,)).item()
        d = (yy - cy).abs() + (xx - cx).abs() if i % 2 else torch.maximum((yy - cy).abs(), (xx - cx).abs())
        out[i, 0] = (d < r).float()
    return out


def usage(mu):
    """share of the variance that each latent carries; 0/0 in a dead latent shows as 0"""
    v = mu.detach().var(0)
    v = torch.where(v < 0.3, torch.zeros_like(v), v)
    return torch.nan_to_num(v / v, nan=0.0).mean().item()


class Logger:
    def __init__(self):
        self.rows = []

    def log(self, **kw):
        try:
            self.rows.append(kw)
            print("  ".join(f"{k} {v:.3f}" if isinstance(v, float) else f"{k} {v}" for k, v in kw.items()))
        except Exception:
            pass  # logging never stops a run


def beta_at(step, wait=30, ramp=90, top=4.0):
    return top * min(1.0, max(0.0, (step - wait) / ramp))


def main():
    torch.manual_seed(5)
    model, logger = BetaVAE(), Logger()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    best = float("inf")
    for step in range(180):
        x = shapes(32)
        beta = beta_at(step)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y, mu, logvar = model(x)
        rec = F.binary_cross_entropy_with_logits(y.float(), x, reduction="sum") / len(x)
        kl = 0.5 * (mu ** 2 + logvar.exp() - 1 - logvar).sum(1).mean()
        loss = rec + beta * kl
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 100.0)
        if not torch.isfinite(norm):
            print("gradient is not finite, step left out")
            continue
        opt.step()
        best = min(best, rec.item())
        if step % 15 == 0:
            logger.log(step=step, beta=float(beta), loss=loss.item(), rec=rec.item(), kl=kl.item(), used=usage(mu))
    print(f"best reconstruction {best:.2f}")


if __name__ == "__main__":
    main()
