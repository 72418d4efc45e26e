"""Exact privacy accounting: the loss of mechanisms, what is charged for it, and what a budget admits.

`PrivacyLoss` is the loss of a mechanism or statement, a tuple of parts and a delta:

* It is made by `PrivacyLoss.of(epsilon, delta, times=n)`, `.gaussian(rho)`, or of the parts `PureDP`,
  `BoundedRange` and `Gaussian`. Losses are added with `+` and multiplied by `.repeated(n)`; `largest_loss`
  is at least each of several.
* `.charge` is basic composition (`Charge`; `InternalError` if there is Gaussian noise: `.epsilon` is None
  then), `.cost(order)` what is added at one order of Renyi divergence.
* `str(loss)` is its canonical text, such as `pure 1/10 x 5 + gauss 1/200 + delta 1/1000000`;
  `PrivacyLoss.parse` reads it back.
* `settle(reserved, realised)` is what is charged for a mechanism that has run. The cost of a realised
  loss itself is not valid. Losses of mechanisms are settled one by one, then added.
* `is_within(charged, reserved)`: whether each part of a loss is within the parts of another.

`Filter` is a budget of one scope (the policy, an analyst), `Totals` the sums kept for it:

* `Filter.of(budget, accounting, conversion_delta)` has the constants `.order_way` (`.order`, `.limit`).
* `filter.amounts(loss)` is what a loss adds to the scope's `Totals`, which have `+` and `-`.
* `filter.admits(totals, loss)`, with totals that hold the reserved loss of all that runs.
* `filter.spent(totals)` is the odometer, `filter.more(totals, loss)` how many like this are left.
"""

from dpsql.kernel.loss.charge import Charge, Number, exact
from dpsql.kernel.loss.composing import is_within, largest_loss, settle
from dpsql.kernel.loss.filter import Accounting, Filter, OrderLimit, Totals, approximate_epsilon
from dpsql.kernel.loss.privacy_loss import BoundedRange, Gaussian, Part, PrivacyLoss, PureDP, Realised, Stream
