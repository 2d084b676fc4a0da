import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(8)
torch.set_num_threads(1)
PAD, VOCAB, CTX = 0, 50, 24


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5
        att = torch.softmax(score.float() + bias, dim=-1)
        return self.proj((att @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = Attention(d, heads)
        self.ff = nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))

    def forward(self, x, bias):
        x = x + self.att(self.n1(x), bias)
        return x + self.ff(self.n2(x))


class LM(nn.Module):
    def __init__(self, d=48, heads=4, layers=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.pos = nn.Embedding(CTX, d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, VOCAB)

    def attention_bias(self, ids):
        t = ids.size(1)
        eye = torch.eye(t, dtype=torch.bool)
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        allowed = causal & (ids != PAD)[:, None, :] | eye
        bias = torch.zeros(allowed.shape).masked_fill(~allowed, float("-inf"))
        return bias[:, None]

    def forward(self, ids):
        position = ((ids != PAD).cumsum(1) - 1).clamp(min=0)
        bias = self.attention_bias(ids)
        x = self.tok(ids) + self.pos(position)
        for blk in self.blocks:
            x = blk(x, bias)
        return self.head(self.norm(x))


def batch(size, gen):
    """Arithmetic progressions modulo VOCAB-1, left-padded to CTX + 1."""
    ids = torch.full((size, CTX + 1), PAD)
    for i in range(size):
        n = int(torch.randint(6, CTX + 2, (1,), generator=gen))
        start, stride = torch.randint(0, VOCAB - 1, (2,), generator=gen)
        stride = stride % 5 + 1
        ids[i, -n:] = 1 + (start + stride * torch.arange(n)) % (VOCAB - 1)
    return ids


gen = torch.Generator().manual_seed(8)
model = LM()
decay = [p for p in model.parameters() if p.dim() > 1]
rest = [p for p in model.parameters() if p.dim() <= 1]
opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}], lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 14)
bias = model.attention_bias(batch(1, gen)[:, :-1])
print("share of -inf in one mask:", f"{torch.isinf(bias).float().mean():.2f}")

for step in range(160):
    ids = batch(24, gen)
    inp, tgt = ids[:, :-1], ids[:, 1:].clone()
    tgt[inp == PAD] = -100  # the first real token cannot be predicted from padding
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(inp)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=-100)
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
    if torch.isnan(loss):
        raise RuntimeError("NaN loss")
    if step % 20 == 0 or step == 159:
        print(f"step {step:3d} loss {loss.item():.4f} norm {norm.item():.3f} scale {scaler.get_scale():g}")
