"""The typed query tree: what the analysis builds, and what each engine writes as its own SQL, once.

Nodes are frozen dataclasses: `Expr` an expression, `Query` rows with named columns, `Source` an item of FROM.

====================  ================================================================================
`Column`              a column of an item of FROM: generated (`t1.c0`), or `stored` in a declared table
`Constant`            a constant with its Python value; `Interval` and `ListOf` others
`Paren`               parentheses: no other node writes them around itself
`Binary`, `Unary`     AND, OR, comparisons, arithmetic; `Not`, `IsNull`, `IsTruth`, `InList`,
                      `Between`, `Like`
`Case`                CASE; `Call` a function by its name in DuckDB; `Canonical` one zero and one NaN
`Cast`                CAST or TRY_CAST; `Try` DuckDB's TRY
`Steps`               a DOUBLE as a whole number of steps; `Unscaled`, `Cut` a DECIMAL as one
`UtcTime`             an instant as the TIMESTAMP that a clock in UTC shows; `Moved` one by seconds
`Saturated`           a number cut to the ends of a narrower type; `Mean` an average of whole numbers
`Apply`               a `Form` of `functions.csv` with arguments; `Argument` their places in its template
`Element`, `Slice`    a part of a list or text; `Lambda` with its `Parameter`
`Aggregate`           an aggregate with DISTINCT, ORDER BY, FILTER; `Window` a function with OVER and `Frame`
`InQuery`             IN of a query; `Exists`; `ScalarQuery` its only value
`Select`              one SELECT of `Item`s, ordered by `OrderTerm`s; `SetOperation` of two queries
`Scan`                a declared table; `DomainScan` a declared domain; `Range` whole numbers; `Values`
`Derived`             a query as an item of FROM; `Join` of two items; `Unnest` of a list
`Bounded`, `Sampled`  rows of which each unit keeps few: in few groups, or few at all; written as SELECTs;
                      `FirstRows` the first of them in an order
`Scores`              units by how many bounds they exceed; `Above` ends, `Beyond` an interval: so, too
`Weighted`            the numbers of groups of rows of units, written as SELECTs; `Counted` what each counts
`OnDomain`            the numbers of all groups of `Candidates`; `OfDomain` of those that have rows
`Marked`              rows with a key that says whether their other keys are no candidates
`Decided`             the groups that a number decides, or the largest; `CellsOfDecided` the cells of each
====================  ================================================================================

``expressions`` and ``relations`` have these, ``relations`` also the nodes that say which groups there are;
``bounding``, ``counted``, ``row_shares`` and ``bound_searches`` those of what units add, ``chosen_rows`` of
what each keeps; ``period_units`` units of one period each; ``node`` the base classes and `facts` (columns
read, size); ``forms`` the functions; ``exact`` sums of whole numbers, and TRY around what could fail;
``writer`` its SQL.
"""

from dpsql.kernel.tree.bound_searches import FULL, Above, Beyond, Scores, Sums
from dpsql.kernel.tree.bounding import Weighted
from dpsql.kernel.tree.chosen_rows import Bounded, FirstRows, Sampled
from dpsql.kernel.tree.counted import (
    CappedRows,
    CappedSum,
    Counted,
    FewUnits,
    KeptValues,
    UnitMean,
    Units,
    UnitValue,
    WeightedRows,
)
from dpsql.kernel.tree.exact import guarded, total
from dpsql.kernel.tree.expressions import (
    EXACT,
    MOST,
    Aggregate,
    Apply,
    Argument,
    Between,
    Binary,
    Bound,
    Call,
    Canonical,
    Case,
    Cast,
    Column,
    Constant,
    Cut,
    Element,
    Exists,
    Frame,
    InList,
    InQuery,
    Interval,
    IsNull,
    IsTruth,
    Lambda,
    Like,
    ListOf,
    Mean,
    Moved,
    Not,
    OrderTerm,
    Parameter,
    Paren,
    Saturated,
    ScalarQuery,
    Slice,
    Steps,
    Try,
    Unary,
    Unscaled,
    UtcTime,
    Window,
)
from dpsql.kernel.tree.forms import Form, listed_forms
from dpsql.kernel.tree.node import (
    OPAQUE,
    Expr,
    KeptHash,
    Lowered,
    Node,
    Query,
    Source,
    facts,
    map_parts,
    parts,
    plain,
    replace_nodes,
    walk,
)
from dpsql.kernel.tree.relations import (
    DOMAIN_SCHEMA,
    Candidates,
    CellsOfDecided,
    Decided,
    Derived,
    DomainScan,
    Item,
    Join,
    Marked,
    Numbered,
    OfDomain,
    OnDomain,
    Range,
    Scan,
    Select,
    SetOperation,
    Unnest,
    Values,
    columns,
    conjunction,
    items,
    kept,
    list_tables,
)
from dpsql.kernel.tree.row_shares import Moment, RowSum
from dpsql.kernel.tree.writer import duckdb_sql, literal_sql, quote, utc_time_sql
