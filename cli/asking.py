"""What `arm sample` and `arm label` share: going through the files, the question before money is spent, the end."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..schemas.errors import ArmError, UsageError
from . import generate_report, output

if TYPE_CHECKING:
    from ..registry import Registry
    from ..registry.endpoints import Known
    from ..registry.generated import Made, Verb
    from ..registry.generating import Generation
    from ..registry.standing import Standing, Way
    from ..servers.endpoints import Server

_STOPS = {
    "cap": "stopped: more would pass the cap on spending",
    "limit": "stopped: as many requests as --limit allows",
    "interrupt": "stopped by an interrupt; every answer is kept, and the same command goes on from there",
    "refused": "stopped: the server refuses, and would refuse the rest",
    "elsewhere": "the rest is being asked by another process",
}
Do = Callable[["Generation", "Server"], dict[str, Any]]


@dataclass
class Asking:
    """One run of a verb over the files that are meant.

    named: the file of servers that --endpoints names. failed: whether one of the files is not whole in the end.
    lacking: what they rest on, and is not whole.
    """

    registry: Registry
    verb: Verb
    servers: Known
    as_json: bool
    named: Path | None = None
    failed: bool = False
    lacking: list[Made] = field(default_factory=list)

    @classmethod
    def of(cls, registry: str, verb: Verb, endpoints: Path | None, as_json: bool) -> Asking:
        from ..registry import Registry
        from ..registry.endpoints import Known

        declared = Registry.load(registry)
        return cls(declared, verb, Known.of(declared.path.parent, endpoints), as_json, endpoints)

    def each(self, name: str | None, source: str | None, do: Do, *, known: bool = True) -> None:
        """Do it for each file, print what came of all as JSON if that is wanted, and end the command.

        known: whether the server has to be; without it, nothing is sent, and what is not known has no price.
        """
        from ..registry.generating import chosen, generation

        results = []
        for made in chosen(self.registry, self.verb, name, source):
            try:
                spec = self.registry.dataset(made.dataset).sources[made.number].generate
                assert spec is not None
                server = self._server(spec.endpoint, known)
                with output.progress() as show:
                    asked = generation(self.registry, made, show)
                told = do(asked, server)
            except UsageError:
                raise
            except (ArmError, OSError, UnicodeError) as error:  # the other files are still made
                problem = output.as_error(error)
                output.error(problem)
                told, self.failed = problem.to_json(), True
            results.append({"dataset": made.dataset, "path": made.name, **told})
        if self.as_json:
            output.data(results)
        click.get_current_context().exit(1 if self.failed else 0)

    def _server(self, name: str, known: bool) -> Server:
        from ..servers.endpoints import Server

        try:
            return self.servers.server(name)
        except ArmError as error:
            if known:
                raise
            output.note(output.one_line(f"no cost is known: {error.message}"))
            return Server(name, ())

    def tell(self, asked: Generation, server: Server, *, batch: bool = False) -> dict[str, Any]:
        """How far the file is, and what the rest would cost. Nothing is sent or written."""
        from ..registry.standing import standing

        found = standing(asked, server.prices.get(asked.spec.model), batch=batch)
        if not self.as_json:
            generate_report.say(found)
        return found.to_json()

    def begin(
        self, asked: Generation, server: Server, *, cap_usd: float | None, limit: int | None, yes: bool,
        batch: bool = False,
    ) -> Standing:  # fmt: skip
        """What is to be sent; whoever pays has agreed."""
        from ..builders.generate.seeding import seed_log
        from ..registry.standing import standing
        from ..servers.clients import check_key

        check_key(server)
        self._say_what_it_rests_on(asked)
        seed_log(asked.work)
        model = asked.spec.model
        found = standing(asked, server.prices.get(model), batch=batch)
        if found.to_ask and not self.as_json:
            generate_report.say(found)
            if limit is not None and limit < found.to_ask:
                click.echo(f"  by this run: {limit:,} requests at most")
        agreed(found, server, model, cap_usd=cap_usd, limit=limit, yes=yes, as_json=self.as_json)
        return found

    def _say_what_it_rests_on(self, asked: Generation) -> None:
        """What is not there yet is not shown to anybody, and asking for it later is another call."""
        from ..registry.generating import generation, rests_on
        from ..registry.standing import standing

        for other in rests_on(self.registry, asked.made):
            found = standing(generation(self.registry, other))
            if found.lacks:
                output.note(f"warning: {other.name}: {found.lacks}, and {asked.made.name} rests on it")
                self.lacking.append(other)

    def ask(
        self, asked: Generation, server: Server, *, in_flight: int | None, workers: int | None, cluster: str | None,
        cap_usd: float | None, limit: int | None, yes: bool,
    ) -> dict[str, Any]:  # fmt: skip
        """Ask live for what has no answer; write the file, and tell what came of it."""
        from ..builders.cluster import connect
        from ..builders.generate.run import run, run_everywhere
        from ..registry import graph
        from ..schemas.manifest import NAME as MANIFEST

        if cluster and workers:
            raise UsageError("--workers are processes of this machine, and --cluster has its own")
        found = self.begin(asked, server, cap_usd=cap_usd, limit=limit, yes=yes)
        if found.in_batch:
            raise ArmError(
                f"{found.in_batch:,} {found.unit} are in a batch, and would be paid twice", where=found.made.name,
                next_command=graph.making(self.registry, found.made, "collect") + "   # or cancel",
            )  # fmt: skip
        if not found.to_ask:
            return self.end(asked, server, sent=0, stopped=None)
        work, model = asked.work, asked.spec.model
        how: dict[str, Any] = {"in_flight": in_flight, "cap_usd": cap_usd, "limit": limit}
        with output.progress() as show, connect(cluster) if cluster else nullcontext() as executor:
            if executor:
                work.folder.mkdir(parents=True, exist_ok=True)
                executor.inspect(work.folder, [work.basis / MANIFEST])
                how |= {"workers": executor.workers, "executor": executor}
                ran = run_everywhere(work, server, model, **how, progress=show)
            elif workers:
                ran = run_everywhere(work, server, model, **how, workers=workers, progress=show)
            else:
                ran = run(work, server, model, **how, progress=show, notice=_noticed)
        if not self.as_json:
            output.note(generate_report.done(ran))
        told = self.end(asked, server, sent=ran.sent, stopped=ran.stop)
        if ran.stop == "interrupt":
            raise click.exceptions.Exit(130)
        return told

    def end(
        self, asked: Generation, server: Server, *, stopped: str | None, way: Way = "run", **more: Any
    ) -> dict[str, Any]:
        """Write the file, tell how far it is and what failed, and say what to do next.

        stopped: see `run.Stop`. way: how it is asked, by which the rest would be asked, too.
        """
        from ..registry.generating import write
        from ..registry.standing import advised, standing, words_of_failures

        write(asked)
        found = standing(asked, server.prices.get(asked.spec.model), batch=way == "submit")
        # What --limit left is as it was asked for, and what other processes are asking is theirs to tell.
        self.failed |= bool(found.failed) or not (found.whole or stopped in ("limit", "elsewhere"))
        failures = words_of_failures(asked) if found.failed else []
        if not self.as_json:
            generate_report.say(found)
            for outcome, words, n in failures:
                output.note(output.one_line(f"  {n:,} x {outcome}: {words}"))
            if stopped and not found.whole:
                output.note(_STOPS[stopped])
            if found.lacks or found.failed:
                whether = "" if found.lacks else "   # asks again for what failed; a build goes on without it"
                output.note(f"next: {self.typed(advised(self.registry, found, way))}{whether}")
            else:
                output.note(f"next: {self._next(found.made)}")
        said = [{"outcome": outcome, "detail": words, "requests": n} for outcome, words, n in failures]
        return {**found.to_json(), "failures": said, "stopped": stopped, **more}

    def typed(self, command: str) -> str:
        """``command`` with the file of servers that was named for this one."""
        return f"{command} --endpoints {shlex.quote(str(self.named))}" if self.named else command

    def _next(self, made: Made) -> str:
        from ..registry import graph
        from ..registry.generating import rests_on

        others = [m for m in self.registry.made if m.dataset == made.dataset]
        waiting = self.lacking or [m for m in others if not m.path.is_file()]
        waiting = waiting or [m for m in others if made in rests_on(self.registry, m)]  # it may have grown
        if waiting:
            return self.typed(graph.making(self.registry, waiting[0]))
        several = ["--name", made.dataset] if len(self.registry.datasets) > 1 else []
        return shlex.join(["arm", "build", str(self.registry.path), *several])


def agreed(
    found: Standing, server: Server, model: str, *, cap_usd: float | None, limit: int | None, yes: bool, as_json: bool
) -> None:
    """Ask before money is spent: where there is or may be a price, and nobody said how much, or not to ask."""
    if not found.to_ask or yes or cap_usd is not None:
        return
    price = server.prices.get(model)
    if price is not None:
        told, advice = generate_report.cost(found), "or --cap USD"
        if not (price.input or price.output):
            return
    elif server.prices or server.key is not None:
        told, advice = "; no price of it is declared", "or declare its price in endpoints.yaml; 0 where it is free"
    else:
        return
    what = f"{found.to_ask:,} requests to {server.name} ({model})"
    if limit is not None and limit < found.to_ask:
        what = f"{limit:,} of {what}"
        told = told.replace("; ", "; for all of them ", 1) if price else told
    output.confirm(f"send {what}{told}?", as_json, advice)


def _noticed(words: str) -> None:
    output.note(output.one_line(words))
