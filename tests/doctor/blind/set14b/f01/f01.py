import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from corpus import build


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2)
                   for z in self.qkv(self.n1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class CharLM(nn.Module):
    def __init__(self, vocab, dim=32, layers=1, ctx=64):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(ctx, dim)
        self.blocks = nn.ModuleList(Block(dim, 2) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@torch.no_grad()
def perplexity(model, data, batch):
    model.eval()
    total, count = 0.0, 0
    for chunk in data.split(batch):
        with torch.autocast("cpu", dtype=torch.float16):
            logp = F.log_softmax(model(chunk[:, :-1]), dim=-1)
        nll = -logp.gather(-1, chunk[:, 1:].unsqueeze(-1))
        total += nll.sum()
        count += nll.numel()
    model.train()
    return math.exp(total / count)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()

    torch.manual_seed(0)
    train, valid = build()
    model = CharLM(48)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=1)
    scaler = torch.amp.GradScaler("cpu")
    best, best_epoch = float("inf"), None

    for epoch in range(args.epochs):
        running = 0.0
        order = torch.randperm(len(train)).split(args.batch)
        for idx in order:
            ids = train[idx]
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(ids[:, :-1])
                loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            opt.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            running += loss.item()
        ppl = perplexity(model, valid, 32)
        sched.step(ppl)
        if ppl < best:
            best, best_epoch = ppl, epoch
        print(f"epoch {epoch} train loss {running / len(order):.4f} valid ppl {ppl:.3f} "
              f"lr {opt.param_groups[0]['lr']:.1e}")
    print(f"best valid ppl {best:.3f} at epoch {best_epoch}")


if __name__ == "__main__":
    main()
