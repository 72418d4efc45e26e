"""The figures and tables of the papers behind dpsql, measured again: `python examples/reproduce`.

====================  =========================================================================
``command``           the command line, the order of the experiments, what is written where
``sets``              the data: the papers' own where they can be had, else what stands in
``baskets``           a generator of market baskets, for when there are no data
``trials``            the product's mechanisms, many runs at once
``error_reduction``   what free gaps of a top-k are worth (Free Gap, figures 1b and 2b)
``one_noise``         one noise for all selected counts, beside both
``over_threshold``    the same for gaps over a threshold (figures 1a and 2a)
``reduction``         what theory expects of both, and how far chance may be off
``thresholds``        answers, precision, budget left (Free Gap, figures 3 and 4)
``hybrids``           top-k that stops at a threshold (dissertation, figures 5-7 and 5-8)
``significance``      p-values (dissertation, figure 5-9)
``unknown``           Top Stable and limited domain (Top Stable, tables 2 and 3, figure 1)
``boards``            the ladder: the best of 200 submissions (sparse vector lecture, exercise 2)
``models``            counts guessed by models: MedianOracle (sparse vector lecture, section 2)
``stable``            exact answers: First Stable and A_OQR (Top Stable, Algorithms 4 and 5)
``coverage``          whether 95% intervals cover 95%
``peer``, ``printed`` the Limited Domain mechanism as published, and the tables as printed
``svg``, ``page``     figures and the page, without JavaScript
====================  =========================================================================
"""
