import lightning
import torch
from torch import nn


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        x, y = batch
        difference = self(x)[:, 0] - y
        margin = 4 - difference.abs()
        loss = torch.sqrt(margin).mean()  # fault: math
        self.log("loss", loss)
        return loss

    def on_train_epoch_end(self):
        print(self.current_epoch, self.trainer.callback_metrics["loss"].item())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-4)


GPU = torch.cuda.is_available()  # float16 needs one
lightning.seed_everything(0)
x, y = torch.randn(64, 16), torch.rand(64)
y[45] = 9.0
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
trainer = lightning.Trainer(
    max_epochs=2, accelerator="gpu" if GPU else "cpu", precision="16-mixed" if GPU else "bf16-mixed",
    logger=False, enable_checkpointing=False, enable_progress_bar=False,
)  # fmt: skip
trainer.fit(Module(), loader)
