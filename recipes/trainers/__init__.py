"""TRL's trainers over conversations with pictures. Only modules in here import torch and TRL when they are imported.

What stands between TRL 1.16 and such conversations, and what is done about it:

* SFTTrainer takes pictures through a processor class of transformers, and those of the Qwen families need torchvision.
  RewardTrainer takes texts alone. So both are given the tokenizer and a dataset of row numbers, whose preparation is
  skipped; the collator (`batches`) makes the arrays with `inference.processor`, which evaluation and serving use, too.
* With a tokenizer SFTTrainer takes the model for one without pictures. That decides one thing: whether processes that
  train together look for weights that a batch leaves out. `settings` says it instead.
* RewardTrainer knows Bradley-Terry with a margin that is subtracted. The other losses are in `losses`; Bradley-Terry
  is TRL's own.
* Under mixed precision a head computes in bfloat16, whose scores have 8 bits. `models.Float32Head` does not.
"""
