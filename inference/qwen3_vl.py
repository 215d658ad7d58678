"""Scalar models of the Qwen3-VL family, for which transformers 5.20 has no class: its body with a score on top.

The class is made as transformers makes ``Qwen3_5ForSequenceClassification``, so its weights have the same names:
``model.visual.*``, ``model.language_model.*`` and ``score.weight``. It is known in this process only: others open such
a checkpoint with this package, for transformers alone does not know the class that its manifest names.
"""

from __future__ import annotations

from functools import cache
from typing import Any


def register(config: Any) -> None:
    """Let ``AutoModelForSequenceClassification`` know the class of ``config``, if it is of this family and transformers
    has none."""
    import transformers

    known = transformers.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    if config.model_type == "qwen3_vl" and type(config) not in known:
        transformers.AutoModelForSequenceClassification.register(type(config), _made(), exist_ok=True)


@cache
def _made() -> Any:
    from transformers.modeling_layers import GenericForSequenceClassification
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLPreTrainedModel

    class Qwen3VLForSequenceClassification(GenericForSequenceClassification, Qwen3VLPreTrainedModel):  # type: ignore[misc]
        def forward(
            self,
            input_ids: Any = None,
            attention_mask: Any = None,
            position_ids: Any = None,
            past_key_values: Any = None,
            inputs_embeds: Any = None,
            pixel_values: Any = None,
            image_grid_thw: Any = None,
            mm_token_type_ids: Any = None,
            **more: Any,
        ) -> Any:
            """What `Trainer` and peft read the names of: pictures are given to the body."""
            return super().forward(
                input_ids=input_ids,
                attention_mask=attention_mask,
                position_ids=position_ids,
                past_key_values=past_key_values,
                inputs_embeds=inputs_embeds,
                pixel_values=pixel_values,
                image_grid_thw=image_grid_thw,
                mm_token_type_ids=mm_token_type_ids,
                **more,
            )

    return Qwen3VLForSequenceClassification
