import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from hyperbolic import exp_map0, poincare_distance, project

DEPTH, BRANCH, NEG, DIM = 4, 4, 6, 8
AMP = True


def build_tree():
    parent, level, frontier = {}, {0: 0}, [0]
    nxt = 1
    for d in range(1, DEPTH + 1):
        new = []
        for p in frontier:
            for _ in range(BRANCH):
                parent[nxt] = p
                level[nxt] = d
                new.append(nxt)
                nxt += 1
        frontier = new
    edges = []
    for c in parent:
        a = c
        while a in parent:
            a = parent[a]
            edges.append((c, a))
    return edges, level, nxt


class GlossEncoder(nn.Module):
    """Bag of gloss words -> point of the Poincare ball."""

    def __init__(self, n_nodes, n_words=400, words=5):
        super().__init__()
        g = torch.Generator().manual_seed(0)
        self.register_buffer("gloss", torch.randint(0, n_words, (n_nodes, words), generator=g))
        self.words = nn.EmbeddingBag(n_words, 32, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, DIM))

    def forward(self, nodes):
        h = self.mlp(self.words(self.gloss[nodes.flatten()]))
        with torch.autocast("cpu", enabled=False):
            p = project(exp_map0(h.float() * 0.5))
        return p.view(*nodes.shape, DIM)


def ranking_loss(model, child, anc, neg):
    u = model(child).unsqueeze(1)
    v = model(torch.cat([anc[:, None], neg], 1))
    with torch.autocast("cpu", enabled=False):
        dist = poincare_distance(u.float(), v.float())
        return F.cross_entropy(-dist, torch.zeros(len(child), dtype=torch.long))


def main():
    random.seed(5)
    torch.manual_seed(5)
    edges, level, n = build_tree()
    related = set(edges)
    model = GlossEncoder(n)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=AMP)
    t0 = time.perf_counter()
    for it in range(90):
        batch = random.sample(edges, 8)
        child = torch.tensor([c for c, _ in batch])
        anc = torch.tensor([a for _, a in batch])
        negs = []
        for c, _ in batch:
            row = []
            while len(row) < NEG:
                k = random.randrange(n)
                if (c, k) not in related:
                    row.append(k)
            negs.append(row)
        with torch.autocast("cpu", dtype=torch.float16, enabled=AMP):
            loss = ranking_loss(model, child, anc, torch.tensor(negs))
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        gnorm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        if it % 10 == 0 or it == 89:
            print(f"it {it:3d} loss {loss.item():.4f} |g| {gnorm.item():.3f} scale {scaler.get_scale():.3g}")
    print(f"done, {(time.perf_counter() - t0) / 90 * 1e3:.0f} ms per step" if t0 else "")


if __name__ == "__main__":
    main()
