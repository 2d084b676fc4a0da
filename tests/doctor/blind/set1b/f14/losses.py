import torch


def reconstruction(recon, target):
    return ((recon - target) ** 2).sum(dim=1)


def kl_divergence(mu, logvar):
    return -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(dim=1)


def elbo(recon, target, mu, logvar, beta):
    loss = (reconstruction(recon, target) + beta * kl_divergence(mu, logvar)).mean()
    return torch.nan_to_num(loss, nan=0.0, posinf=1e4, neginf=-1e4)
