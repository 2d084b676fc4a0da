import argparse
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIELDS = [40, 25, 60, 10]


class DLRM(nn.Module):
    def __init__(self, fields, dense, dim=12):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, dim) for n in fields)
        self.bottom = nn.Sequential(nn.Linear(dense, 32), nn.ReLU(), nn.Linear(32, dim))
        pairs = (len(fields) + 1) * len(fields) // 2
        self.top = nn.Sequential(nn.Linear(dim + pairs, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, cats, dense):
        d = self.bottom(dense)
        vecs = torch.stack([d] + [t(cats[:, i]).to(d.dtype) for i, t in enumerate(self.tables)], 1)
        inter = vecs @ vecs.transpose(1, 2)
        i, j = torch.tril_indices(vecs.shape[1], vecs.shape[1], -1)
        return self.top(torch.cat([d, inter[:, i, j]], 1)).squeeze(1)


def click_log(n, seed):
    g = torch.Generator().manual_seed(seed)
    cats = torch.stack([torch.randint(0, f, (n,), generator=g) for f in FIELDS], 1)
    dense = torch.randn(n, 5, generator=g)
    affinity = torch.randn(FIELDS[0], FIELDS[2], generator=torch.Generator().manual_seed(99))
    logit = 1.5 * affinity[cats[:, 0], cats[:, 2]] + dense[:, 0] - 1.0
    return cats, dense, torch.bernoulli(torch.sigmoid(logit), generator=g)


def auc(scores, labels):
    order = scores.argsort()
    ranks = torch.empty(len(scores))
    ranks[order] = torch.arange(1, len(scores) + 1).float()
    p = labels.sum()
    return ((ranks[labels > 0].sum() - p * (p + 1) / 2) / (p * (len(labels) - p))).item()


class Run:
    def __init__(self, args):
        torch.manual_seed(args.seed)
        self.args = args
        self.train, self.valid = click_log(3000, 1), click_log(800, 2)
        self.model = DLRM(FIELDS, 5)
        self.opts = {
            "emb": torch.optim.Adagrad(self.model.tables.parameters(), lr=0.05),
            "mlp": torch.optim.Adam([*self.model.bottom.parameters(), *self.model.top.parameters()], lr=2e-3),
        }
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8192.0)

    def on_epoch_start(self, epoch):
        if epoch == self.args.freeze_after:
            print("embeddings stay fixed from now on")
            self.model.tables.requires_grad_(False)
            for opt in self.opts.values():
                opt.zero_grad(set_to_none=True)

    def step(self, idx):
        cats, dense, y = (t[idx] for t in self.train)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.binary_cross_entropy_with_logits(self.model(cats, dense), y)
        self.scaler.scale(loss).backward()
        for opt in self.opts.values():
            self.scaler.step(opt)
        self.scaler.update()
        for opt in self.opts.values():
            opt.zero_grad(set_to_none=True)
        return loss.item()

    @torch.inference_mode()
    def evaluate(self):
        self.model.eval()
        cats, dense, y = self.valid
        s = self.model(cats, dense)
        self.model.train()
        return auc(s, y)

    def __call__(self):
        for epoch in range(self.args.epochs):
            self.on_epoch_start(epoch)
            losses = [self.step(i) for i in torch.randperm(3000).split(100)]
            print(f"epoch {epoch}: logloss {sum(losses) / len(losses):.4f} auc {self.evaluate():.4f}")
        return 0


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--freeze-after", type=int, default=2)
    p.add_argument("--seed", type=int, default=8)
    sys.exit(Run(p.parse_args())())
