import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(11)
VOCAB, DIM, MAXLEN, PAD = 200, 48, 14, 0


def make_pair(gen):
    topic = int(torch.randint(0, 8, (1,), generator=gen))
    base = 1 + topic * 24

    def sent():
        n = int(torch.randint(4, MAXLEN + 1, (1,), generator=gen))
        words = torch.randint(base, base + 24, (n,), generator=gen)
        noise = torch.randint(1, VOCAB, (n,), generator=gen)
        keep = torch.rand(n, generator=gen) < 0.8
        return torch.where(keep, words, noise)

    return sent(), sent(), topic


def pad(seqs):
    return nn.utils.rnn.pad_sequence(seqs, batch_first=True, padding_value=PAD)


class TokenSimilarity(nn.Module):
    """Late interaction retrieval: every token of the query looks for its best document token."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM, padding_idx=PAD)
        self.proj = nn.Linear(DIM, 32, bias=False)
        self.logit_scale = nn.Parameter(torch.tensor(0.0))

    def encode(self, tokens):
        h = self.proj(self.emb(tokens))
        return h / (h.norm(dim=-1, keepdim=True) + 1e-8)

    def forward(self, q_tok, d_tok):
        q, d = self.encode(q_tok), self.encode(d_tok)
        sim = torch.einsum("qid,kjd->qkij", q, d)
        dmask = (d_tok != PAD)[None, :, None, :]
        qmask = (q_tok != PAD).float()
        best = sim.masked_fill(~dmask, -1.0).amax(-1)
        score = (best * qmask[:, None]).sum(-1) / qmask.sum(-1)[:, None]
        return score.float() * self.logit_scale.exp() * 10


model = TokenSimilarity()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
scaler = torch.amp.GradScaler("cpu")
gen = torch.Generator().manual_seed(5)

for it in range(50):
    qs, ds, topics = [], [], []
    while len(qs) < 16:
        a, b, t = make_pair(gen)
        qs.append(a)
        ds.append(b)
        topics.append(t)
    topics = torch.tensor(topics)
    target = (topics[:, None] == topics[None, :]).float()
    target = target / target.sum(1, keepdim=True)

    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(pad(qs), pad(ds))
        loss = -(target * F.log_softmax(logits, dim=1)).sum(1).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if it % 10 == 0:
        print(it, loss.item(), scaler.get_scale())
