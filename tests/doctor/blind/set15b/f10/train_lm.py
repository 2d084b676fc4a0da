import torch
import torch.nn as nn
import torch.nn.functional as F

from callbacks import EMACallback, GradClip, Printer
from trainer import Trainer

VOCAB, CTX = 40, 24


class CharLM(nn.Module):
    def __init__(self, d=64, heads=4, layers=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, d)
        self.pos = nn.Embedding(CTX, d)
        layer = nn.TransformerEncoderLayer(d, heads, 3 * d, dropout=0.0, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, VOCAB)

    def forward(self, ids):
        t = ids.size(1)
        h = self.tok(ids) + self.pos.weight[:t]
        mask = torch.triu(torch.ones(t, t, dtype=torch.bool), 1)
        return self.head(self.norm(self.enc(h, mask=mask)))


def text(n, gen):
    """First order Markov text."""
    nxt = torch.randint(0, VOCAB, (VOCAB, 3), generator=gen)
    seq = torch.zeros(n, CTX + 1, dtype=torch.long)
    seq[:, 0] = torch.randint(0, VOCAB, (n,), generator=gen)
    for t in range(CTX):
        seq[:, t + 1] = nxt[seq[:, t], torch.randint(0, 3, (n,), generator=gen)]
    return seq


def lm_loss(logits, y):
    return F.cross_entropy(logits.reshape(-1, VOCAB), y.reshape(-1))


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(0)
    seq = text(640, gen)
    ds = torch.utils.data.TensorDataset(seq[:, :-1], seq[:, 1:])
    loader = torch.utils.data.DataLoader(ds, batch_size=16, shuffle=True, generator=gen)
    model = CharLM()
    epochs = 4
    opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, nesterov=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=epochs * len(loader) // 2)
    clip = GradClip(1.0)
    Trainer(model, opt, sched, lm_loss, [clip, EMACallback(), Printer(clip)]).fit(loader, epochs)
