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
from dpsql.kernel.mechanisms import CheckStream, CheckStreamPlan, NoiseSource
from dpsql.kernel.noise import KeyedEntropy
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ThresholdKey:
    """The key from which a ledger draws the noise of its thresholds."""

    ledger: str
    """The random identifier of the ledger."""
    key: bytes = field(repr=False)

    def seal(self, plan: CheckStreamPlan, entry: int, number: int, opening: str) -> str:
        """Return the seal of the threshold of a stream: of an entry and a round, opened by an event."""
        checks = CheckStream(plan, threshold=self._source(entry, number, opening))
        figures = [str(plan.threshold_scale), str(plan.scale), plan.resolution, plan.noise]
        told = json.dumps([checks.threshold_steps, figures])
        return self._hash("seal", entry, number, opening, told).hex()

    def resume(self, plan: CheckStreamPlan, stream: StoredStream) -> CheckStream | None:
        """Return a stream with its own threshold and the misses that are used; None: the seal is another."""
        found = self.seal(plan, stream.entry, stream.round, stream.opening)
        if not hmac.compare_digest(found, stream.seal):
            return None
        source = self._source(stream.entry, stream.round, stream.opening)
        return CheckStream(plan, threshold=source, used=stream.used)

    def _source(self, entry: int, number: int, opening: str) -> NoiseSource:
        return NoiseSource(KeyedEntropy(self._hash("threshold", entry, number, opening, "")))

    def _hash(self, what: str, entry: int, number: int, opening: str, told: str) -> bytes:
        text = json.dumps([what, self.ledger, entry, number, opening, told])  # no two are written alike
        return hashlib.shake_256(self.key + text.encode()).digest(32)
