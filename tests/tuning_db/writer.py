"""A process that writes records until it is stopped, naming each on stdout once its call returned.

python -m tests.tuning_db.writer URL RUN_ID COUNT
"""

from __future__ import annotations

import sys

from tests.tuning_db.examples import confirmation, context, trial
from tuning_db.engine import open_database
from tuning_db.repository import Repository


def main(url: str, run_id: str, count: int) -> None:
    with open_database(url) as database:
        repository = Repository(database)
        repository.open_run(context(run_id))
        for number in range(count):
            print(repository.record(run_id, trial(number)), flush=True)
        repository.confirm(run_id, confirmation(0, 2.0))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
