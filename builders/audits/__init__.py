"""What a reader has to know of a dataset before trusting a number that was measured on it.

Every bucket feeds its `Audits` while it is built; `report` adds their partial results up. Nothing here changes a row,
except that ``labels: {conflicting: quarantine}`` keeps contradicting labels out of training rows.

The report stands in a manifest as ``identity.statistics.audits``. Shares are in [0, 1] and have four significant
digits; null is a share of nothing. Lists named ``named`` hold at most 20 findings; the numbers beside them count all.
"Usable labels" are those that feed training rows, at most one a candidate set.

    overlap: {TABLE: {FACT: {validation, both, near?}}}
        distinct values of the rows of validation, and how many of them rows of train have, too. TABLE is states or a
        table of training rows, and absent without rows of validation; FACT is state, episode, task, screenshot, prompt
        (with its pictures) and for states content (all that a prompt could show), episode, task, screenshot, host.
        near: of screenshots, those that train has not but that look like one it has. bench_items are compared with the
        training rows of all tables.
    screenshots: [{validation, train, bits}]
        the first 20 screenshots alike, as ids of a state (or ready-made row) of each split, and by how many of 128 bits
        they differ.
    near_tasks: {validation, near, named: [{validation, train, similarity, states: [of validation, of train]}]}
        tasks of validation that train has not, and those of them that are nearly one of train.
    benchmarks: [{name, tasks, exact, normalised, near, states: {train, validation},
                  named: [{ours, theirs, how, similarity, state}]}]
        our distinct tasks that a benchmark has, by the closest way in which it has them, and how many states have them.
    conflicting_picks: {handling: keep | quarantine, groups, labels, named: [{label, contradicts}]}
    agreement: {draws: {pairs, same, share}, repeats: {TEACHER: {pairs, exact, equivalent, exact_share,
                equivalent_share}}}
    slots: {sampled, shown: {n, observed: [...], expected: [...], statistic, df, p} | null}
        picks by slot (0-based), before shuffling and as prompts show them; p is null without two cells.
    no_choice: {sets, one_action, near_only, share}
    equivalent_picks: {labels, same, near, share}
    baselines: {labels: BASELINES, selection_sft: {SPLIT: BASELINES}}
        BASELINES: {n, uniform, first, most_common, word_overlap, longest, shortest: {exact, equivalent} | null}
    headroom: {sets, differs, share, verdict: no | unsure | go | null}
    distributions: {lengths: {candidate | TABLE.COLUMN: {n, mean, median, p95, bins: {LEAST: n}}},
                    verbs: {candidates | picks: {VERB: n}}, pair_types: {SPLIT: {TYPE: n}},
                    hosts: {distinct, top: [{host, states}], others: {hosts, states}}}
        lengths in characters; a bin reaches to the next, four to a power of two. The host "-" is unknown.
"""

from .feed import Audits
from .report import report

__all__ = ["Audits", "report"]
