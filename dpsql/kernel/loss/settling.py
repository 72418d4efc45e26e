"""What a statement is charged in the end: its reserved loss, lowered to what its outcome realised."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpsql.errors import InternalError
from dpsql.kernel.loss.parts import Part, PureDP, Realised, Stream
from dpsql.kernel.loss.privacy_loss import PrivacyLoss


def settle(reserved: PrivacyLoss, realised: PrivacyLoss, *, stream: bool = False) -> PrivacyLoss:
    """Return the loss to charge for a mechanism that has run.

    Parameters
    ----------
    reserved
        The largest loss of a run.
    realised
        The loss by the run's outcome. Of one reserved pure mechanism, any parts: their sum counts. Of
        several parts, the realised ones stand at the same places; parts that did not run are left out at the
        end, and rounds by a smaller number of `times`: which ones ran must be told by what is released.
    stream
        Whether the mechanism took its questions one by one, so that other answers could come between.

    Returns
    -------
    PrivacyLoss
        A pure part with a smaller epsilon than reserved becomes `Realised`, or `Stream`. Selections of
        bounded range and Gaussian noise cost what was reserved for them.

    Raises
    ------
    InternalError
        If more is realised than was reserved, or the parts do not correspond.

    >>> one = PrivacyLoss.of(Fraction(1))
    >>> str(settle(one, PrivacyLoss.of(Fraction(1, 4)))), str(settle(one, one))
    ('sum 1/4 of 1', 'pure 1')
    >>> str(settle(PrivacyLoss.of(Fraction(1), times=10), PrivacyLoss.of(Fraction(1), times=3)))
    'pure 1 x 3'
    """
    if realised.delta > reserved.delta:
        raise InternalError("a mechanism's realised delta is more than what was reserved for it")
    if len(reserved.parts) == 1 and isinstance(reserved.parts[0], PureDP) and reserved.parts[0].times == 1:
        realised_epsilon = realised.epsilon
        if realised_epsilon is None:
            raise InternalError("a pure mechanism realised the loss of Gaussian noise")
        found = [_one(reserved.parts[0], realised_epsilon, 1, stream=stream)]
    else:
        if len(realised.parts) > len(reserved.parts) or stream:
            raise InternalError("a mechanism's realised loss does not correspond to what was reserved for it")
        found = [_part(*pair) for pair in zip(reserved.parts, realised.parts, strict=False)]
    return PrivacyLoss(tuple(part for part in found if part is not None), realised.delta)


def _part(reserved: Part, realised: Part) -> Part | None:
    if realised.times > reserved.times:
        raise InternalError("more rounds of a mechanism ran than were reserved")
    if isinstance(reserved, PureDP) and isinstance(realised, (PureDP, Realised)):
        return _one(reserved, realised.epsilon, realised.times, stream=False)
    if replace(reserved, times=realised.times) != realised:
        raise InternalError("a mechanism realised something else than what was reserved for it")
    return realised


def _one(reserved: PureDP, epsilon: Fraction, times: int, *, stream: bool) -> Part | None:
    """Return what so many rounds of a pure mechanism cost that realised an epsilon each."""
    if epsilon > reserved.epsilon:
        raise InternalError("a mechanism's realised epsilon is more than what was reserved for it")
    if epsilon == reserved.epsilon:
        return PureDP(epsilon, times)
    if stream:
        return Stream(epsilon, reserved.epsilon, times)
    return Realised(epsilon, reserved.epsilon, times) if epsilon else None
