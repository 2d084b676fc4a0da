"""Masked language model on a synthetic grammar, with accumulation and recipes."""
import torch
import torch.nn.functional as F
from torch import nn

from options import get_options

VOCAB, MASK, LENGTH = 32, 31, 16


class MaskedLM(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, dim), nn.Parameter(0.02 * torch.randn(LENGTH, dim))
        layer = nn.Conv1d
        self.convs = nn.ModuleList(layer(dim, dim, 5, padding=2) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        for conv, norm in zip(self.convs, self.norms):
            x = x + F.gelu(conv(norm(x).transpose(1, 2))).transpose(1, 2)
        return self.out(x)


class Grammar:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def batch(self, n):
        first = torch.randint(30, (n, 1), generator=self.g)
        ids = (first + 3 * torch.arange(LENGTH)) % 30
        hidden = torch.rand(ids.shape, generator=self.g) < 0.2
        return ids.masked_fill(hidden, MASK), ids, hidden


class FP16Trainer:
    def __init__(self, opt, model):
        self.opt, self.model = opt, model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=opt.lr)
        self.scaler = torch.amp.GradScaler("cpu", enabled=opt.fp16)
        self.num_updates = 0

    def forward_loss(self, sample):
        src, tgt, hidden = sample
        with torch.autocast("cpu", dtype=torch.float16, enabled=self.opt.fp16):
            logits = self.model(src)
        return F.cross_entropy(logits[hidden].float(), tgt[hidden])

    def train_update(self, samples):
        self.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for sample in samples:
            loss = self.forward_loss(sample)
            self.scaler.scale(loss / len(samples)).backward()
            total += loss.item() / len(samples)
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.opt.clip)
        self.scaler.step(self.optimizer)
        if self.opt.loss_scale is None:
            self.scaler.update()
        else:
            self.scaler.update(new_scale=self.opt.loss_scale)
        self.num_updates += 1
        return total, norm.item()


def main():
    opt = get_options()
    torch.manual_seed(opt.seed)
    data = Grammar(opt.seed)
    trainer = FP16Trainer(opt, MaskedLM())
    for u in range(opt.updates):
        loss, norm = trainer.train_update([data.batch(20) for _ in range(opt.update_freq)])
        if u % 10 == 0 or u == opt.updates - 1:
            print(f"update {u:3d} loss {loss:.4f} gnorm {norm:.3f} scale {trainer.scaler.get_scale():g}")


if __name__ == "__main__":
    main()
