import torch
import torch.nn as nn
import torch.nn.functional as F

# node classification on a made-up citation graph: a few survey papers are cited by nearly everyone
torch.manual_seed(11)
N, CLASSES, FEATS = 400, 3, 24
label = torch.randint(0, CLASSES, (N,))
centre = torch.randn(CLASSES, FEATS)
feat = centre[label] + 1.2 * torch.randn(N, FEATS)

adj = torch.zeros(N, N)
for i in range(N):
    same = (label == label[i]).nonzero().flatten()
    picks = same[torch.randint(0, len(same), (6,))]
    adj[i, picks] = 1.0
    adj[i, torch.randint(0, N, (2,))] = 1.0
adj = ((adj + adj.t()) > 0).float()
surveys = torch.arange(0, N, 40)
adj[surveys] = (torch.rand(len(surveys), N) < 0.9).float()
adj[:, surveys] = adj[surveys].t()
adj.fill_diagonal_(1.0)

train = torch.rand(N) < 0.5
test = ~train


class PairNorm(nn.Module):
    def __init__(self, scale=1.0):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        x = x - x.mean(dim=0)
        rms = (1e-6 + x.pow(2).sum(dim=1).mean()).sqrt()
        return self.scale * x / rms


class SumConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.lin = nn.Linear(cin, cout)

    def forward(self, x, a):
        return a @ self.lin(x)


class Net(nn.Module):
    def __init__(self, hidden=48, depth=2):
        super().__init__()
        self.inp = nn.Linear(FEATS, hidden)
        self.convs = nn.ModuleList([SumConv(hidden, hidden) for _ in range(depth)])
        self.norms = nn.ModuleList([PairNorm(4.0) for _ in range(depth)])
        self.out = nn.Linear(hidden, CLASSES)

    def forward(self, x, a):
        x = F.relu(self.inp(x))
        for conv, norm in zip(self.convs, self.norms):
            x = F.relu(norm(conv(x, a)))
        return self.out(x)


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler("cpu")

for epoch in range(40):
    net.train()
    opt.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.float16):
        logits = net(feat, adj)
        loss = F.cross_entropy(logits[train].float(), label[train])
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    if epoch % 10 == 9:
        net.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            pred = net(feat, adj).argmax(1)
        acc = (pred == label)[test].float().mean()
        print(f"{epoch:3d} loss {loss.item():.4f} test acc {acc.item():.3f}")
