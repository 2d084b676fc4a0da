import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


class Layer(nn.Module):
    def __init__(self, d, heads=4):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = nn.MultiheadAttention(d, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        h = self.n1(x)
        x = x + self.att(h, h, h, need_weights=False)[0]
        return x + self.ff(self.n2(x))


class Encoder(nn.Module):
    def __init__(self, vocab=120, d=48, layers=2, classes=4, ckpt=True):
        super().__init__()
        self.hparams = dict(vocab=vocab, d=d, layers=layers, classes=classes, ckpt=ckpt)
        self.tok = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList([Layer(d) for _ in range(layers)])
        self.head = nn.Linear(d, classes)
        self.ckpt = ckpt

    def forward(self, ids):
        x = self.tok(ids)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.ckpt and self.training else layer(x)
        return self.head(x.mean(1))

    def save(self, path):
        torch.save({"hparams": self.hparams, "state": self.state_dict()}, path)

    @classmethod
    def load(cls, path):
        blob = torch.load(path)
        model = cls(**blob["hparams"])
        model.load_state_dict(blob["state"])
        return model
