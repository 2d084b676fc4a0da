"""LoRA fine-tuning of a small LM that was trained on another Markov chain."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from lora import EMA, inject

VOCAB, CTX, D = 32, 20, 48


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, 3 * D), nn.Linear(3 * D, D)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, 4, D // 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, D))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, D), nn.Embedding(CTX, D)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(D)
        self.head = nn.Linear(D, VOCAB, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[: ids.size(1)]
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x))


def chain(n, seed):
    g = torch.Generator().manual_seed(seed)
    nxt = torch.randint(0, VOCAB, (VOCAB, 2), generator=g)
    s = torch.randint(0, VOCAB, (n, CTX + 1), generator=g)
    for t in range(CTX):
        s[:, t + 1] = nxt[s[:, t], torch.randint(0, 2, (n,), generator=g)]
    return s


def lm_loss(model, s):
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(s[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), s[:, 1:].flatten())


def loop(model, params, data, steps, lr, tag, ema=None):
    opt = torch.optim.AdamW(params, lr=lr, weight_decay=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    for step in range(steps):
        s = data[torch.randint(0, len(data), (32,))]
        loss = lm_loss(model, s)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if ema:
            ema.update()
        if step % 25 == 0 or step == steps - 1:
            print(f"[{tag}] step {step:3d} loss {loss.item():.4f}")


def sensitivity(model, data):
    """Gradient norm per adapter on one batch, for the report; the gradients are thrown away."""
    lm_loss(model, data[:32]).backward()
    rows = {n: p.grad.norm().item() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad(set_to_none=True)
    return max(rows, key=rows.get), len(rows)


if __name__ == "__main__":
    torch.manual_seed(12)
    torch.set_num_threads(1)
    model = LM()
    loop(model, model.parameters(), chain(512, 1), 60, 4e-3, "pretrain")
    model.zero_grad(set_to_none=True)
    for p in model.parameters():
        p.requires_grad_(False)
    inject(model, {"qkv", "proj", "up", "down"})
    model.head.weight.requires_grad_(True)
    params = [p for p in model.parameters() if p.requires_grad]
    frozen = sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in params)
    print(f"trainable {sum(p.numel() for p in params)}, frozen {frozen}")
    new = chain(512, 2)
    print("most sensitive, tensors with a gradient:", *sensitivity(model, new))
    ema = EMA(params)
    loop(model, params, new, 110, 6e-3, "lora", ema)
    ema.swap()
    with torch.no_grad():
        print(f"EMA weights: loss {lm_loss(model, chain(512, 2)[:128]).item():.4f}")
    ema.swap()
