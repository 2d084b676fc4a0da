"""Fine-tune pretrained word vectors for topic classification."""
import logging
import random

import torch
import torch.nn.functional as F
from torch import nn

from vectors import FILLER, TOPICS, load_vectors, vocabulary

logger = logging.getLogger(__name__)


class CFG:
    docs = 1500
    length = 14
    batch = 50
    epochs = 5
    lr_head = 3e-3
    lr_emb = 1e-3
    seed = 13


def make_documents(vocab):
    rnd = random.Random(CFG.seed)
    names = list(TOPICS)
    docs, labels = [], []
    for _ in range(CFG.docs):
        label = rnd.randrange(len(names))
        words = []
        for _ in range(rnd.randint(6, CFG.length)):
            if rnd.random() < 0.25:
                words.append(rnd.choice(TOPICS[names[label]]))
            elif rnd.random() < 0.1:
                words.append(rnd.choice(TOPICS[rnd.choice(names)]))
            else:
                words.append(rnd.choice(FILLER))
        ids = [vocab[w] for w in words]
        docs.append(ids + [0] * (CFG.length - len(ids)))
        labels.append(label)
    return torch.tensor(docs), torch.tensor(labels)


class TopicNet(nn.Module):
    def __init__(self, table, classes):
        super().__init__()
        self.emb = nn.Embedding.from_pretrained(table, freeze=False, padding_idx=0)
        self.mix = nn.Linear(table.shape[1], 64)
        self.out = nn.Linear(64, classes)

    def forward(self, ids):
        h = F.relu(self.mix(self.emb(ids)))
        keep = ids.ne(0).unsqueeze(-1)
        h = (h * keep).sum(1) / keep.sum(1)
        return self.out(h)


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(CFG.seed)
    vocab = vocabulary()
    x, y = make_documents(vocab)
    xt, yt, xv, yv = x[:1200], y[:1200], x[1200:], y[1200:]
    net = TopicNet(load_vectors(vocab), len(TOPICS))
    optimizer = torch.optim.Adam([
        {"params": net.emb.parameters(), "lr": CFG.lr_emb},
        {"params": [*net.mix.parameters(), *net.out.parameters()], "lr": CFG.lr_head},
    ])
    for epoch in range(CFG.epochs):
        net.train()
        losses = []
        for idx in torch.randperm(len(xt)).split(CFG.batch):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(net(xt[idx]), yt[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        net.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            acc = (net(xv).argmax(1) == yv).float().mean().item()
        logger.info("epoch %d loss %.4f accuracy %.3f", epoch, sum(losses) / len(losses), acc)


if __name__ == "__main__":
    main()
