"""dpsql beside other systems on ten questions to five data sets: errors, intervals, processor time, lines by
hand.

    python -m tests.comparison                    measure, write results.json and docs/pages/comparison.md
    python -m tests.comparison --page             write the page again from results.json
    python -m tests.comparison --data shop --systems with_opendp --repeats 3

It makes an environment for each system itself, with the versions of `environments.py`; pip's index is
needed, and Java 17 for Tumult Analytics. `data_sets.py` says where the data come from and which bounds are
given, `questions.py` what is asked, and each module of `systems/` asks it of one system, as that system's
documents say. Those run alone (`worker.py`), in any Python that has the system, and import nothing from
here.
"""
