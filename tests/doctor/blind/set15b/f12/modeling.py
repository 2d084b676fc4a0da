import torch
import torch.nn as nn


class TinyEncoder(nn.Module):
    def __init__(self, vocab=200, d=48, layers=2, ctx=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(ctx, d)
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(d)

    def forward(self, ids):
        h = self.tok(ids) + self.pos.weight[: ids.size(1)]
        return self.norm(self.layers(h))


class IntentClassifier(nn.Module):
    """Encoder with a classifier on the mean of the hidden states."""

    def __init__(self, n_labels=2):
        super().__init__()
        self.encoder = TinyEncoder()
        self.classifier = nn.Linear(48, n_labels)

    def freeze_encoder(self):
        for p in self.encoder.parameters():
            p.requires_grad_(False)
        return self

    def set_num_labels(self, n):
        old = self.classifier
        self.classifier = nn.Linear(old.in_features, n)
        return self

    def forward(self, ids):
        return self.classifier(self.encoder(ids).mean(1))
