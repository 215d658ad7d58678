"""Run by a Python that has LLaMA-Factory: reads an exported folder as a training run does, and says what came of it.

    python llamafactory_reader.py FOLDER BASE RESULT

BASE holds a tokenizer and the settings of a picture processor. Everything is LLaMA-Factory's own: its arguments, its
template, its loader, converters, processors and picture plugin; only the model is left out. RESULT becomes JSON.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
from llamafactory.hparams import get_infer_args, get_train_args
from llamafactory.model import load_tokenizer
from omegaconf import OmegaConf

PACKAGES = ("llamafactory", "transformers", "datasets", "torch", "torchvision", "pillow")


def settings(recipe: Path, folder: Path, base: Path) -> dict[str, Any]:
    """The recipe as the command line reads it, for a machine without a GPU and for the base at hand."""
    read = OmegaConf.to_container(OmegaConf.load(recipe))
    assert isinstance(read, dict)
    read["model_name_or_path"] = str(base)
    if "export_dir" not in read:
        read |= {"use_cpu": True, "dataset_dir": str(folder)}
    return read


def processed(arguments: Any, base: Path) -> Any:
    """LLaMA-Factory's tokenizer and processor. A real one needs torchvision for its videos; without it the picture
    half stands for it, patched as LLaMA-Factory does."""
    loaded = load_tokenizer(arguments)
    if importlib.util.find_spec("torchvision") is None:
        from llamafactory.model.patcher import patch_processor
        from transformers import ProcessorMixin
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

        class PicturesProcessor(ProcessorMixin):  # type: ignore[misc]
            def __init__(self, image_processor: Any = None, tokenizer: Any = None, **kwargs: Any) -> None:
                ProcessorMixin.__init__(self, image_processor, tokenizer, **kwargs)
                self.video_processor = image_processor  # asked for its merge_size, and for nothing else

        pictures = Qwen2VLImageProcessorPil.from_pretrained(base)
        loaded["processor"] = PicturesProcessor(pictures, loaded["tokenizer"])
        patch_processor(loaded["processor"], loaded["tokenizer"], arguments)
    return loaded


def rows(dataset: Any, tokenizer: Any) -> list[dict[str, Any]]:
    """Each row as text: its tokens, and those of them that are trained."""
    found = []
    for row in dataset:
        sides = {}
        for name in ("input_ids", "chosen_input_ids", "rejected_input_ids"):
            if name in row:
                labels = row[name.replace("input_ids", "labels")]
                trained = [label for label in labels if label >= 0]
                sides[name.removesuffix("input_ids").rstrip("_") or "reply"] = {
                    "text": tokenizer.decode(row[name], skip_special_tokens=False),
                    "trained": tokenizer.decode(trained, skip_special_tokens=False),
                    "tokens": len(row[name]),
                }
        found.append({"images": row["images"] or [], **sides})
    return found


def main(folder: Path, base: Path, result: Path) -> None:
    said: dict[str, Any] = {"versions": {}, "recipes": [], "datasets": {}}
    for package in PACKAGES:
        if importlib.util.find_spec("PIL" if package == "pillow" else package):
            said["versions"][package] = metadata.version(package)
    for recipe in sorted(folder.glob("*.yaml")):
        read = settings(recipe, folder, base)
        if "export_dir" in read:
            get_infer_args(read)
        else:
            model, data, training, finetuning, _ = get_train_args(read)
            if training.do_train:
                loaded = processed(model, base)
                template = get_template_and_fix_tokenizer(loaded["tokenizer"], data)
                module = get_dataset(template, model, data, training, stage=finetuning.stage, **loaded)
                splits = {"train": module["train_dataset"]}
                splits |= {"validation": module["eval_dataset"]} if "eval_dataset" in module else {}
                for split, dataset in splits.items():
                    kind = recipe.stem.removeprefix("train_")
                    said["datasets"][f"{kind}_{split}"] = rows(dataset, loaded["tokenizer"])
        said["recipes"].append(recipe.name)
    result.write_text(json.dumps(said))


if __name__ == "__main__":
    main(*(Path(word).resolve() for word in sys.argv[1:4]))
