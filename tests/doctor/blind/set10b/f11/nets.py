import torch
from torch import nn


class Teacher(nn.Module):
    def __init__(self, vocab, classes, dim=64):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 128, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2)
        self.cls = nn.Linear(dim, classes)

    def forward(self, ids):
        return self.cls(self.enc(self.emb(ids)).mean(1))


class Student(nn.Module):
    def __init__(self, vocab, classes, dim=24):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(dim, 48), nn.ReLU(), nn.Linear(48, classes))

    def forward(self, ids):
        return self.mlp(self.emb(ids))


class Distiller(nn.Module):
    """KL to the teacher with a learned temperature, kept above one."""

    def __init__(self, student, teacher):
        super().__init__()
        self.student = student
        self.teacher = teacher.requires_grad_(False).eval()
        self.log_t = nn.Parameter(torch.tensor(0.7))

    def outputs(self, ids):
        pair = [self.teacher(ids), self.student(ids)]
        return [o.float().detach() for o in pair]

    def forward(self, ids):
        soft, logits = self.outputs(ids)
        t = self.log_t.exp().clamp(min=1.0)
        target = torch.softmax(soft / t, dim=-1)
        guess = torch.log_softmax(logits / t, dim=-1)
        kl = (target * (target.clamp_min(1e-9).log() - guess)).sum(-1).mean()
        return kl * t.detach() ** 2, logits
