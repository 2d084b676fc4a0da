"""Character transformer with gradient accumulation in half precision."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = ("it is a truth universally acknowledged that a single man in possession of a good "
        "fortune must be in want of a wife however little known the feelings of such a man ") * 8


class CharData:
    def __init__(self, text, block):
        self.vocab = sorted(set(text))
        lookup = {c: i for i, c in enumerate(self.vocab)}
        self.ids = torch.tensor([lookup[c] for c in text])
        self.block = block

    def batch(self, n):
        start = torch.randint(0, len(self.ids) - self.block - 1, (n,))
        x = torch.stack([self.ids[s:s + self.block] for s in start])
        y = torch.stack([self.ids[s + 1:s + self.block + 1] for s in start])
        return x, y


class TinyLM(nn.Module):
    def __init__(self, vocab, block, dim=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(block, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(dim, vocab)
        self.register_buffer("causal", torch.triu(torch.ones(block, block, dtype=torch.bool), 1))

    def forward(self, x):
        return self.head(self.enc(self.tok(x) + self.pos, mask=self.causal))


def optimise(model, opt, scaler, data, args):
    """One parameter update out of args.accum micro batches."""
    running = 0.0
    for micro in range(args.accum):
        x, y = data.batch(args.batch)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten()) / args.accum
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        running += loss.item()
    scaler.step(opt)
    scaler.update()
    opt.zero_grad(set_to_none=True)
    return running, norm.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--updates", type=int, default=30)
    ap.add_argument("--accum", type=int, default=4)
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--block", type=int, default=32)
    ap.add_argument("--clip", type=float, default=1.0)
    args = ap.parse_args()
    torch.manual_seed(1)
    data = CharData(TEXT, args.block)
    model = TinyLM(len(data.vocab), args.block)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)
    for u in range(args.updates):
        loss, norm = optimise(model, opt, scaler, data, args)
        if u % 5 == 0:
            print(f"update {u:3d} loss {loss:.4f} norm {norm:.3f}")


if __name__ == "__main__":
    main()
