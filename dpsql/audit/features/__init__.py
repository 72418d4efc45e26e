"""Features of a mechanism's outputs: the labels and the numbers that events are conditions on.

``extract`` lists them: ``labels``, ``numbers``, and from several numbers ``rows``; ``directions``
chooses combinations and digits that distinguish two samples.
"""

from dpsql.audit.features.extract import (
    LabelFeature,
    NumberFeature,
    label_features,
    number_features,
    row_features,
)

__all__ = ["LabelFeature", "NumberFeature", "label_features", "number_features", "row_features"]
