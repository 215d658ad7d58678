"""The trainers. Their modules import torch, transformers and TRL at the top: others import them where they train."""
