import math

import torch
import torch.nn as nn

from engine import Callback, Engine, MixedPrecision


class GraphBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.own, self.other = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, adj):
        degree = adj.sum(-1, keepdim=True).clamp(min=1)
        return torch.relu(self.norm(x + self.own(x) + (adj @ self.other(x)) / degree))


class Regressor(nn.Module):
    def __init__(self, kinds=4, dim=32):
        super().__init__()
        self.inp = nn.Linear(kinds, dim)
        self.blocks = nn.ModuleList(GraphBlock(dim) for _ in range(2))
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, nodes, adj):
        x = self.inp(nodes)
        for block in self.blocks:
            x = block(x, adj)
        return self.out(x.mean(1)).squeeze(-1)


def graphs(n, g, nodes=12, kinds=4):
    kind = torch.randint(kinds, (n, nodes), generator=g)
    adj = (torch.rand(n, nodes, nodes, generator=g) < 0.25).float().triu(1)
    adj = adj + adj.transpose(1, 2)
    value = torch.tensor([-1.0, 0.2, 0.5, 2.0])[kind]
    neighbours = torch.einsum("bij,bj->bi", adj, value) / adj.sum(-1).clamp(min=1)
    target = 3 * value.mean(1) + 2 * neighbours.mean(1)
    return nn.functional.one_hot(kind, kinds).float(), adj, target


def loader(data, size):
    return [tuple(t[i:i + size] for t in data) for i in range(0, len(data[0]), size)]


def objective(model, batch):
    nodes, adj, target = batch
    return nn.functional.mse_loss(model(nodes, adj), target)


class Log(Callback):
    def on_epoch_end(self, engine, epoch):
        m = engine.metrics
        print(f"epoch {epoch} train mse {m['train']:.4f} valid rmse {math.sqrt(m['valid']):.4f} "
              f"scale {engine.scaler.get_scale():g}")


if __name__ == "__main__":
    torch.manual_seed(4)
    g = torch.Generator().manual_seed(4)
    train, valid = loader(graphs(640, g), 32), loader(graphs(128, g), 32)
    model = Regressor()
    engine = Engine(model, torch.optim.Adam(model.parameters(), lr=2e-3), objective,
                    [MixedPrecision(), Log()])
    engine.fit(train, valid, epochs=6)
    print(f"after training: valid rmse {math.sqrt(engine.validate(valid)):.4f}")
