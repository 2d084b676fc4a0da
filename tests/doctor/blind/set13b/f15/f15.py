"""Two-tower retrieval: the query and the document tower run side by side."""
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DOCS, DIM = 150, 96, 32


class Tower(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.bag = nn.EmbeddingBag(VOCAB, hidden)
        self.net = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, DIM))

    def forward(self, tok):
        return self.net(self.bag(tok))


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.doc = Tower(), Tower()
        self.pool = ThreadPoolExecutor(max_workers=2)

    def forward(self, q, d):
        jobs = [self.pool.submit(self.query, q), self.pool.submit(self.doc, d)]
        return tuple(j.result() for j in jobs)


class Index:
    """Document vectors for the nightly search index, two bytes a number."""

    def __init__(self):
        self.vec = torch.zeros(DOCS, DIM, dtype=torch.float16)

    def refresh(self, ids, z):
        self.vec.index_copy_(0, ids, z)


def corpus(g):
    return torch.randint(0, VOCAB, (DOCS, 14), generator=g)


def ask(docs, ids, g):
    cols = torch.randint(0, docs.size(1), (len(ids), 6), generator=g)
    return docs[ids].gather(1, cols)


def main():
    torch.manual_seed(14)
    g = torch.Generator().manual_seed(14)
    docs = corpus(g)
    model, index = TwoTower(), Index()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for epoch in range(24):
        for ids in torch.randperm(DOCS, generator=g).split(24):
            q = ask(docs, ids, g)
            with torch.autocast("cpu", dtype=torch.float16):
                zq, zd = model(q, docs[ids])
                logits = (F.normalize(zq.float(), dim=-1) @ F.normalize(zd.float(), dim=-1).t()).float() * 10.0
                loss = F.cross_entropy(logits, torch.arange(len(ids)))
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
        print(f"epoch {epoch} loss {loss.item():.4f}")
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        for ids in torch.arange(DOCS).split(32):
            _, z = model(ask(docs, ids, g), docs[ids])
            index.refresh(ids, z)
    probe = ask(docs, torch.arange(DOCS), g)
    with torch.no_grad():
        hits = (model.query(probe) @ F.normalize(index.vec.float(), dim=-1).t()).argmax(1) == torch.arange(DOCS)
    print(f"recall@1 {hits.float().mean().item():.3f}")
    model.pool.shutdown()


if __name__ == "__main__":
    main()
