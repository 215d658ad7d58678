"""States as prompts show them, rendered once for all the sets of a state."""

from __future__ import annotations

from ..prompts.options import PromptOptions
from ..prompts.render import Prompt, Rendered, StateView, load_prompt, load_prompt_file, rendered_sha256
from ..prompts.view import Unrenderable
from .scene import Scene
from .spec import PromptSpec

_KEPT = 64  # sets come sorted by state: only the newest states are asked for again


def load(spec: PromptSpec) -> Prompt:
    """The declared prompt with its options. Raises ArmError for unknown ids, options, or another digest."""
    options = PromptOptions.from_mapping(spec.options)
    if spec.file:
        return load_prompt_file(*spec.file, options)
    assert spec.id is not None
    return load_prompt(spec.id, options)


class Views:
    """The newest states, as prompts show them."""

    def __init__(self) -> None:
        self._views: dict[tuple[str, ...], StateView | Unrenderable] = {}
        self._scalars: dict[tuple[str, ...], tuple[Rendered, str]] = {}

    def state(self, prompt: Prompt, scene: Scene) -> StateView:
        """The state of ``scene`` in ``prompt``. Raises Unrenderable when it lacks what the prompt shows."""
        key = _key(prompt, scene)
        view = self._views.get(key)
        if view is None:
            if len(self._views) > _KEPT:
                self._views.clear()
            try:
                view = prompt.state(scene.state, scene.dialect, scene.view.space, scene.spoken)
            except Unrenderable as error:
                view = error
            self._views[key] = view
        if isinstance(view, Unrenderable):
            raise view
        return view

    def scalar(self, prompt: Prompt, scene: Scene) -> tuple[StateView, Rendered, str]:
        """(view, prompt that all candidates of the state share, its rendered digest). Raises Unrenderable."""
        view, key = self.state(prompt, scene), _key(prompt, scene)
        shown = self._scalars.get(key)
        if shown is None:
            if len(self._scalars) > _KEPT:
                self._scalars.clear()
            rendered = prompt.scalar(view)
            shown = self._scalars[key] = rendered, rendered_sha256(rendered.messages, rendered.images)
        return view, *shown


def _key(prompt: Prompt, scene: Scene) -> tuple[str, ...]:
    return prompt.sha256, scene.dialect, scene.view.space, scene.state["state_id"]
