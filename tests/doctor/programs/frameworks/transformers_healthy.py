import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed


class Data(torch.utils.data.Dataset):
    def __init__(self, size):
        self.ids, self.labels = torch.randint(0, 100, (size, 12)), torch.randint(0, 3, (size,))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, at):
        return {"input_ids": self.ids[at], "attention_mask": (self.ids[at] > 10).long(), "labels": self.labels[at]}


GPU = torch.cuda.is_available()  # float16 needs one
set_seed(0)
config = BertConfig(
    vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, num_labels=3
)
arguments = TrainingArguments(
    output_dir="out", use_cpu=not GPU, bf16=not GPU, fp16=GPU, num_train_epochs=2, per_device_train_batch_size=8, logging_steps=2,
    gradient_accumulation_steps=2, report_to=[], save_strategy="no", eval_strategy="epoch", disable_tqdm=True,
)  # fmt: skip
trainer = Trainer(BertForSequenceClassification(config), arguments, train_dataset=Data(64), eval_dataset=Data(16))
trainer.train()
for entry in trainer.state.log_history:
    print(entry.get("loss"), entry.get("grad_norm"), entry.get("eval_loss"))
