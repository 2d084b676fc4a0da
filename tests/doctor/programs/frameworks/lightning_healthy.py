import lightning
import torch
from torch import nn


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("accuracy", self.net(x).argmax(-1).eq(y).float().mean())

    def on_train_epoch_end(self):
        print(self.current_epoch, self.trainer.callback_metrics["loss"].item())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


GPU = torch.cuda.is_available()  # float16 needs one
lightning.seed_everything(0)
data = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
loader = torch.utils.data.DataLoader(data, batch_size=8)
trainer = lightning.Trainer(
    max_epochs=3, accelerator="gpu" if GPU else "cpu", precision="16-mixed" if GPU else "bf16-mixed",
    gradient_clip_val=1.0, accumulate_grad_batches=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
)  # fmt: skip
model = Module()
trainer.fit(model, loader, loader)
print(sum(each.double().sum().item() for each in model.parameters()))
