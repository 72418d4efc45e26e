"""The noise of a threshold that outlives processes: nowhere but behind a key that is kept secret.

The threshold of a lasting stream is drawn once: by the exact sampler on SHAKE-256 of the key, the ledger, the
stream, its round and the hash of the event that opened it. So each process finds the same noise, and nothing
that is stored tells it. Redrawing it would cost its whole share of the loss again. The seal of a stream is a
keyed hash of that noise, with the scales that its proof rests on. Under another key, in another ledger, or
with a sampler that takes its bits in another way, the seal is another one: then nothing more is checked.

*Private:* to whoever does not know the key, the bits are as good as random, and so is the seal.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import field

from dpsql.kernel.ledger.lasting_streams import StoredStream
from dpsql.kernel.mechanisms import CheckStream, CheckStreamPlan, NoiseSource, StableAnswers, StableStream
from dpsql.kernel.noise import KeyedEntropy
from dpsql.lazy_dataclass import dataclass

StreamPlan = CheckStreamPlan | StableAnswers
"""What is planned of a stream: of checks, or of exact answers."""


def _begin(
    plan: StreamPlan, threshold: NoiseSource, *, used: int = 0, asked: int = 0
) -> CheckStream | StableStream:
    if isinstance(plan, StableAnswers):
        return StableStream(plan, threshold=threshold, used=used, asked=asked)
    return CheckStream(plan, threshold=threshold, used=used)


@dataclass(frozen=True, slots=True)
class ThresholdKey:
    """The key from which a ledger draws the noise of its thresholds."""

    ledger: str
    """The random identifier of the ledger."""
    key: bytes = field(repr=False)

    def seal(self, plan: StreamPlan, entry: int, number: int, opening: str) -> str:
        """Return the seal of the threshold of a stream: of an entry and a round, opened by an event."""
        begun = _begin(plan, self._source(entry, number, opening))
        law, more = (plan, []) if isinstance(plan, CheckStreamPlan) else (plan.tests, [plan.tests.cutoff])
        figures = [str(law.threshold_scale), str(law.scale), law.resolution, law.noise, *more]
        told = json.dumps([begun.threshold_steps, figures])
        return self._hash("seal", entry, number, opening, told).hex()

    def resume(self, plan: StreamPlan, stream: StoredStream) -> CheckStream | StableStream | None:
        """Return a stream with its own threshold and the misses that are used; None: the seal is another."""
        found = self.seal(plan, stream.entry, stream.round, stream.opening)
        if not hmac.compare_digest(found, stream.seal):
            return None
        source = self._source(stream.entry, stream.round, stream.opening)
        return _begin(plan, source, used=stream.used, asked=stream.asked)

    def _source(self, entry: int, number: int, opening: str) -> NoiseSource:
        return NoiseSource(KeyedEntropy(self._hash("threshold", entry, number, opening, "")))

    def _hash(self, what: str, entry: int, number: int, opening: str, told: str) -> bytes:
        text = json.dumps([what, self.ledger, entry, number, opening, told])  # no two are written alike
        return hashlib.shake_256(self.key + text.encode()).digest(32)
