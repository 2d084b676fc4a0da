import torch
import torch.nn as nn


class TextClassifier(nn.Module):
    def __init__(self, vectors, classes=6, hidden=48):
        super().__init__()
        self.emb = nn.Embedding.from_pretrained(vectors, freeze=True)
        self.rnn = nn.GRU(vectors.shape[1], hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.1)
        self.fc = nn.Linear(2 * hidden, classes)

    def forward(self, ids):
        x = self.emb(ids)
        h, _ = self.rnn(x)
        return self.fc(self.drop(h.mean(1)))
