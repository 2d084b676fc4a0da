import torch
import torch.nn as nn
import torch.nn.functional as F

N_ITEMS, LEN, DIM = 120, 30, 48


def sessions(n, gen):
    """Zipf popularity with chains: item i is often followed by one fixed successor."""
    pop = 1.0 / torch.arange(1, N_ITEMS + 1).float() ** 1.1
    succ = torch.randperm(N_ITEMS, generator=gen)
    seq = torch.multinomial(pop, n * (LEN + 1), replacement=True, generator=gen).view(n, LEN + 1)
    for t in range(1, LEN + 1):
        follow = torch.rand(n, generator=gen) < 0.6
        seq[follow, t] = succ[seq[follow, t - 1]]
    return seq


class SASRec(nn.Module):
    def __init__(self):
        super().__init__()
        self.item = nn.Embedding(N_ITEMS, DIM)
        self.pos = nn.Embedding(LEN, DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.ff = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.ReLU(), nn.Linear(2 * DIM, DIM))
        self.n1, self.n2, self.n3 = nn.LayerNorm(DIM), nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.out = nn.Linear(DIM, N_ITEMS)
        nn.init.normal_(self.item.weight, std=0.1)
        nn.init.normal_(self.pos.weight, std=0.1)

    def forward(self, seq):
        h = self.item(seq) + self.pos.weight
        q, k, v = self.qkv(self.n1(h)).chunk(3, -1)
        h = h + F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=True)[:, 0]
        h = h + self.ff(self.n2(h))
        return self.out(self.n3(h))


def train_epoch(model, opt, seqs, bs=40):
    model.train()
    scaler = torch.amp.GradScaler("cpu")
    total = 0.0
    for b in seqs[torch.randperm(len(seqs))].split(bs):
        inp, tgt = b[:, :-1], b[:, 1:]
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(inp)
            loss = F.cross_entropy(logits.reshape(-1, N_ITEMS), tgt.reshape(-1), reduction="sum")
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(opt)
        scaler.update()
        total += loss.item()
    return total / seqs[:, 1:].numel(), scaler.get_scale()


@torch.no_grad()
def recall(model, seqs, k=10):
    model.eval()
    with torch.autocast("cpu", dtype=torch.float16):
        top = model(seqs[:, :-1])[:, -1].topk(k).indices
    return (top == seqs[:, -1:]).any(1).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(6)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(6)
    data = sessions(360, gen)
    train, val = data[:240], data[240:]
    model = SASRec()
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for epoch in range(12):
        loss, scale = train_epoch(model, opt, train)
        print(f"epoch {epoch:2d} loss/token {loss:.4f} recall@10 {recall(model, val):.3f} scale at end {scale:g}")
