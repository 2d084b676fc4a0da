"""Named-entity tagger: BiLSTM-free convolutional tagger over padded sentences."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Tagger(nn.Module):
    def __init__(self, vocab, tags, dim=64):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.convs = nn.ModuleList(nn.Conv1d(dim, dim, 3, padding=1) for _ in range(2))
        self.out = nn.Linear(dim, tags)

    def forward(self, ids):
        h = self.emb(ids).transpose(1, 2)
        for conv in self.convs:
            h = h + F.relu(conv(h))
        return self.out(h.transpose(1, 2))


class SentenceSource:
    def __init__(self, vocab=120, tags=6, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.vocab, self.tags = vocab, tags
        self.table = torch.randint(0, tags, (vocab,), generator=self.g)

    def batch(self, n, t=20):
        ids = torch.randint(1, self.vocab, (n, t), generator=self.g)
        lens = torch.randint(8, t + 1, (n,), generator=self.g)
        pad = torch.arange(t)[None] >= lens[:, None]
        tags = self.table[ids]
        ids = ids.masked_fill(pad, 0)
        return ids, tags.masked_fill(pad, -100)


class Trainer:
    def __init__(self, model, lr, max_norm, amp):
        self.model = model
        self.amp = amp
        self.max_norm = max_norm
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", enabled=amp)

    def backward(self, loss):
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()

    def apply(self):
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return norm

    def step(self, ids, tags):
        with torch.autocast("cpu", dtype=torch.float16, enabled=self.amp):
            logits = self.model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=-100)
        self.backward(loss)
        self.apply()
        return loss.item()


def run(amp=True):
    torch.manual_seed(0)
    source = SentenceSource()
    trainer = Trainer(Tagger(120, 6), lr=0.2, max_norm=1.0, amp=amp)
    history = []
    for it in range(50):
        history.append(trainer.step(*source.batch(32)))
        if it % 10 == 9:
            print(f"iter {it + 1:3d}  loss {sum(history[-10:]) / 10:.4f}")


if __name__ == "__main__":
    run()
