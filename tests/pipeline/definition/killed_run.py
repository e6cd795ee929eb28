"""`python -m tests.pipeline.definition.killed_run pipeline run ...`: the command line, to be killed."""

from __future__ import annotations

from goqueue.cli import main

if __name__ == "__main__":
    main()
