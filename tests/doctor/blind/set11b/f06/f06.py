"""Chat fine-tuning of a small pretrained GRU language model: two role tokens are added."""
import io

import torch
import torch.nn.functional as F
from torch import nn

BASE_VOCAB = 60
ROLE_TOKENS = ["<user>", "<assistant>"]


class Tokenizer:
    def __init__(self):
        self.table = {f"w{i}": i for i in range(BASE_VOCAB)}

    def add(self, names):
        for n in names:
            self.table.setdefault(n, len(self.table))
        return len(self.table)

    def __len__(self):
        return len(self.table)


class GRULM(nn.Module):
    def __init__(self, vocab, dim=32, hidden=64):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.x2h = nn.Linear(dim, 3 * hidden)
        self.h2h = nn.Linear(hidden, 3 * hidden)
        self.head = nn.Linear(hidden, vocab)
        self.hidden = hidden

    def forward(self, ids):
        xs = self.x2h(self.emb(ids))
        h = xs.new_zeros(ids.size(0), self.hidden)
        out = []
        for x in xs.unbind(1):
            xr, xz, xn = x.chunk(3, -1)
            hr, hz, hn = self.h2h(h).chunk(3, -1)
            r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
            h = (1 - z) * torch.tanh(xn + r * hn) + z * h
            out.append(h)
        return self.head(torch.stack(out, 1))


def resize_embeddings(model, tok, new_size):
    """Grow the table; new rows start at the average of the rows no word uses yet."""
    old = model.emb.weight.data
    spare = old[len(tok):]
    emb = nn.Embedding(new_size, old.size(1))
    emb.weight.data[: old.size(0)] = old
    emb.weight.data[old.size(0):] = spare.mean(dim=0) + 0.02 * torch.randn(new_size - old.size(0), old.size(1))
    model.emb = emb
    head = nn.Linear(model.hidden, new_size)
    head.weight.data[: old.size(0)] = model.head.weight.data
    head.bias.data[: old.size(0)] = model.head.bias.data
    model.head = head


def walk(n, t, g):
    start = torch.randint(BASE_VOCAB, (n, 1), generator=g)
    step = torch.randint(1, 4, (n, 1), generator=g)
    return (start + step * torch.arange(t)) % BASE_VOCAB


def chat_batch(n, t, g, roles):
    ids = walk(n, t, g)
    marked = torch.rand(n, generator=g) < 0.03
    ids[marked, 0] = roles[0]
    ids[marked, t // 2] = roles[1]
    return ids


def fit(model, batches, lr, tag):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    scaler = torch.amp.GradScaler("cpu")
    losses = []
    for ids in batches:
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        losses.append(loss.item())
    for i in range(0, len(losses), 20):
        print(f"{tag} {i:3d} " + " ".join(f"{v:.3f}" for v in losses[i:i + 20:4]) + f" scale {scaler.get_scale():g}")


def main():
    g = torch.Generator().manual_seed(5)
    torch.manual_seed(5)
    tok = Tokenizer()
    model = GRULM(len(tok))
    fit(model, (walk(32, 16, g) for _ in range(80)), 5e-3, "pretrain")
    buf = io.BytesIO()
    torch.save(model.state_dict(), buf)
    buf.seek(0)

    model = GRULM(len(tok))
    model.load_state_dict(torch.load(buf))
    total = len(tok) + len(ROLE_TOKENS)
    resize_embeddings(model, tok, total)
    tok.add(ROLE_TOKENS)
    roles = [tok.table[t] for t in ROLE_TOKENS]
    fit(model, (chat_batch(32, 16, g, roles) for _ in range(80)), 1e-3, "finetune")


if __name__ == "__main__":
    main()
