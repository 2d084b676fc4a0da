"""Skip-gram embeddings (sparse) plus a dense topic classifier; warm-up from zero; float32 evaluation."""
import os
import tempfile
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, TOPICS, DIM = 120, 4, 16


def topic_of(w):
    return w % TOPICS


def documents(n, length, gen):
    topic = torch.randint(0, TOPICS, (n,), generator=gen)
    # the last twenty ids are reserved and never occur
    base = torch.randint(0, (VOCAB - 20) // TOPICS, (n, length), generator=gen) * TOPICS + topic[:, None]
    other = torch.randint(0, VOCAB - 20, (n, length), generator=gen)
    return torch.where(torch.rand(n, length, generator=gen) < 0.7, base, other), topic


class SkipGram(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Embedding(VOCAB, DIM, sparse=True)
        self.ctx = nn.Embedding(VOCAB, DIM, sparse=True)
        nn.init.normal_(self.inp.weight, std=0.1)
        nn.init.normal_(self.ctx.weight, std=0.1)

    def forward(self, c, o, neg):
        v = self.inp(c)
        pos = (v * self.ctx(o)).sum(-1)
        bad = torch.bmm(self.ctx(neg), v.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(pos) + F.logsigmoid(-bad).sum(-1)).mean()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(DIM, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1),
                                 nn.Linear(32, TOPICS))

    def forward(self, e):
        return self.net(e)


def warmup(opt, steps):
    return torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, s / steps))


def embed_phase(model, gen, steps=150):
    opt = torch.optim.SparseAdam(list(model.parameters()), lr=3e-2)
    for s in range(steps):
        doc, _ = documents(48, 8, gen)
        neg = torch.randint(0, VOCAB - 20, (48, 4), generator=gen)
        loss = model(doc[:, 0], doc[:, 1], neg)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if s % 30 == 0:
            print(f"[embed] {s:3d} loss {loss.item():.4f}")


def topic_phase(emb, net, gen, path, steps=80):
    opt = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    sched = warmup(opt, 15)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 15)
    for s in range(steps):
        doc, y = documents(32, 10, gen)
        with torch.no_grad():
            e = emb(doc).mean(1)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(net(e), y)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if s % 10 == 0:
            print(f"[topic] {s:3d} lr {sched.get_last_lr()[0]:.4f} loss {loss.item():.4f}")
        sched.step()
    torch.save({"net": net.state_dict(), "scaler": scaler.state_dict()}, path)


@torch.no_grad()
def evaluate(emb, path, gen):
    net = Classifier()
    net.load_state_dict(torch.load(path)["net"])
    net.eval()
    doc, y = documents(400, 10, gen)
    return (net(emb(doc).mean(1)).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(3)
    sg = SkipGram()
    embed_phase(sg, gen)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "topic.pt")
        topic_phase(sg.inp, Classifier(), gen, path)
        print("accuracy", evaluate(sg.inp, path, gen))
