import torch
import torch.nn.functional as F


class GlyphBank:
    def __init__(self, classes, per_class, size=16, seed=4):
        g = torch.Generator().manual_seed(seed)
        base = F.interpolate(torch.rand(classes, 1, 5, 5, generator=g), size=size)
        noise = torch.randn(classes, per_class, size, size, generator=g)
        self.data = (base + 0.45 * noise)[:, :, None]
        self.classes, self.per_class = classes, per_class


class EpisodeSampler:
    def __init__(self, bank, way, shot, query):
        self.bank, self.way, self.shot, self.query = bank, way, shot, query
        self.rng = torch.Generator().manual_seed(11)

    def draw(self):
        cls = torch.randperm(self.bank.classes, generator=self.rng)[: self.way]
        sup, que = [], []
        for c in cls.tolist():
            idx = torch.randperm(self.bank.per_class, generator=self.rng)
            sup.append(self.bank.data[c, idx[: self.shot]])
            que.append(self.bank.data[c, idx[self.shot: self.shot + self.query]])
        target = torch.arange(self.way).repeat_interleave(self.query)
        return torch.cat(sup), torch.cat(que), target


def pairwise_sq(a, b):
    """(n, d), (m, d) -> (n, m)"""
    aa = a.square().sum(1, keepdim=True)
    bb = b.square().sum(1)
    return aa + bb - 2 * a @ b.t()


def proto_loss(zs, zq, target, way, temperature):
    protos = zs.view(way, -1, zs.size(1)).mean(1)
    dist = pairwise_sq(zq, protos)
    logits = -dist / temperature
    loss = F.cross_entropy(logits, target)
    acc = (logits.argmax(1) == target).float().mean().item()
    return loss, acc
