"""The paper's experiments.

Data flows one way::

    run/  ->  results/*.jsonl  ->  analyse/  ->  render/  ->  REPORT.md, figures/

`run` trains models and writes records. `analyse` reads the records and compares them with the
paper. `render` lays out what `analyse` found. All three use `store` (table files), `settings`
(which models and experiments there are) and `targets` (the paper's own figures); none of these
imports them, and `run` and `analyse` do not import each other.
"""
