"""Hyperbolic embedding of a taxonomy (Poincare ball) with a small text encoder."""
import random

import torch
import torch.nn as nn

DEPTH, BRANCH, DIM = 4, 3, 5


def build_tree():
    parents, level, nxt = {0: None}, [0], 1
    for _ in range(DEPTH):
        new = []
        for p in level:
            for _ in range(BRANCH):
                parents[nxt] = p
                new.append(nxt)
                nxt += 1
        level = new
    return parents


def closure(parents):
    pairs = []
    for node in parents:
        up = parents[node]
        while up is not None:
            pairs.append((node, up))
            up = parents[up]
    return pairs


def poincare_distance(u, v):
    uu = u.pow(2).sum(-1)
    vv = v.pow(2).sum(-1)
    gap = (u - v).pow(2).sum(-1)
    x = 1 + 2 * gap / ((1 - uu) * (1 - vv))
    return torch.log(x + torch.sqrt(x * x - 1 + 1e-6))


class Embedder(nn.Module):
    def __init__(self, n_nodes, n_grams=64):
        super().__init__()
        self.grams = nn.EmbeddingBag(n_grams, 24, mode="mean")
        self.to_ball = nn.Linear(24, DIM)
        self.node = nn.Embedding(n_nodes, DIM)
        nn.init.uniform_(self.node.weight, -1e-3, 1e-3)
        nn.init.normal_(self.to_ball.weight, std=1e-3)
        nn.init.zeros_(self.to_ball.bias)

    def forward(self, nodes, names):
        flat = names.reshape(-1, names.shape[-1])
        text = self.to_ball(self.grams(flat)).float().reshape(*nodes.shape, DIM)
        return self.node(nodes) + text


def main():
    random.seed(1)
    torch.manual_seed(1)
    parents = build_tree()
    n = len(parents)
    pairs = closure(parents)
    names = torch.randint(0, 64, (n, 6))
    model = Embedder(n)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for step in range(240):
        batch = random.sample(pairs, 32)
        child = torch.tensor([c for c, _ in batch])
        parent = torch.tensor([p for _, p in batch])
        noise = torch.randint(0, n, (32, 8))
        others = torch.cat([parent[:, None], noise], 1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            u = model(child[:, None], names[child][:, None])
            v = model(others, names[others])
        score = -poincare_distance(u, v)
        loss = nn.functional.cross_entropy(score, torch.zeros(32, dtype=torch.long))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            size = model.node.weight.detach().norm(dim=-1).max()
            print(f"step {step:3d} loss {loss.item():.4f} largest norm {size:.3f}")


if __name__ == "__main__":
    main()
