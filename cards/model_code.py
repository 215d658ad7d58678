"""The code of a model card: ways to use a checkpoint, each pinned to one revision."""

from __future__ import annotations

import json
import re
from typing import Any

from . import model_facts as facts
from .model_facts import Manifest
from .text import Markdown

_PLAIN = re.compile(r"[A-Za-z0-9._/@-]*")
_AUTO = (
    ("ForSequenceClassification", "AutoModelForSequenceClassification"),
    ("ForConditionalGeneration", "AutoModelForImageTextToText"),
    ("ForCausalLM", "AutoModelForCausalLM"),
)


def literal(value: Any) -> str:
    """``value`` as Python on one line; nothing in it can end a fence or look like one of our markers."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return f'"{value}"'
    return ascii(value).replace("<", "\\x3c").replace("`", "\\x60")


class Ways:
    """Snippets for one manifest. Each holds everything that it needs but the row, which `row` gives."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.scalar = manifest["checkpoint"]["kind"] == "scalar"
        self.merged = manifest["checkpoint"]["layout"] == "merged"
        self.name = facts.repo(manifest)
        self.revision = f"v{manifest['identity']['version']}"
        self.checkpoint = f"{literal(self.name)}, revision={literal(self.revision)}"
        base = manifest["checkpoint"]["base"]
        self.base = f"{literal(base['repo'])}, revision={literal(base['commit'])}"
        self.dtype = f"torch.{manifest['checkpoint']['dtype']}"
        architecture = manifest["checkpoint"]["architecture"]
        self.auto = next((auto for end, auto in _AUTO if architecture.endswith(end)), "AutoModel")
        # A class of ours over the bodies of transformers, which knows it in no other process.
        self.stock = architecture != "Qwen3VLForSequenceClassification"
        self.labels = ", num_labels=1" if self.auto == "AutoModelForSequenceClassification" else ""

    @property
    def row(self) -> Markdown:
        """A row that it was not trained on, with the prompt that it was trained with."""
        data = self.manifest["identity"]["dataset"]
        revision = facts.dataset_commit(self.manifest) or data["revision"]
        split = next((one["split"] for one in self.manifest["evaluations"] if one["dataset"] == data), "validation")
        lines = [
            "from datasets import Image, List, load_dataset",
            "",
            "rows = load_dataset(",
            f"    {literal(data['repo'])}, {literal(facts.table(self.manifest))}, split={literal(split)},",
            f"    revision={literal(revision)},",
            ")",
        ]
        if facts.sees(self.manifest):
            lines += [
                'row = rows.cast_column("images", List(Image(decode=False)))[0]',
                'images = [image["bytes"] for image in row["images"]]  # as they were recorded, PNG or JPEG',
            ]
        else:
            lines += ["row = rows[0]", "images = []"]
        if not self.scalar and self.manifest["checkpoint"]["prompt"]["id"]:
            lines.append('n = len(row["order"])  # candidates that the prompt shows')
        elif not self.scalar:
            lines.append("n = 5  # candidates that the prompt shows; these rows do not say")
        return _block(lines)

    @property
    def ours(self) -> Markdown:
        """Our own API, which compares everything of the contract first."""
        if self.scalar:
            return _block([
                "from action_reward_models.inference.scalar import ScalarRewardModel",
                "",
                f"model = ScalarRewardModel.from_pretrained({self.checkpoint})",
                f'scores = model.score(row["prompt"], images, {self._replies})',
                "print(scores)  # one for each, the higher the better",
            ])  # fmt: skip
        return _block([
            "from action_reward_models.inference.selection import SelectionARM",
            "",
            f"model = SelectionARM.from_pretrained({self.checkpoint})",
            'reply = model.ask(row["prompt"], images, n)',
            "print(reply.status, reply.selected)  # ok 1: the first candidate that the prompt shows",
        ])  # fmt: skip

    @property
    def chosen(self) -> Markdown | None:
        """A state of one's own; None where nobody knows how to show one, because its rows came ready-made."""
        checkpoint = self.manifest["checkpoint"]
        if checkpoint["prompt"]["id"] is None:
            return None
        kind = "ScalarRewardModel" if self.scalar else "SelectionARM"
        seen = '"screenshot": images[0]' if facts.sees(self.manifest) else '"observation_text": "button Search"'
        ways = (checkpoint.get("candidates") or {}).get("spoken", [])
        said, more = "", ""
        if len(ways) == 1:
            points = f", points in {literal(ways[0]['space'])}" if ways[0]["space"] else ""
            said = f"  # as the policy writes them: {literal(ways[0]['dialect'])}{points}"
        else:
            known = ways or [{"dialect": "function", "space": "pixel"}]
            more = f", dialect={literal(known[0]['dialect'])}"
            more += f", space={literal(known[0]['space'])}" if known[0]["space"] else ""
        return _block([
            f"from action_reward_models.inference import {kind}",
            "",
            f"model = {kind}.from_pretrained({self.checkpoint})",
            f'state = {{"task": "Find a red chair", "url": "https://example.org/", {seen}}}',
            f'candidates = ["click(100, 200)", "click(40, 80)"]{said}',
            f"choice = model.choose(state, candidates{more})",
            "print(choice.status, choice.selected_index)  # ok 1: the second one; 0-based",
        ])  # fmt: skip

    @property
    def local(self) -> Markdown:
        """Our own API over folders, for what has no name on a Hub."""
        name, module = ("ScalarRewardModel", "scalar") if self.scalar else ("SelectionARM", "selection")
        found = self.merged or self.manifest["checkpoint"]["base"]["repo"] is not None
        base = "" if found else ', base=Path("BASE_FOLDER")'
        return _block([
            "from pathlib import Path",
            "",
            f"from action_reward_models.inference.{module} import {name}",
            "",
            f'model = {name}.open(Path("CHECKPOINT_FOLDER"){base})',
        ])  # fmt: skip

    @property
    def peft(self) -> Markdown:
        """Stock PEFT over stock transformers."""
        return _block([
            "import torch",
            "from peft import PeftModel",
            f"from transformers import {self.auto}",
            "",
            f"base = {self.auto}.from_pretrained(",
            f"    {self.base}{self.labels}, dtype={self.dtype}",
            ")",
            f"model = PeftModel.from_pretrained(base, {self.checkpoint}).eval()",
        ])  # fmt: skip

    @property
    def transformers(self) -> Markdown:
        """Stock transformers alone."""
        if self.merged:
            load = [
                f"model = {self.auto}.from_pretrained(",
                f"    {self.checkpoint}{self.labels}, dtype={self.dtype}",
                ").eval()",
            ]  # fmt: skip
        else:
            load = [
                f"model = {self.auto}.from_pretrained(",
                f"    {self.base}{self.labels}, dtype={self.dtype}",
                ")",
                f'model.load_adapter({literal(self.name)}, adapter_kwargs={{"revision": {literal(self.revision)}}})',
                "model.eval()",
            ]  # fmt: skip
        return _block(["import torch", f"from transformers import {self.auto}", "", *load])

    @property
    def run(self) -> Markdown:
        """The row through a model that was loaded with stock libraries."""
        processor = self.manifest["checkpoint"]["processor"]
        options = ", ".join(f"{literal(k)}: {literal(v)}" for k, v in sorted(processor["template_options"].items()))
        lines = [
            "from pathlib import Path",
            "",
            "from action_reward_models.inference.batches import arrays",
            "from action_reward_models.inference.processor import Limits, Processor",
            "from huggingface_hub import snapshot_download",
            "",
            f"folder = Path(snapshot_download({self.checkpoint}))",
            f"processor = Processor(folder, Limits(max_tokens={processor['max_tokens']}), {{{options}}})",
        ]
        if self.scalar:
            lines += [
                "model.config.get_text_config().pad_token_id = processor.pad_token_id  # a score is read before it",
                f'asked = [processor.scalar(row["prompt"], images, reply) for reply in {self._replies}]',
                "with torch.inference_mode():",
                "    print(model(**arrays(processor, asked, model)).logits[:, 0].tolist())",
            ]
        else:
            lines += [
                'asked = processor.selection(row["prompt"], images)',
                "with torch.inference_mode():",
                "    ids = model.generate(**arrays(processor, [asked], model), max_new_tokens=64, do_sample=False)",
                "print(processor.tokenizer.decode(ids[0, asked.prompt :], skip_special_tokens=True))",
            ]
        return _block(lines)

    @property
    def served(self) -> Markdown:
        """The merged model behind vLLM."""
        flags = " --runner pooling --convert classify" if self.scalar else ""
        whole = "--print-vllm   # the next command with limits, template and versions, and what to send"
        if self.merged:
            return _block([
                f"arm serve {self.name}@{self.revision} {whole}",
                f"vllm serve {self.name} --revision {self.revision}{flags}",
            ])  # fmt: skip
        folder = self.manifest["identity"]["name"]
        return _block([
            f"arm pull {self.name}@{self.revision}",
            f"arm merge {folder} --out {folder}-merged",
            f"arm serve {folder}-merged {whole}",
            f"vllm serve {folder}-merged{flags}",
        ])  # fmt: skip

    @property
    def request(self) -> str | None:
        """What a request to a server has to carry, so that the chat template writes what it wrote in training."""
        options = self.manifest["checkpoint"]["processor"]["template_options"]
        return f'"chat_template_kwargs": {json.dumps(options, sort_keys=True)}' if options else None

    @property
    def _replies(self) -> str:
        if facts.table(self.manifest) == "pointwise_scores":
            return '[row["completion"]]'
        return '[row["chosen"], row["rejected"]]'


def _block(lines: list[str]) -> Markdown:
    return Markdown("\n".join(lines))
