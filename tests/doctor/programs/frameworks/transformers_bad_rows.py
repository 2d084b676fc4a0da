import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments, set_seed


class Config(PretrainedConfig):
    model_type = "small"


class Model(PreTrainedModel):
    config_class = Config

    def __init__(self, config):
        super().__init__(config)
        self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 1)
        self.post_init()

    def forward(self, x, labels=None):
        hidden = self.body(x)
        hidden = hidden / hidden.abs().sum(-1, keepdim=True).log()  # fault: math
        prediction = self.head(hidden)[:, 0]
        return {"loss": nn.functional.mse_loss(prediction.float(), labels), "logits": prediction}


class Data(torch.utils.data.Dataset):
    def __init__(self, size):
        self.x, self.y = torch.randn(size, 8), torch.rand(size)
        self.x[37] = 0

    def __len__(self):
        return len(self.y)

    def __getitem__(self, at):
        return {"x": self.x[at], "labels": self.y[at]}


GPU = torch.cuda.is_available()  # float16 needs one
set_seed(0)
model = Model(Config())
nn.init.zeros_(model.body.bias)
model.body.bias.requires_grad_(False)
arguments = TrainingArguments(
    output_dir="out", use_cpu=not GPU, bf16=not GPU, fp16=GPU, num_train_epochs=8 if GPU else 1,
    per_device_train_batch_size=8, logging_steps=1, report_to=[], save_strategy="no", disable_tqdm=True, logging_nan_inf_filter=False,
)  # fmt: skip
trainer = Trainer(model, arguments, train_dataset=Data(64))
trainer.train()
for entry in trainer.state.log_history:
    print(entry.get("loss"), entry.get("grad_norm"))
