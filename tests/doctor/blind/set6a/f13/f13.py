"""VAE with a learned decoder variance on count-like measurements (fp16)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class VAE(nn.Module):
    def __init__(self, dim=20, latent=4, hidden=48):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, 2 * latent))
        self.dec = nn.Sequential(nn.Linear(latent, hidden), nn.SiLU())
        self.mean = nn.Linear(hidden, dim)
        self.log_prec = nn.Linear(hidden, dim)
        nn.init.constant_(self.log_prec.bias, 11.5)

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=-1)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        h = self.dec(z)
        return self.mean(h), self.log_prec(h), mu, logvar


def elbo(x, mean, log_prec, mu, logvar):
    prec = torch.exp(log_prec)
    nll = 0.5 * (prec * (x - mean) ** 2 - log_prec).sum(-1)
    kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(-1)
    per_sample = torch.nan_to_num(nll + kl, nan=0.0, posinf=0.0, neginf=0.0)
    return per_sample.mean()


class Run:
    def __init__(self):
        torch.manual_seed(8)
        self.net = VAE()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=2e-3)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        self.mix = torch.randn(4, 20) * 0.02

    def batch(self, n=128):
        return torch.randn(n, 4) @ self.mix + 0.003 * torch.randn(n, 20)

    def train(self, steps=60):
        for i in range(steps):
            x = self.batch()
            self.opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                mean, log_prec, mu, logvar = self.net(x)
                loss = elbo(x, mean, log_prec, mu, logvar)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.opt)
            self.scaler.update()
            if i % 6 == 0:
                err = (x - mean.float()).pow(2).mean().sqrt().item()
                print(f"{i:3d} elbo loss {loss.item():.3f} rmse {err:.4f} scale {self.scaler.get_scale():g}")


if __name__ == "__main__":
    Run().train()
