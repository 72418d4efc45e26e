"""The program: see the package."""

from tests.comparison.command import main

raise SystemExit(main())
