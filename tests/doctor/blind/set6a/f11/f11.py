"""CTR model: hashed id embeddings with SGD, dense tower with Adam."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class AdLog(Dataset):
    def __init__(self, n=3000, fields=4, buckets=200, seed=13):
        g = torch.Generator().manual_seed(13)
        taste = torch.randn(fields, buckets, generator=g)
        g.manual_seed(seed)
        self.ids = torch.randint(0, buckets, (n, fields), generator=g)
        self.dense = torch.randn(n, 6, generator=g)
        score = sum(taste[f][self.ids[:, f]] for f in range(fields)) + self.dense[:, 0]
        self.y = (torch.sigmoid(score) > torch.rand(n, generator=g)).float()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.ids[i], self.dense[i], self.y[i]


class WideDeep(nn.Module):
    def __init__(self, fields=4, buckets=200, dim=8):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(buckets, dim, sparse=False) for _ in range(fields))
        for e in self.emb:
            nn.init.normal_(e.weight, std=0.05)
        self.tower = nn.Sequential(nn.Linear(fields * dim + 6, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, ids, dense):
        cols = [e(ids[:, f]) for f, e in enumerate(self.emb)]
        return self.tower(torch.cat(cols + [dense], 1)).squeeze(1)


class Optimizers:
    """Both groups behind one interface so the loop stays short."""

    def __init__(self, model, scaler):
        self.dense = torch.optim.Adam(model.tower.parameters(), lr=2e-3)
        self.ids = torch.optim.SGD(model.emb.parameters(), lr=1.0, momentum=0.9)
        self.scaler = scaler

    def zero_grad(self):
        for o in (self.dense, self.ids):
            o.zero_grad(set_to_none=True)

    def step(self):
        self.scaler.step(self.dense)
        self.ids.step()
        self.scaler.update()


@torch.no_grad()
def validate(model, data):
    logit = model(data.ids, data.dense)
    return F.binary_cross_entropy_with_logits(logit, data.y).item()


def main():
    torch.manual_seed(2)
    loader = DataLoader(AdLog(), batch_size=100, shuffle=True)
    held_out = AdLog(1000, seed=14)
    model = WideDeep()
    scaler = torch.amp.GradScaler("cpu")
    opts = Optimizers(model, scaler)
    for epoch in range(3):
        tot = 0.0
        for ids, dense, y in loader:
            opts.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                logit = model(ids, dense)
            loss = F.binary_cross_entropy_with_logits(logit.float(), y)
            scaler.scale(loss).backward()
            opts.step()
            tot += loss.item()
        norm = torch.cat([e.weight.flatten() for e in model.emb]).norm().item()
        print(f"epoch {epoch} logloss {tot / len(loader):.4f} valid {validate(model, held_out):.4f} |emb| {norm:.2f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
