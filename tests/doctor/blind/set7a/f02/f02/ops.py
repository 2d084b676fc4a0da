import torch

EPS = 1e-8


def masked_mean(x, mask):
    m = mask.unsqueeze(-1).to(x.dtype)
    return (x * m).sum(1) / m.sum(1).clamp(min=1)


def unit(v):
    return v / (torch.linalg.vector_norm(v, dim=-1, keepdim=True) + EPS)


def info_nce(q, k, temperature=0.1):
    sim = q @ k.t() / temperature
    target = torch.arange(q.shape[0])
    return torch.nn.functional.cross_entropy(sim.float(), target)
