import numpy as np
import torch
from torch import nn

# Tabular regression: house prices from mixed features, entity embeddings for the categorical ones.
SEED = 13
torch.manual_seed(SEED)
rng = np.random.default_rng(SEED)

n = 2400
cats = np.stack([rng.integers(0, 12, n), rng.integers(0, 5, n)], axis=1)
nums = rng.standard_normal((n, 6))
effect_a, effect_b = rng.standard_normal(12), rng.standard_normal(5)
price = nums @ np.array([1.0, -0.5, 0.3, 0.0, 0.8, 0.2]) + effect_a[cats[:, 0]] + 0.5 * effect_b[cats[:, 1]] * nums[:, 0]
price = (price - price.mean()) / price.std() + 0.1 * rng.standard_normal(n)

ds = torch.utils.data.TensorDataset(
    torch.from_numpy(cats), torch.from_numpy(nums).float(), torch.from_numpy(price).float()
)
train, valid = torch.utils.data.random_split(ds, [2000, 400])


class TabularNet(nn.Module):
    def __init__(self, cards, n_num, hidden=(64, 32)):
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(c, 4) for c in cards])
        width = 4 * len(cards) + n_num
        layers = []
        for h in hidden:
            layers += [nn.Linear(width, h), nn.ReLU()]
            width = h
        self.mlp = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, c, x):
        e = [emb(c[:, i]) for i, emb in enumerate(self.embeds)]
        return self.mlp(torch.cat(e + [x], dim=1)).squeeze(1)


class Learner:
    def __init__(self, model, lr=0.02, warmup=50):
        self.model = model
        emb = [p for k, p in model.named_parameters() if k.startswith("embeds")]
        rest = [p for k, p in model.named_parameters() if not k.startswith("embeds")]
        self.opt = torch.optim.SGD(
            [{"params": rest, "weight_decay": 1e-4}, {"params": emb, "weight_decay": 0.0}],
            lr=lr, momentum=0.9,
        )
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda k: (k + 1) / warmup)
        self.crit = nn.MSELoss()

    def epoch(self, loader):
        self.model.train()
        tot = 0.0
        for c, x, y in loader:
            self.opt.zero_grad()
            loss = self.crit(self.model(c, x), y)
            loss.backward()
            self.opt.step()
            self.sched.step()
            tot += loss.item() * len(y)
        return tot / len(loader.dataset)

    @torch.no_grad()
    def score(self, loader):
        self.model.eval()
        return sum(((self.model(c, x) - y) ** 2).sum().item() for c, x, y in loader) / len(loader.dataset)


learner = Learner(TabularNet([12, 5], 6))
dl = torch.utils.data.DataLoader(train, batch_size=20, shuffle=True)
dv = torch.utils.data.DataLoader(valid, batch_size=200)
for ep in range(12):
    tr = learner.epoch(dl)
    print(f"ep {ep:2d} train {tr:.4f} valid {learner.score(dv):.4f}")
